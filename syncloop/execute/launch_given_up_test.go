package execute

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/plan"
)

// queuingPods wait for their turn, then take a while to launch.
type queuingPods struct {
	backend.Pods
	turn, takes time.Duration
	sent, made  int
}

func (p *queuingPods) Launch(ctx, wanted context.Context, _ backend.LaunchSpec) error {
	waiting, cancel := backend.While(ctx, wanted)
	defer cancel()
	select {
	case <-time.After(p.turn):
	case <-waiting.Done():
		return backend.Unmade(backend.Classed(backend.ErrUnavailable, waiting.Err()))
	}
	p.sent++
	select {
	case <-time.After(p.takes):
	case <-ctx.Done():
		return backend.Classed(backend.ErrUnavailable, ctx.Err())
	}
	p.made++
	return nil
}

func TestALaunchIsGivenUpUntilItIsSent(t *testing.T) {
	for name, tc := range map[string]struct {
		ends       time.Duration // the order to end the pod
		takes      time.Duration
		sent, made int
		class      string
	}{
		"no order":                       {time.Hour, 5 * time.Second, 1, 1, ""},
		"before":                         {0, 5 * time.Second, 0, 0, "Throttled"},
		"while it waits for its turn":    {5 * time.Second, 5 * time.Second, 0, 0, "Unavailable"},
		"once it is sent":                {12 * time.Second, 5 * time.Second, 1, 1, ""},
		"it has a deadline all the same": {12 * time.Second, time.Hour, 1, 0, "Unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				soft, end := context.WithCancel(t.Context())
				defer end()
				if tc.ends == 0 {
					end()
				} else {
					stop := time.AfterFunc(tc.ends, end)
					defer stop.Stop()
				}
				pods := &queuingPods{turn: 10 * time.Second, takes: tc.takes}
				x := &Runner{
					Backend: backend.Backend{Pods: pods}, Hold: func() {}, Record: func(string, string, string, string) {
						if tc.class != "" {
							t.Error("it is not the pod's matter: no Event")
						}
					},
				}
				r := x.act(t.Context(), soft, plan.Launch{Spec: backend.LaunchSpec{Pod: &corev1.Pod{}}})
				if got := backend.Class(r.Err); got != tc.class || pods.sent != tc.sent || pods.made != tc.made {
					t.Errorf("%q (%v), sent %d times, made %d", got, r.Err, pods.sent, pods.made)
				}
				if given := tc.sent == 0; r.GivenUp != given {
					t.Errorf("given up: %v", r.GivenUp)
				}
				var m plan.Memory
				m.Record(r)
				if _, lost := m.Lost[0]; lost != (tc.sent > tc.made) {
					t.Errorf("lost: %v", lost)
				}
			})
		})
	}
}
