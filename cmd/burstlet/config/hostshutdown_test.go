package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

func TestShutdownGroups(t *testing.T) {
	type groups = []config.ShutdownGroup
	for name, tt := range map[string]struct {
		fields string
		want   groups
		delay  time.Duration
		err    string
	}{
		"by default nobody looks": {},
		"a kubelet's two periods": {
			fields: "shutdownGracePeriod: 30s, shutdownGracePeriodCriticalPods: 10s",
			want:   groups{{0, 20}, {2_000_000_000, 10}}, delay: 34 * time.Second,
		},
		"by priority, lower ones first": {
			fields: "shutdownGracePeriodByPodPriority: [{priority: 1000, shutdownGracePeriodSeconds: 5}, {priority: -1, " +
				"shutdownGracePeriodSeconds: 60}]",
			want: groups{{-1, 60}, {1000, 5}}, delay: 69 * time.Second,
		},
		"less than a second": {
			fields: "shutdownGracePeriod: 500ms",
			err:    `backend.cri.shutdownGracePeriod: Invalid value: "500ms": must be 0s or at least 1s`,
		},
		"more for critical pods than for all": {
			fields: "shutdownGracePeriod: 5s, shutdownGracePeriodCriticalPods: 6s",
			err:    `backend.cri.shutdownGracePeriodCriticalPods: Invalid value: "6s": must be at most shutdownGracePeriod, 5s`,
		},
		"both ways": {
			fields: "shutdownGracePeriod: 5s, shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 5}]",
			err:    "backend.cri.shutdownGracePeriodByPodPriority: Forbidden: excludes shutdownGracePeriod",
		},
		"a priority twice": {
			fields: "shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 5}, {priority: 1, " +
				"shutdownGracePeriodSeconds: 6}]",
			err: "backend.cri.shutdownGracePeriodByPodPriority[1].priority: Duplicate value: 1",
		},
		"less than nothing": {
			fields: "shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: -5}]",
			err: "backend.cri.shutdownGracePeriodByPodPriority[0].shutdownGracePeriodSeconds: Invalid value: -5: must be " +
				"between 0 and 2147483648",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := config.Load(config.Sources{File: write(t, "apiVersion: burstlet.dev/v1alpha1\n"+
				"kind: BurstletConfiguration\nnode: {name: a}\nkubeletAPI: {selfSigned: true}\n"+
				"backend: {type: cri, cri: {"+tt.fields+"}}\n")})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, c.Backend.CRI.ShutdownGroups()); diff != "" {
				t.Error(diff)
			}
			if got := c.Backend.CRI.Settings().ShutdownDelay; got != tt.delay {
				t.Errorf("the host is to wait for %s, want %s", got, tt.delay)
			}
		})
	}
}
