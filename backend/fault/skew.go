package fault

import (
	"slices"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// skewed is a time of a remote whose clock was measured wrong.
func (s *Script) skewed(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(s.Skew)
}

func (s *Script) skewPods(facts []backend.PodFacts) {
	if s.Skew == 0 {
		return
	}
	for i := range facts {
		f := &facts[i]
		f.CreatedAt, f.StoppedAt = s.skewed(f.CreatedAt), s.skewed(f.StoppedAt)
		for j := range f.Containers {
			c := &f.Containers[j]
			c.CreatedAt, c.StartedAt, c.FinishedAt = s.skewed(c.CreatedAt), s.skewed(c.StartedAt), s.skewed(c.FinishedAt)
		}
	}
}

func (s *Script) skewVolumes(facts []backend.VolumeFacts) {
	for i := range facts {
		facts[i].PlacedAt = s.skewed(facts[i].PlacedAt)
	}
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
