package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/syncloop"
)

// TestHostShutdown: what a configuration gives pods reaches the engine, and shows in configz.
func TestHostShutdown(t *testing.T) {
	cri := &config.CRI{
		ShutdownGracePeriod:             config.Duration{Duration: 30 * time.Second},
		ShutdownGracePeriodCriticalPods: config.Duration{Duration: 10 * time.Second},
	}
	on := config.Backend{Type: config.BackendCRI, CRI: cri}
	if diff := cmp.Diff([]syncloop.ShutdownGrace{
		{Priority: 0, Grace: 20 * time.Second}, {Priority: 2_000_000_000, Grace: 10 * time.Second},
	},
		hostShutdown(on)); diff != "" {
		t.Error(diff)
	}
	shown := kubeletConfig(config.Configuration{Backend: on})
	if shown.ShutdownGracePeriod.Duration != 30*time.Second ||
		shown.ShutdownGracePeriodCriticalPods.Duration != 10*time.Second {
		t.Errorf("configz shows %v, %v", shown.ShutdownGracePeriod, shown.ShutdownGracePeriodCriticalPods)
	}
	for _, off := range []config.Backend{{Type: config.BackendCRI, CRI: &config.CRI{}}, {Type: config.BackendECS}} {
		if got := hostShutdown(off); got != nil {
			t.Errorf("%+v: %v", off, got)
		}
	}
	cri.ShutdownGracePeriod, cri.ShutdownGracePeriodCriticalPods = config.Duration{}, config.Duration{}
	cri.ShutdownGracePeriodByPodPriority = []config.ShutdownGroup{{Priority: 5, ShutdownGracePeriodSeconds: 7}}
	if got := kubeletConfig(config.Configuration{Backend: on}).ShutdownGracePeriodByPodPriority; len(got) != 1 ||
		got[0].Priority != 5 || got[0].ShutdownGracePeriodSeconds != 7 {
		t.Errorf("configz shows %v", got)
	}
}
