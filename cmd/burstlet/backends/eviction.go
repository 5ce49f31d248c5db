package backends

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/pause"
	"github.com/burstlet/burstlet/syncloop/eviction"
)

const (
	// measureTimeout bounds the measurement of a host that is being diagnosed.
	measureTimeout = 15 * time.Second
	measureRetry   = 200 * time.Millisecond
	whatEviction   = "eviction"
)

// diagnoseEviction says whether pods would be evicted on this host as it is now. It is asked
// only of a host with which nothing else is wrong.
func diagnoseEviction(
	ctx context.Context, n Node, open func(context.Context, Node) (backend.Backend, error),
) []backend.Finding {
	policy := n.Config.Eviction.Policy()
	if len(policy.Thresholds) == 0 {
		return []backend.Finding{
			backend.Good(whatEviction, "there are no thresholds: no pod is evicted before its host has run out of something"),
		}
	}
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	facts, err := measureHost(ctx, n, open)
	if err != nil {
		return []backend.Finding{
			backend.Doubtful(whatEviction, "the host is not measured: "+err.Error(), "no pod is evicted meanwhile"),
		}
	}
	return []backend.Finding{evictionFinding(policy, facts)}
}

// evictionFinding judges a measurement.
func evictionFinding(policy *eviction.Policy, facts *backend.SignalFacts) backend.Finding {
	if warnings := eviction.Warnings(policy, eviction.Observe(facts, nil)); len(warnings) > 0 {
		return backend.Doubtful(whatEviction, strings.Join(warnings, "; ")+
			": as on a kubelet's node, pods are evicted, and new ones refused",
			"make room on the host, or set eviction.evictionHard")
	}
	return backend.Good(whatEviction, "the host has more left than the thresholds say")
}

// measureHost runs the backend for one measurement; it may change nothing.
func measureHost(
	ctx context.Context, n Node, open func(context.Context, Node) (backend.Backend, error),
) (*backend.SignalFacts, error) {
	n.May = nil
	b, err := open(ctx, n)
	if err != nil {
		return nil, err
	}
	run, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- b.Run(run, nil) }()
	facts, err := firstSignals(ctx, b.Signals)
	stop()
	return facts, errors.Join(err, <-done)
}

// firstSignals asks until there is an answer, or the context ends.
func firstSignals(ctx context.Context, signals backend.Signals) (*backend.SignalFacts, error) {
	for {
		facts, err := signals.Signals(ctx)
		if err == nil {
			return &facts, nil
		}
		if pause.For(ctx, measureRetry) != nil {
			return nil, err
		}
	}
}
