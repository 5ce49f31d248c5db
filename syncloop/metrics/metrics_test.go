package metrics

import "testing"

// Whatever resources there are, the label has few values.
func TestReasonsOfRejectionsAreBounded(t *testing.T) {
	for reason, want := range map[string]string{
		"OutOfcpu": "OutOfcpu", "OutOfephemeral-storage": "OutOfephemeral-storage", "OutOfpods": "OutOfpods",
		"OutOfexample.com/gpu": "OutOfExtendedResources", "OutOfhugepages-2Mi": "OutOfExtendedResources",
		"NodeAffinity": "NodeAffinity",
	} {
		if got := rejectionWord(reason); got != want {
			t.Errorf("%s is counted as %s, want %s", reason, got, want)
		}
	}
}
