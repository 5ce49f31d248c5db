package ecs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/time/rate"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/ssm"
)

// Numbers of sessions.
const (
	// sessionLinger is how long a session is kept that nobody uses.
	sessionLinger = time.Minute
	// sessionOpen bounds the opening of one, with the wait for its agent.
	sessionOpen = time.Minute
	// sessionsOpening bounds how many are opened at once.
	sessionsOpening = 16
	// sessionAlive is how often a session is asked whether it is there. It also keeps
	// ECS from ending it: that is done after 20 minutes of silence.
	sessionAlive = 30 * time.Second
	// sessionEnd bounds the farewell.
	sessionEnd = 3 * time.Second
	// agentWait is how long the agent in a task is waited for.
	agentWait = 20 * time.Second
	// openAgain is the pause before a task whose agent does not answer yet is asked
	// again.
	openAgain = time.Second
)

// sessions reach into tasks: one session of ECS Exec for each task, in
// burstlet-agent, for all that goes on in it (the agent beside a container takes two
// at once unless told otherwise), and in it one SSH connection, whose channels are
// commands, connections, and ways to the servers of the pod's containers.
type sessions struct {
	pods   *pods
	api    executeAPI
	dialer ssm.Dialer
	// own is a share of the API's rate that leaves starts and stops theirs.
	own     awscall.Limiter
	opening chan struct{}

	// living ends with the backend.
	living  context.Context //nolint:containedctx // the life of a pool, not of a call
	end     context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[string]*taskSession // by ARN
}

// taskSession is a task's.
type taskSession struct {
	arn string
	// settled is closed when it was opened or could not be.
	settled chan struct{}
	client  *ssh.Client
	err     error

	// uses and linger are the pool's.
	uses   int
	linger *time.Timer

	// turn is held by who opens a way to a container, by whom containers is kept.
	turn       chan struct{}
	containers map[string]*ssh.Client
}

func newSessions(ctx context.Context, p *pods, cls clients) *sessions {
	living, end := context.WithCancel(context.WithoutCancel(ctx))
	return &sessions{
		pods: p, api: cls.ecs, dialer: ssm.Dialer{Region: p.cfg.Region, Credentials: cls.creds},
		own: rate.NewLimiter(5, 10), opening: make(chan struct{}, sessionsOpening),
		living: living, end: end, open: map[string]*taskSession{},
	}
}

// lend gives a backend what sessions can; l is nil where there are no logs.
func (s *sessions) lend(b *backend.Backend, l *logs) {
	b.Exec, b.Forward, b.Dial, b.Attach = commands{s}, reach{s}, reach{s}, attacher{s, l}
	if s.pods.cfg.SessionStats {
		b.Stats = newTaskStats(s)
	}
}

// Run keeps sessions until the context ends, and then ends them all.
func (s *sessions) Run(ctx context.Context) error {
	<-ctx.Done()
	s.mu.Lock()
	s.closed = true
	for _, t := range s.open {
		s.expire(t)
	}
	s.mu.Unlock()
	s.end()
	s.running.Wait()
	return nil
}

// use returns the session of a task, opened if there is none; done gives it back.
func (s *sessions) use(ctx context.Context, arn string) (session *taskSession, done func(), err error) {
	if s.pods.cfg.TaskImage == "" {
		return nil, nil, backend.Errorf(backend.ErrUnsupported, "nothing in the task can be reached: set backend.ecs.taskImage")
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, nil, backend.Errorf(backend.ErrUnavailable, "the backend has ended")
	}
	t := s.open[arn]
	if t == nil {
		t = &taskSession{arn: arn, settled: make(chan struct{}), turn: make(chan struct{}, 1), containers: map[string]*ssh.Client{}}
		s.open[arn] = t
		s.running.Go(func() { s.carry(t) })
	}
	t.uses++
	if t.linger != nil {
		t.linger.Stop()
	}
	s.mu.Unlock()
	done = sync.OnceFunc(func() { s.unuse(t) })
	select {
	case <-t.settled:
		err = t.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return t, done, nil
}

// unuse lets a session go that nobody uses, after a while.
func (s *sessions) unuse(t *taskSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.uses--; t.uses > 0 || s.open[t.arn] != t {
		return
	}
	t.linger = time.AfterFunc(sessionLinger, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.uses == 0 {
			s.expire(t)
		}
	})
}

