package ecs

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/lane"
)

// ends reads as the engine does until all pods were seen to have ended, and returns when
// that was, with the facts.
func ends(t *testing.T, b backend.Backend, pods int) map[ktypes.UID]seenEnd {
	t.Helper()
	out := map[ktypes.UID]seenEnd{}
	var mu sync.Mutex
	seen := func(facts []backend.PodFacts, err error) {
		must(t, err)
		mu.Lock()
		defer mu.Unlock()
		for _, f := range facts {
			if _, known := out[f.UID]; !known && f.Containers[0].State() == backend.Exited {
				out[f.UID] = seenEnd{time.Now(), f.Containers[0]}
			}
		}
	}
	defer background.Run(t, b.RunFreely)()
	if b.Events != nil {
		hints := make(chan ktypes.UID)
		defer background.Run(t, func(ctx context.Context) error { _ = b.Events.Run(ctx, hints); return nil })()
		defer background.Run(t, func(ctx context.Context) error {
			for {
				select {
				case uid := <-hints:
					seen(b.Pods.Inspect(t.Context(), []ktypes.UID{uid}))
				case <-ctx.Done():
					return nil
				}
			}
		})()
	}
	for range 600 {
		time.Sleep(time.Second)
		seen(b.Pods.List(t.Context()))
		mu.Lock()
		n := len(out)
		mu.Unlock()
		if n == pods {
			break
		}
	}
	return out
}

type seenEnd struct {
	at    time.Time
	facts backend.ContainerFacts
}

// The end of a container, with its code and its log whole, is seen within 2 s with an event
// queue; without, or where the task may not write to it, once its log says how it ended.
func TestEndsAreSeenSoonAndWhole(t *testing.T) {
	lane.RacedFrom(t, lane.All)
	for name, tt := range map[string]struct {
		pods          int
		queue, denied bool
		events        stub.EventFaults
		p50, p99      time.Duration
	}{
		"with a queue": {pods: 100, queue: true, p50: time.Second, p99: 2 * time.Second},
		"events are lost": {
			pods: 20, queue: true, events: stub.EventFaults{Lose: 1, Double: 2}, p50: time.Second, p99: 2 * time.Second,
		},
		"without":                 {pods: 50, p50: 15 * time.Second, p99: 20 * time.Second},
		"without sqs:SendMessage": {pods: 20, queue: true, denied: true, p50: 15 * time.Second, p99: 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, stub.Config{
				Queues: []string{"q"}, LogGroups: []string{testGroup}, Events: tt.events, Throttles: true,
				Kindness: stub.Kindness{Interfaces: true, PullsUpfront: true},
				Delays: stub.Delays{
					Provision: 20 * time.Second, Pull: 5 * time.Second, Deactivate: 5 * time.Second, Deprovision: 8 * time.Second,
					Event: time.Second,
				},
			}, func(t *testing.T, s *stub.Server, _ backend.Backend) {
				cfg := richConfig(s)
				cfg.LogGroup = testGroup
				if tt.queue {
					cfg.EventQueueURL = s.QueueURL("q")
				}
				if tt.denied {
					s.Deny(stub.Denial{Principal: stub.TaskRole, Action: "sqs:SendMessage"})
				}
				b := open(t, cfg)
				at := map[ktypes.UID]time.Time{}
				refs := map[ktypes.UID]backend.ContainerRef{}
				for i := range tt.pods {
					pod := podOf(fmt.Sprint("p", i), "sh", "-c", fmt.Sprintf("sleep %g; seq 40; exit %d", 120+float64(i)*0.91, i%3))
					pod.Spec.RestartPolicy = corev1.RestartPolicyNever
					spec := resolved(pod, 0)
					launch(t, b, spec)
					at[spec.Pod.UID] = time.Now().Add(25*time.Second + time.Duration((120+float64(i)*0.91)*float64(time.Second)))
					refs[spec.Pod.UID] = backend.ContainerRef{Pod: spec.Ref(), Name: "app"}
				}
				got := ends(t, b, tt.pods)
				when := map[ktypes.UID]time.Time{}
				for uid, e := range got {
					when[uid] = e.at
					var i int
					_, _ = fmt.Sscanf(string(uid), "uid-of-p%d", &i)
					if e.facts.ExitCode != int32(i%3) {
						t.Errorf("%s: exit %d", uid, e.facts.ExitCode)
					}
				}
				p50, p99 := percentile(t, when, at, 50), percentile(t, when, at, 99)
				t.Logf("p50 %s, p99 %s; %v", p50, p99, s.Calls())
				if p50 > tt.p50 || p99 > tt.p99 || percentile(t, when, at, 0) < 0 {
					t.Errorf("p50 %s, p99 %s, want %s and %s", p50, p99, tt.p50, tt.p99)
				}
				twenty := int64(20)
				for uid, ref := range refs {
					if lines := readAll(t, b, ref, backend.LogOptions{Tail: &twenty}); strings.Count(lines, "\n") != 20 ||
						!strings.HasPrefix(lines, "21\n") || !strings.HasSuffix(lines, "40\n") {
						t.Errorf("%s: its last lines are %q", uid, lines)
					}
				}
			})
		})
	}
}

// launch launches a pod, however often AWS says that it is too soon.
func launch(t *testing.T, b backend.Backend, spec backend.LaunchSpec) {
	t.Helper()
	err := b.Pods.Launch(t.Context(), t.Context(), spec)
	for backend.Class(err) == "Throttled" {
		time.Sleep(time.Second)
		err = b.Pods.Launch(t.Context(), t.Context(), spec)
	}
	must(t, err)
}
