package intask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// script answers each check of a handler, named by its command, in turn; the last
// answer is repeated.
type script struct {
	mu      sync.Mutex
	answers map[string][]string
	asked   []string
	begun   time.Time
}

func (s *script) check(_ context.Context, h Handler, _ time.Duration) (verdict, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := h.Exec[0]
	s.asked = append(s.asked, fmt.Sprintf("%s %v", name, time.Since(s.begun)))
	answer := s.answers[name][0]
	if len(s.answers[name]) > 1 {
		s.answers[name] = s.answers[name][1:]
	}
	switch answer {
	case "ok":
		return success, "", nil
	case "err":
		return unknown, "", errors.New("not asked")
	}
	return failed, answer, nil
}

func named(name string, change ...func(*Probe)) *Probe {
	p := &Probe{Handler: Handler{Exec: []string{name}}}
	for _, c := range change {
		c(p)
	}
	return p
}

func TestProbesFollowTheirNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		spec    Spec
		answers map[string][]string
		asked   []string
		found   []string
	}{
		"the API's defaults: 10 s, one success, three failures": {
			Spec{Readiness: named("r")},
			map[string][]string{"r": {"ok", "a", "b", "c"}},
			[]string{"r 0s", "r 10s", "r 20s", "r 30s"},
			[]string{"Readiness ok 0s", "Readiness probe failed: c 30s"},
		},
		"initialDelaySeconds, periodSeconds": {
			Spec{Readiness: named("r", func(p *Probe) { p.InitialDelay, p.Period = 7, 15 })},
			map[string][]string{"r": {"ok"}},
			[]string{"r 7s", "r 22s"},
			[]string{"Readiness ok 7s"},
		},
		"successThreshold in a row": {
			Spec{Readiness: named("r", func(p *Probe) { p.Period, p.SuccessThreshold = 5, 2 })},
			map[string][]string{"r": {"ok", "x", "ok", "ok"}},
			[]string{"r 0s", "r 5s", "r 10s", "r 15s", "r 20s", "r 25s", "r 30s"},
			[]string{"Readiness ok 15s"},
		},
		"a liveness probe ends with its failure": {
			Spec{Liveness: named("l", func(p *Probe) { p.FailureThreshold = 2 })},
			map[string][]string{"l": {"x", "y"}},
			[]string{"l 0s", "l 10s"},
			[]string{"Liveness probe failed: y 10s"},
		},
		"behaviour 8: others begin at once when startup has succeeded": {
			Spec{
				Startup:   named("s", func(p *Probe) { p.Period, p.FailureThreshold = 3, 10 }),
				Liveness:  named("l", func(p *Probe) { p.InitialDelay = 20 }),
				Readiness: named("r", func(p *Probe) { p.Period = 60 }),
			},
			map[string][]string{"s": {"x", "x", "ok"}, "l": {"ok"}, "r": {"ok"}},
			[]string{"s 0s", "s 3s", "s 6s", "r 6s", "l 20s", "l 30s"},
			[]string{"Startup ok 6s", "Readiness ok 6s", "Liveness ok 20s"},
		},
		"a failed startup probe leaves the others out": {
			Spec{Startup: named("s", func(p *Probe) { p.FailureThreshold = 1 }), Liveness: named("l")},
			map[string][]string{"s": {"x"}},
			[]string{"s 0s"},
			[]string{"Startup probe failed: x 0s"},
		},
		"behaviour 8: an error is tried three times and counts for nothing": {
			Spec{Readiness: named("r", func(p *Probe) { p.Period, p.FailureThreshold = 20, 1 })},
			map[string][]string{"r": {"err", "err", "err", "err", "x"}},
			[]string{"r 0s", "r 0s", "r 0s", "r 20s", "r 20s"},
			[]string{"Readiness probe failed: x 20s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: c.answers, begun: time.Now()}
				var mu sync.Mutex
				var found []string
				p := &prober{spec: &c.spec, check: s.check, found: func(f finding) {
					mu.Lock()
					defer mu.Unlock()
					text := f.message
					if f.verdict == success {
						text = string(f.kind) + " ok"
					}
					found = append(found, fmt.Sprintf("%s %v", text, time.Since(s.begun)))
				}}
				ctx, cancel := context.WithTimeout(t.Context(), 34*time.Second)
				defer cancel()
				p.run(ctx, ctx, s.begun)
				if !slices.Equal(s.asked, c.asked) {
					t.Errorf("asked %q, want %q", s.asked, c.asked)
				}
				if !slices.Equal(found, c.found) {
					t.Errorf("found %q, want %q", found, c.found)
				}
			})
		})
	}
}

func TestReadinessAloneIsProbedWhileTheContainerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: map[string][]string{"l": {"ok"}, "r": {"ok"}}, begun: time.Now()}
		p := &prober{spec: &Spec{Liveness: named("l"), Readiness: named("r")}, check: s.check, found: func(finding) {}}
		all, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		lively, end := context.WithTimeout(all, 5*time.Second)
		defer end()
		p.run(all, lively, s.begun)
		slices.Sort(s.asked)
		if want := []string{"l 0s", "r 0s", "r 10s", "r 20s"}; !slices.Equal(s.asked, want) {
			t.Errorf("behaviour 1: asked %q, want %q", s.asked, want)
		}
	})
}
