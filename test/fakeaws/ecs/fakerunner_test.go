package ecs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeRunner runs nothing: its containers do what script mode reads from their
// commands, so that both ways can be compared.
type fakeRunner struct {
	mu      sync.Mutex
	tasks   map[string]TaskSpec // that were started and not removed
	ran     []ContainerSpec
	startup error // of Start, if not nil
	failed  error // of Remove
	handler http.Handler
	kind    Kindness
}

func (r *fakeRunner) Serve(h http.Handler) { r.handler = h }

func (r *fakeRunner) Start(_ context.Context, spec TaskSpec) (RunningTask, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.startup != nil {
		return nil, r.startup
	}
	if r.tasks == nil {
		r.tasks = map[string]TaskSpec{}
	}
	r.tasks[spec.ID] = spec
	return &fakeTask{r, spec.ID}, nil
}

// live is how many tasks were not removed.
func (r *fakeRunner) live() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tasks)
}

// specs are the runs of containers so far.
func (r *fakeRunner) specs() []ContainerSpec {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]ContainerSpec(nil), r.ran...)
}

type fakeTask struct {
	r  *fakeRunner
	id string
}

func (t *fakeTask) Address() string { return "10.1.2.3" }

func (t *fakeTask) Pull(_ context.Context, image string, login *Login) (string, error) {
	if missing(image) {
		return "", fmt.Errorf("failed to resolve ref %s: %s: not found", image, image)
	}
	if login != nil && login.Password == "wrong" {
		return "", errors.New("unauthorized")
	}
	return "sha256:" + digest(image), nil
}

func (t *fakeTask) Run(_ context.Context, spec ContainerSpec) (RunningContainer, error) {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	t.r.ran = append(t.r.ran, spec)
	argv := supervised(append(append([]string(nil), spec.EntryPoint...), spec.Command...))
	if argv[0] == "/unstartable" {
		return nil, errors.New("exec: \"/unstartable\": no such file or directory")
	}
	does := interpret(argv)
	if !t.r.kind.TermEnds && !isHelper(append(append([]string(nil), spec.EntryPoint...), spec.Command...), "supervise") {
		does = *does.asFirst()
	}
	c := &fakeContainer{does: does, spec: spec, start: time.Now(), stop: make(chan time.Duration, 1)}
	return c, nil
}

func (t *fakeTask) Storage(context.Context) (uint64, error) { return 5 << 20, nil }

func (t *fakeTask) Remove(context.Context) error {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	delete(t.r.tasks, t.id)
	return t.r.failed
}

type fakeContainer struct {
	does  behaviour
	spec  ContainerSpec
	start time.Time
	stop  chan time.Duration // its grace
	once  sync.Once
	ended chan struct{}
}

func (c *fakeContainer) end() chan struct{} {
	c.once.Do(func() { c.ended = make(chan struct{}) })
	return c.ended
}

func (c *fakeContainer) Wait(ctx context.Context) (Exit, error) {
	defer close(c.end())
	timer := time.NewTimer(min(c.does.after, 10000*time.Hour))
	defer timer.Stop()
	own := Exit{Code: c.does.exit, OOM: c.does.oom}
	defer func() {
		for i := range c.does.count(time.Since(c.start)) {
			if at, line := c.does.line(i); c.spec.Log != nil {
				c.spec.Log(c.start.Add(at), line)
			}
		}
	}()
	select {
	case <-timer.C:
		return own, nil
	case <-ctx.Done():
		return Exit{}, ctx.Err()
	case grace := <-c.stop:
		if !c.does.ignoresTerm && grace > 0 {
			return Exit{Code: c.does.termExit}, nil
		}
		kill := time.NewTimer(grace)
		defer kill.Stop()
		select {
		case <-timer.C:
			return own, nil
		case <-kill.C:
			return Exit{Code: exitKill}, nil
		case <-ctx.Done():
			return Exit{}, ctx.Err()
		}
	}
}

func (c *fakeContainer) Stop(ctx context.Context, grace time.Duration) error {
	c.stop <- grace
	select {
	case <-c.end():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *fakeContainer) Exec(_ context.Context, argv []string, _ time.Duration) (int, error) {
	h := healthCheck{Command: append([]string{"CMD"}, argv...)}
	well := true
	for _, p := range h.phasesOf(c.does.phases) {
		if time.Since(c.start) >= p.from {
			well = p.healthy
		}
	}
	if well {
		return 0, nil
	}
	return 1, nil
}

func (c *fakeContainer) Terminal(_ context.Context, call ExecCall) (int, error) {
	if call.Stdout != nil {
		_, err := fmt.Fprintln(call.Stdout, call.Argv)
		return 3, err
	}
	return 3, nil
}

func (c *fakeContainer) Usage(context.Context) (Usage, error) {
	return Usage{
		At: time.Now(), CPU: time.Since(c.start) / 2, RootBytes: 1 << 20, MemoryBytes: 3 << 20, WorkingSetBytes: 2 << 20,
		Interface: "eth0", RxBytes: 7,
	}, nil
}

// driven runs f in virtual time with a server whose tasks a fake runner runs.
func driven(t *testing.T, cfg Config, f func(*testing.T, *Server, *fakeRunner)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &fakeRunner{kind: cfg.Kindness}
		cfg.Runner = r
		s := New(cfg)
		defer func() {
			s.Close()
			if n := r.live(); n != 0 {
				t.Errorf("%d tasks were not removed", n)
			}
		}()
		f(t, s, r)
	})
}

// bothWays runs f in virtual time, in script mode and with a fake runner.
func bothWays(t *testing.T, cfg Config, f func(*testing.T, *Server)) {
	t.Helper()
	world(t, cfg, f)
	if !t.Failed() {
		driven(t, cfg, func(t *testing.T, s *Server, _ *fakeRunner) { f(t, s) })
	}
}
