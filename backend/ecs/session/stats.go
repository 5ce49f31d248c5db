package session

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/containerd/log"
	"golang.org/x/crypto/ssh"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/intask"
	"github.com/burstlet/burstlet/backend/ecs/session/taskstats"
)

// Bounds of measuring tasks through their sessions.
const (
	// statsAge is how old a task's measurement may be before it is measured again:
	// the kubelet's own period.
	statsAge = 10 * time.Second
	// statsKept is how old one may be to be told when a newer one fails.
	statsKept = 25 * time.Second
	// statsParallel is how many tasks are measured at once.
	statsParallel = 32
	// statsLimit bounds the measuring of one.
	statsLimit = 10 * time.Second
	// maxStats bounds what one answers.
	maxStats = 1 << 20
)

// taskStats implements backend.Stats: each task's metadata endpoint is asked through
// the task's session. There is no node, and nobody knows of its file systems.
type taskStats struct {
	pool     *Pool
	parallel chan struct{}

	mu    sync.Mutex
	tasks map[string]*measured // by ARN
}

// measured is what was found last.
type measured struct {
	turn sync.Mutex // held by who measures
	at   time.Time
	pod  backend.PodStats
}

func newTaskStats(s *Pool) *taskStats {
	return &taskStats{pool: s, parallel: make(chan struct{}, statsParallel), tasks: map[string]*measured{}}
}

// Stats measures all tasks that run. One that cannot be measured is left out.
func (t *taskStats) Stats(ctx context.Context) (backend.StatsFacts, error) {
	facts, err := t.pool.tasks.List(ctx)
	if err != nil {
		return backend.StatsFacts{}, fmt.Errorf("measure pods: %w", err)
	}
	facts = slices.DeleteFunc(facts, func(f backend.PodFacts) bool { return !f.Live || !anyRuns(f) })
	found := make([]*backend.PodStats, len(facts))
	var measuring sync.WaitGroup
	for i, m := range t.entries(facts) {
		measuring.Go(func() { found[i] = t.of(ctx, m, facts[i]) })
	}
	measuring.Wait()
	if err := ctx.Err(); err != nil {
		return backend.StatsFacts{}, fmt.Errorf("measure pods: %w", err)
	}
	var out backend.StatsFacts
	for _, p := range found {
		if p != nil {
			out.Pods = append(out.Pods, *p)
		}
	}
	return out, nil
}

// entries are what is known of tasks, in their order; that of others is forgotten.
func (t *taskStats) entries(facts []backend.PodFacts) []*measured {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := make(map[string]*measured, len(facts))
	out := make([]*measured, len(facts))
	for i, f := range facts {
		m := t.tasks[f.ID]
		if m == nil {
			m = &measured{}
		}
		out[i], kept[f.ID] = m, m
	}
	t.tasks = kept
	return out
}

// of measures a task unless that was done a moment ago; nil if it cannot be.
func (t *taskStats) of(ctx context.Context, m *measured, f backend.PodFacts) *backend.PodStats {
	select {
	case t.parallel <- struct{}{}:
		defer func() { <-t.parallel }()
	case <-ctx.Done():
		return nil
	}
	m.turn.Lock()
	defer m.turn.Unlock()
	if time.Since(m.at) >= statsAge {
		pod, err := t.ask(ctx, f)
		if err == nil {
			m.at, m.pod = time.Now(), pod
		} else if ctx.Err() == nil {
			log.G(ctx).WithError(err).WithField("task", f.ID).Debug("a task could not be measured")
		}
	}
	if time.Since(m.at) >= statsKept {
		return nil
	}
	return onlyRunning(m.pod, f)
}

// onlyRunning is a measurement without containers that have ended since.
func onlyRunning(p backend.PodStats, f backend.PodFacts) *backend.PodStats {
	p.Containers = slices.Clone(p.Containers)
	p.Containers = slices.DeleteFunc(p.Containers, func(c backend.ContainerStats) bool {
		return !runs(f, backend.ContainerRef{Name: c.Name, Attempt: c.Attempt})
	})
	return &p
}

// ask asks the task.
func (t *taskStats) ask(ctx context.Context, f backend.PodFacts) (backend.PodStats, error) {
	ctx, cancel := context.WithTimeout(ctx, statsLimit)
	defer cancel()
	session, done, err := t.pool.use(ctx, f.ID)
	if err != nil {
		return backend.PodStats{}, err
	}
	defer done()
	channel, requests, err := t.pool.openChannel(ctx, session.client, "session", nil)
	if err != nil {
		return backend.PodStats{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = channel.Close() }) // reads end with it
	defer stop()
	defer func() { _ = channel.Close() }()
	if !t.pool.start(func() { ssh.DiscardRequests(requests) }) {
		return backend.PodStats{}, errEnded
	}
	ok, err := channel.SendRequest("subsystem", true, ssh.Marshal(struct{ Name string }{intask.SubsystemStats}))
	if err != nil || !ok {
		return backend.PodStats{}, fmt.Errorf("the task does not measure itself: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(channel, maxStats))
	if err != nil {
		return backend.PodStats{}, fmt.Errorf("read the measurement: %w", err)
	}
	var said intask.TaskStats
	if err := json.Unmarshal(text, &said); err != nil {
		return backend.PodStats{}, fmt.Errorf("decode the measurement: %w", err)
	}
	return taskstats.Decode(said, f, t.pool.tasks.Local)
}
