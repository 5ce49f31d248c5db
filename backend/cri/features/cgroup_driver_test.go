package features

import "testing"

func TestSystemdCgroup(t *testing.T) {
	for config, want := range map[string]bool{
		`{"containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{"options":{"SystemdCgroup":true}}}}}`:                        true,
		`{"containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{"options":{}},"other":{"options":{"SystemdCgroup":true}}}}}`: false,
		`{"systemdCgroup":true}`: true, "": false, "not json": false,
	} {
		if got := systemdCgroup(config); got != want {
			t.Errorf("%s: %v", config, got)
		}
	}
}
