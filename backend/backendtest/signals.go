package backendtest

import (
	"context"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// signalsOfHost: a host has something left of what it has, and says when that was.
func signalsOfHost(s *suite) {
	asked := time.Now()
	facts, err := s.Signals.Signals(s.Context())
	s.must(err)
	if ahead, age := time.Until(facts.Time), asked.Sub(facts.Time); ahead > s.f.Slack || age > maxAge+s.f.Slack {
		s.Errorf("measured at %v, %v before it was asked for", facts.Time, age)
	}
	if facts.Memory == nil || facts.NodeFS == nil {
		s.Errorf("memory %v and disk %v of a host are always known", facts.Memory, facts.NodeFS)
	}
	for what, level := range map[string]*backend.Level{
		"memory": facts.Memory, "nodefs": facts.NodeFS, "inodes of nodefs": facts.NodeFSInodes,
		"imagefs": facts.ImageFS, "inodes of imagefs": facts.ImageFSInodes, "PIDs": facts.PIDs,
	} {
		if level != nil && (level.Capacity == 0 || level.Available > level.Capacity) {
			s.Errorf("of %s, %d of %d are left", what, level.Available, level.Capacity)
		}
	}
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if _, err := s.Signals.Signals(ctx); err == nil {
		s.Error("it measures, though its context has ended")
	}
}
