package backendtest_test

import (
	"context"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
)

// brokenStats break the rules of Stats.
var brokenStats = map[string]brokenBackend{
	"nothing is measured": {"stats/of_what_runs", true, func(b backend.Backend) backend.Backend {
		return withStats(b, func(f *backend.StatsFacts) { f.Pods = nil })
	}},
	"pods have no containers": {"stats/of_what_runs", false, func(b backend.Backend) backend.Backend {
		return withStats(b, func(f *backend.StatsFacts) {
			for i := range f.Pods {
				f.Pods[i].Containers = nil
			}
		})
	}},
	"pods have no names": {"stats/of_what_runs", false, func(b backend.Backend) backend.Backend {
		return withStats(b, func(f *backend.StatsFacts) {
			for i := range f.Pods {
				f.Pods[i].Name = ""
			}
		})
	}},
	"pods of others are measured": {"stats/of_what_runs", true, func(b backend.Backend) backend.Backend {
		return withStats(b, func(f *backend.StatsFacts) {
			f.Pods = append(f.Pods, backend.PodStats{Ref: backend.Ref{UID: "theirs", Namespace: "ns", Name: "theirs"}})
		})
	}},
	"measured by the remote's clock": {"stats/of_what_runs", false, func(b backend.Backend) backend.Backend {
		skewed := fault.Wrap(b, &fault.Script{Skew: time.Hour})
		b.Stats = skewed.Stats
		return b
	}},
	"the ended are measured": {"stats/of_what_has_ended_are_gone", true, func(b backend.Backend) backend.Backend {
		var last backend.StatsFacts
		return withStats(b, func(f *backend.StatsFacts) {
			if len(f.Pods) == 0 {
				f.Pods = last.Pods
				for i := range f.Pods {
					f.Pods[i].Time = time.Now()
					f.Pods[i].Containers[0].Time = time.Now()
				}
			}
			last = *f
		})
	}},
	"counters begin anew": {"stats/counters_never_go_back", true, func(b backend.Backend) backend.Backend {
		return withStats(b, eachUsage(func(u *backend.Usage) { *u.CPUCoreNanoSeconds %= 5e6 }))
	}},
	"a rate is no sum": {"stats/counters_never_go_back", false, func(b backend.Backend) backend.Backend {
		var n uint64
		return withStats(b, eachUsage(func(u *backend.Usage) {
			n++
			u.CPUCoreNanoSeconds = new(1000 - n)
		}))
	}},
	"the host's counters are sums of its pods'": {
		"stats/counters_never_go_back",
		false,
		func(b backend.Backend) backend.Backend {
			return withStats(b, func(f *backend.StatsFacts) {
				f.Node.CPUCoreNanoSeconds = new(uint64(0))
				for _, p := range f.Pods {
					*f.Node.CPUCoreNanoSeconds += *p.CPUCoreNanoSeconds
				}
			})
		},
	},
	"measuring knows no context": {"stats/ended_context", true, func(b backend.Backend) backend.Backend {
		inner := b.Stats
		b.Stats = statsVia(func(ctx context.Context) (backend.StatsFacts, error) {
			return inner.Stats(context.WithoutCancel(ctx))
		})
		return b
	}},
}

type statsVia func(context.Context) (backend.StatsFacts, error)

func (f statsVia) Stats(ctx context.Context) (backend.StatsFacts, error) { return f(ctx) }

// withStats changes what is measured.
func withStats(b backend.Backend, edit func(*backend.StatsFacts)) backend.Backend {
	inner := b.Stats
	b.Stats = statsVia(func(ctx context.Context) (backend.StatsFacts, error) {
		facts, err := inner.Stats(ctx)
		if err == nil {
			edit(&facts)
		}
		return facts, err
	})
	return b
}

// eachUsage changes all measurements of pods.
func eachUsage(edit func(*backend.Usage)) func(*backend.StatsFacts) {
	return func(f *backend.StatsFacts) {
		for i := range f.Pods {
			edit(&f.Pods[i].Usage)
			for j := range f.Pods[i].Containers {
				edit(&f.Pods[i].Containers[j].Usage)
			}
		}
	}
}
