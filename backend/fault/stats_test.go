package fault_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
	"github.com/burstlet/burstlet/backend/sim"
)

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fault.Script{Skew: time.Hour}
		r := sim.New(sim.Config{PodUnit: true})
		b := fault.Wrap(r.Backend(), s)
		launch := spec("u")
		launch.Containers = []backend.ContainerSpec{{
			Pod: launch.Pod, Container: corev1.Container{Name: "c", Image: "busybox"},
		}}
		if err := b.Pods.Launch(t.Context(), t.Context(), launch); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		expect := func(class string, pods int, at time.Duration) {
			t.Helper()
			facts, err := b.Stats.Stats(t.Context())
			wantClass(t, err, class)
			if len(facts.Pods) != pods {
				t.Errorf("%d pods, want %d", len(facts.Pods), pods)
				return
			}
			for _, p := range facts.Pods {
				if got := p.Time.Sub(begun); got != at || p.Containers[0].Time.Sub(begun) != at {
					t.Errorf("measured after %v, want %v", got, at)
				}
			}
		}
		expect("", 1, time.Hour)
		time.Sleep(time.Second)
		s.Add(fault.StatsStats, 1, fault.Fault{Stale: true})
		expect("", 1, time.Hour)
		expect("", 1, time.Hour+time.Second)
		s.Add(fault.StatsStats, 1, fault.Fault{Partial: true})
		expect("Unavailable", 0, 0)
		s.Add(fault.StatsStats, 1, fault.Fault{LoseReply: true})
		expect("Unavailable", 0, 0)
		if got := s.Calls(fault.StatsStats); got != 5 {
			t.Errorf("%d calls, want 5", got)
		}
	})
}
