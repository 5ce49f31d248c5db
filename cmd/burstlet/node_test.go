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
				began := time.Now()
				facts, err := probe(t.Context(), backend.Backend{Name: "cri", Node: describer(func() error {
					if tt.heals > 0 && time.Since(began) >= tt.heals {
						return nil
					}
					return tt.err
				})}, tt.away)
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
		if _, err := probe(t.Context(), backend.Backend{Name: "cri", Node: slow{}}, true); err != nil {
			t.Errorf("got %v", err)
		}
		if _, err := probe(t.Context(), backend.Backend{Name: "cri", Node: slow{}}, false); !errors.Is(
			err, context.DeadlineExceeded,
		) {
			t.Errorf("a runtime of this machine: got %v", err)
		}
	})
}

type slow struct{}

func (slow) Describe(ctx context.Context) (backend.NodeFacts, error) {
	<-ctx.Done()
	return backend.NodeFacts{}, ctx.Err()
}
