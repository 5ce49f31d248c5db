package fault

import (
	"context"
	"slices"
	"time"

	"github.com/burstlet/burstlet/backend"
)

type stats struct {
	inner  backend.Stats
	script *Script
	memory memory[backend.StatsFacts] // of the last answer
}

// Stats that is partial is an error, as any listing that is cut short; a stale
// one has the times of when it was measured.
func (w *stats) Stats(ctx context.Context) (backend.StatsFacts, error) {
	answers, err := read(ctx, w.script, Call{Method: StatsStats}, w.memory.old, func() ([]backend.StatsFacts, error) {
		from := time.Now()
		facts, err := w.inner.Stats(ctx)
		if err != nil {
			return nil, err
		}
		w.memory.keep([]backend.StatsFacts{facts}, from)
		return []backend.StatsFacts{facts}, nil
	})
	if err != nil {
		return backend.StatsFacts{}, err
	}
	return w.script.skewStats(answers[0]), nil
}

// skewStats moves the times of a copy: the memory keeps what was measured.
func (s *Script) skewStats(f backend.StatsFacts) backend.StatsFacts {
	if s.Skew == 0 {
		return f
	}
	if f.Node != nil {
		f.Node = new(s.skewUsage(*f.Node))
	}
	f.Pods = slices.Clone(f.Pods)
	for i := range f.Pods {
		p := &f.Pods[i]
		p.Usage = s.skewUsage(p.Usage)
		p.Containers = slices.Clone(p.Containers)
		for j := range p.Containers {
			p.Containers[j].Usage = s.skewUsage(p.Containers[j].Usage)
		}
	}
	return f
}

func (s *Script) skewUsage(u backend.Usage) backend.Usage {
	u.Time, u.StartTime = s.skewed(u.Time), s.skewed(u.StartTime)
	return u
}
