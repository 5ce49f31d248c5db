package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithin(t *testing.T) {
	all := map[string]string{"b": "12", "a": "12", "long": "1234567890", "burstlet.dev/x": ""}
	for bound, want := range map[int]map[string]string{
		0: {}, 3: {"a": "12"}, 6: {"a": "12", "b": "12"}, 19: {"a": "12", "b": "12"},
		20: {"a": "12", "b": "12", "long": "1234567890"},
	} {
		if diff := cmp.Diff(want, within(bound, all)); diff != "" {
			t.Errorf("%d bytes: %s", bound, diff)
		}
	}
}