// expire ends a session, with the pool's lock held.
func (s *sessions) expire(t *taskSession) {
	if s.open[t.arn] != t {
		return
	}
	delete(s.open, t.arn)
	if t.linger != nil {
		t.linger.Stop()
	}
	s.running.Go(func() {
		<-t.settled
		if t.client != nil {
			farewell(t.client)
		}
	})
}

// farewell ends a connection on both sides.
func farewell(c *ssh.Client) {
	limit := time.AfterFunc(sessionEnd, func() { _ = c.Close() })
	defer limit.Stop()
	// The server answers by closing the connection.
	_, _, _ = c.SendRequest(requestEnd, true, nil)
	_ = c.Close()
}

// carry opens a session and keeps it until it ends.
func (s *sessions) carry(t *taskSession) {
	ctx, cancel := context.WithTimeout(s.living, sessionOpen)
	t.client, t.err = s.begin(ctx, t.arn)
	cancel()
	close(t.settled)
	if t.err == nil {
		s.keep(t.client)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[t.arn] == t {
		delete(s.open, t.arn)
	}
}

// keep returns when a connection has ended. One that does not answer is ended.
func (s *sessions) keep(c *ssh.Client) {
	ended := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		_ = c.Wait() // why does not matter: who uses it is told
		close(ended)
	})
	defer waiting.Wait()
	ticker := time.NewTicker(sessionAlive)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return
		case <-ticker.C:
			silent := time.AfterFunc(sessionAlive, func() { _ = c.Close() })
			_, _, err := c.SendRequest("keepalive@burstlet.dev", true, nil)
			if silent.Stop(); err != nil {
				_ = c.Close()
			}
		}
	}
}

// begin opens a session of ECS Exec and speaks SSH over it.
func (s *sessions) begin(ctx context.Context, arn string) (*ssh.Client, error) {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, backend.Errorf(backend.ErrUnavailable, "open session: %w", ctx.Err())
	}
	stream, err := s.execute(ctx, arn)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	session, err := s.dialer.Dial(ctx, stream)
	if err != nil {
		return nil, err
	}
	client, err := speakSSH(ctx, overSession(session))
	if err != nil {
		return nil, backend.Errorf(backend.ErrUnavailable, "open session: %w", err)
	}
	return client, nil
}

// runningTask finds the live task of a pod, the newest first. Errors: NotFound.
func (s *sessions) runningTask(ctx context.Context, ref backend.Ref) (string, error) {
	f, err := s.look(ctx, ref.UID, func(f backend.PodFacts) bool {
		return f.Live && f.Attempt == ref.Attempt && anyRuns(f)
	})
	return f.ID, err
}

// runningContainer finds the task in which a container runs. Errors: NotFound.
func (s *sessions) runningContainer(ctx context.Context, ref backend.ContainerRef) (string, error) {
	f, err := s.look(ctx, ref.Pod.UID, func(f backend.PodFacts) bool {
		return f.Live && f.Attempt == ref.Pod.Attempt && runs(f, ref)
	})
	return f.ID, err
}

func anyRuns(f backend.PodFacts) bool {
	for _, c := range f.Containers {
		if c.State() == backend.Running {
			return true
		}
	}
	return false
}

func runs(f backend.PodFacts, ref backend.ContainerRef) bool {
	for _, c := range f.Containers {
		if c.Name == ref.Name && c.Attempt == ref.Attempt && c.State() == backend.Running {
			return true
		}
	}
	return false
}

// look finds facts in memory, and asks ECS before it says that there are none.
func (s *sessions) look(ctx context.Context, uid ktypes.UID, match func(backend.PodFacts) bool) (backend.PodFacts, error) {
	for _, f := range s.pods.mem.known(uid) {
		if match(f) {
			return f, nil
		}
	}
	facts, err := s.pods.Inspect(ctx, []ktypes.UID{uid})
	if err != nil {
		return backend.PodFacts{}, err
	}
	for _, f := range facts {
		if match(f) {
			return f, nil
		}
	}
	return backend.PodFacts{}, backend.Errorf(backend.ErrNotFound, "it does not run")
}

// ended is an error of a session, or that its context ended.
func ended(ctx context.Context, op string, err error) error {
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		err = cause
	}
	return fmt.Errorf("%s: %w", op, err)
}
