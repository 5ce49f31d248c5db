package backendtest_test

import (
	"context"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// brokenSignals break the rules of Signals.
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
