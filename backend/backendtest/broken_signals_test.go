package backendtest_test

import (
	"context"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// brokenSignals break the rules of Signals and SystemOOMs.
var brokenSignals = map[string]brokenBackend{
	"more is left than there is": {"signals/what_the_host_has_left", false, func(b backend.Backend) backend.Backend {
		return withSignals(b, func(f *backend.SignalFacts) { f.NodeFS.Available = f.NodeFS.Capacity + 1 })
	}},
	"the host has no memory": {"signals/what_the_host_has_left", false, func(b backend.Backend) backend.Backend {
		return withSignals(b, func(f *backend.SignalFacts) { f.Memory = nil })
	}},
	"the host's clock": {"signals/what_the_host_has_left", false, func(b backend.Backend) backend.Backend {
		return withSignals(b, func(f *backend.SignalFacts) { f.Time = f.Time.Add(time.Hour) })
	}},
	"signals know no context": {"signals/what_the_host_has_left", false, func(b backend.Backend) backend.Backend {
		inner := b.Signals
		b.Signals = signalsVia(func(ctx context.Context) (backend.SignalFacts, error) {
			return inner.Signals(context.WithoutCancel(ctx))
		})
		return b
	}},
	"kills of before are told": {"oom/of_a_host_that_has_memory", false, func(b backend.Backend) backend.Backend {
		inner := b.SystemOOMs
		b.SystemOOMs = oomsVia(func(ctx context.Context, after string) (backend.OOMKills, error) {
			found, err := inner.Await(ctx, after)
			found.Kills = append(found.Kills, backend.OOMKill{Process: "old", PID: 1})
			return found, err
		})
		return b
	}},
	"the first question has no answer": {"oom/of_a_host_that_has_memory", false, func(b backend.Backend) backend.Backend {
		b.SystemOOMs = oomsVia(func(context.Context, string) (backend.OOMKills, error) { return backend.OOMKills{}, nil })
		return b
	}},
}

type oomsVia func(context.Context, string) (backend.OOMKills, error)

func (f oomsVia) Await(ctx context.Context, after string) (backend.OOMKills, error) {
	return f(ctx, after)
}

type signalsVia func(context.Context) (backend.SignalFacts, error)

func (f signalsVia) Signals(ctx context.Context) (backend.SignalFacts, error) { return f(ctx) }

// withSignals changes what is measured.
func withSignals(b backend.Backend, edit func(*backend.SignalFacts)) backend.Backend {
	inner := b.Signals
	b.Signals = signalsVia(func(ctx context.Context) (backend.SignalFacts, error) {
		facts, err := inner.Signals(ctx)
		if err == nil {
			edit(&facts)
		}
		return facts, err
	})
	return b
}
