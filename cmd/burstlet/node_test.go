package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// describer answers as it is told.
type describer func() error

func (d describer) Describe(context.Context) (backend.NodeFacts, error) {
	return backend.NodeFacts{}, d()
}

func TestProbe(t *testing.T) {
	down := backend.Errorf(backend.ErrUnavailable, "connection refused")
	denied := backend.Errorf(backend.ErrDenied, "wrong key")
	unfit := backend.Errorf(backend.ErrUnsupported, "a kubelet runs on the host")
	for _, tt := range []struct {
		name string
		away bool
		err  error // until heals
		// heals is when it answers; 0 is never.
		heals time.Duration
		want  error
		took  time.Duration
	}{
		{name: "answers", away: true},
		{name: "answers late", err: down, heals: time.Second, took: time.Second},
		{name: "a host that answers late", away: true, err: down, heals: 5 * time.Second, took: 5 * time.Second},
		{name: "a runtime of this machine that is down ends the process", err: down, want: down, took: probeTimeout},
		{name: "a host that is down does not", away: true, err: down, took: probeAwayTimeout},
		{name: "a host that refuses the key does, at once", away: true, err: denied, want: denied},
		{name: "a host that pods cannot live on does, at once", away: true, err: unfit, want: unfit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timeout := probeTimeout
				if tt.away {
					timeout = probeAwayTimeout
				}
				began := time.Now()
				facts, err := probe(t.Context(), backend.Backend{Name: "cri", Node: describer(func() error {
					if tt.heals > 0 && time.Since(began) >= tt.heals {
						return nil
					}
					return tt.err
				})}, tt.away, timeout)
				if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if answers := tt.err == nil || tt.heals > 0; (facts != nil) != answers {
					t.Errorf("facts: %v, want some: %v", facts, answers)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("it took %s, want %s", took, tt.took)
				}
			})
		})
	}
}

// TestProbeOfASlowHost: an answer that takes longer than the probe is no reason to
// end.
func TestProbeOfASlowHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, err := probe(t.Context(), backend.Backend{Name: "cri", Node: slow{}}, true, probeAwayTimeout); err != nil {
			t.Errorf("got %v", err)
		}
		_, err := probe(t.Context(), backend.Backend{Name: "cri", Node: slow{}}, false, probeTimeout)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a runtime of this machine: got %v", err)
		}
	})
}

// TestRemovalOfASlowRemote: nothing starts a removal again that gave up, so it waits longer than a
// start does.
func TestRemovalOfASlowRemote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		denied := backend.Errorf(backend.ErrDenied, "the answer")
		e := &ender{podEngine: &podEngine{backend: backend.Backend{Name: "sim", Node: describer(func() error {
			if time.Since(began) < 20*time.Second {
				return backend.Errorf(backend.ErrUnavailable, "busy")
			}
			return denied
		})}}}
		if err := e.run(t.Context(), nil); !errors.Is(err, denied) {
			t.Errorf("after %s: %v; want what the remote answered after 20 s", time.Since(began), err)
		}
	})
}

type slow struct{}

func (slow) Describe(ctx context.Context) (backend.NodeFacts, error) {
	<-ctx.Done()
	return backend.NodeFacts{}, ctx.Err()
}
