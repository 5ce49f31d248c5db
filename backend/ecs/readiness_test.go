package ecs

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/lane"
)

// probedSpec is a pod that is ready some time after its container has started, and later
// not any more.
func probedSpec(name string, ready time.Duration) backend.LaunchSpec {
	pod := podOf(name, "sh", "-c", fmt.Sprintf("unhealthy %g; healthy 100; unhealthy; sleep 100000", ready.Seconds()))
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}},
	}
	return resolved(pod, 0)
}

// follow reads as the engine does, every second and what is hinted at, and returns when each
// pod was first seen ready, and after that not ready.
func follow(t *testing.T, b backend.Backend, d time.Duration) (ready, unready map[ktypes.UID]time.Time) {
	t.Helper()
	ready, unready = map[ktypes.UID]time.Time{}, map[ktypes.UID]time.Time{}
	var mu sync.Mutex
	seen := func(facts []backend.PodFacts, err error) {
		must(t, err)
		mu.Lock()
		defer mu.Unlock()
		for _, f := range facts {
			v := f.Containers[0].Healthy
			if _, was := ready[f.UID]; v == nil {
				continue
			} else if *v && !was {
				ready[f.UID] = time.Now()
			} else if _, known := unready[f.UID]; !*v && was && !known {
				unready[f.UID] = time.Now()
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var reading sync.WaitGroup
	if b.Events != nil {
		hints := make(chan ktypes.UID)
		reading.Go(func() { _ = b.Events.Run(ctx, hints) }) // until the end
		reading.Go(func() {
			for {
				select {
				case uid := <-hints:
					seen(b.Pods.Inspect(t.Context(), []ktypes.UID{uid}))
				case <-ctx.Done():
					return
				}
			}
		})
	}
	for ctx.Err() == nil {
		time.Sleep(time.Second)
		seen(b.Pods.List(t.Context()))
	}
	reading.Wait()
	return ready, unready
}

// percentile is of delays after some instants.
func percentile(t *testing.T, seen, at map[ktypes.UID]time.Time, p int) time.Duration {
	t.Helper()
	var all []time.Duration
	for uid, when := range at {
		if seen[uid].IsZero() {
			t.Fatalf("%s was never seen", uid)
		}
		all = append(all, seen[uid].Sub(when))
	}
	slices.Sort(all)
	return all[(len(all)-1)*p/100]
}

// Readiness is seen within 2 s with an event queue, and without it, or without the right to
// write to it, when ECS shows it.
func TestReadinessIsSeenSoon(t *testing.T) {
	lane.RacedFrom(t, lane.All)
	const pods, coming = 40, 25 * time.Second
	for name, tt := range map[string]struct {
		queue, denied bool
		p50, p99      time.Duration
	}{
		"with a queue":            {queue: true, p50: time.Second, p99: 2 * time.Second},
		"without":                 {p50: 25 * time.Second, p99: 30 * time.Second},
		"without sqs:SendMessage": {queue: true, denied: true, p50: 25 * time.Second, p99: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, stub.Config{
				Queues: []string{"q"}, LogGroups: []string{testGroup}, Kindness: stub.Kindness{PullsUpfront: true},
				Delays: stub.Delays{Provision: coming - 5*time.Second, Pull: 5 * time.Second},
			},
				func(t *testing.T, s *stub.Server, _ backend.Backend) {
					cfg := richConfig(s)
					if tt.queue {
						cfg.EventQueueURL = s.QueueURL("q")
					}
					if tt.denied {
						s.Deny(stub.Denial{Principal: stub.TaskRole, Action: "sqs:SendMessage"})
					}
					b := open(t, cfg)
					at, later := map[ktypes.UID]time.Time{}, map[ktypes.UID]time.Time{}
					for i := range pods {
						after := 2*time.Minute + time.Duration(i)*910*time.Millisecond // when all are launched
						spec := probedSpec(fmt.Sprint("p", i), after)
						must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
						at[spec.Pod.UID] = time.Now().Add(coming + after)
						later[spec.Pod.UID] = at[spec.Pod.UID].Add(100 * time.Second)
					}
					before := s.Calls()["DescribeTasks"]
					ready, unready := follow(t, b, 6*time.Minute)
					for what, of := range map[string][2]map[ktypes.UID]time.Time{"ready": {ready, at}, "not ready": {unready, later}} {
						p50, p99 := percentile(t, of[0], of[1], 50), percentile(t, of[0], of[1], 99)
						t.Logf("%s: p50 %s, p99 %s; %d DescribeTasks", what, p50, p99, s.Calls()["DescribeTasks"]-before)
						if p50 > tt.p50 || p99 > tt.p99 || percentile(t, of[0], of[1], 0) < 0 {
							t.Errorf("%s: p50 %s, p99 %s, want %s and %s", what, p50, p99, tt.p50, tt.p99)
						}
					}
				})
		})
	}
}
