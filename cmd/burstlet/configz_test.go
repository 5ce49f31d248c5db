package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// What a backend has no counterpart of is left out of configz.
func TestConfigzOfBackends(t *testing.T) {
	for _, tt := range []struct {
		name    string
		backend config.Backend
		seccomp *bool
		pids    *int64
	}{
		{"cri", config.Backend{Type: config.BackendCRI, CRI: &config.CRI{}}, new(false), new(int64(-1))},
		{
			"cri, hardened",
			config.Backend{Type: config.BackendCRI, CRI: &config.CRI{SeccompDefault: true, PodPidsLimit: 64}},
			new(true), new(int64(64)),
		},
		{"sim", config.Backend{Type: config.BackendSim}, nil, nil},
		{"another's section", config.Backend{Type: config.BackendECS, CRI: &config.CRI{PodPidsLimit: 64}}, nil, nil},
	} {
		got := kubeletConfig(config.Configuration{Backend: tt.backend})
		if diff := cmp.Diff(tt.seccomp, got.SeccompDefault); diff != "" {
			t.Errorf("%s: seccompDefault (-want +got):\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(tt.pids, got.PodPidsLimit); diff != "" {
			t.Errorf("%s: podPidsLimit (-want +got):\n%s", tt.name, diff)
		}
		if tt.seccomp != nil { // as the backend is told
			if told := tt.backend.CRI.Settings(); told.SeccompDefault != *tt.seccomp || told.PodPidsLimit != max(0, *tt.pids) {
				t.Errorf("%s: the backend has seccompDefault %v, podPidsLimit %d", tt.name, told.SeccompDefault, told.PodPidsLimit)
			}
		}
	}
}
