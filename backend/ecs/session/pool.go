package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"golang.org/x/crypto/ssh"
	"golang.org/x/time/rate"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/intask"
	"github.com/burstlet/burstlet/backend/ecs/ssm"
	"github.com/burstlet/burstlet/backend/pause"
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

// Tasks is what sessions need to know of the node's tasks.
type Tasks interface {
	// Known returns what is known of the tasks of a pod, without asking ECS.
	Known(uid ktypes.UID) []backend.PodFacts
	// Inspect and List are those of backend.Pods.
	Inspect(ctx context.Context, uids []ktypes.UID) ([]backend.PodFacts, error)
	List(ctx context.Context) ([]backend.PodFacts, error)
	// Describe returns the tasks that ECS knows and the ARNs that it calls missing.
	Describe(ctx context.Context, arns []string) (tasks []types.Task, missing []string, err error)
	// Local returns a time of AWS's clock on this machine's; zero for nil.
	Local(at *time.Time) time.Time
}

// Config says how sessions are opened.
type Config struct {
	// Region and Credentials sign the opening; Cluster is where the tasks are.
	Region, Cluster string
	Credentials     aws.CredentialsProvider
	API             API
	// Modify is ECS's rate of changing calls, of which ExecuteCommand is one.
	Modify awscall.Limiter
	// Container is the container of burstlet's own that sessions land in; empty where
	// tasks have none, so that nothing in them can be reached.
	Container string
	// Stats lends backend.Stats too.
	Stats bool
}

// Pool keeps the sessions that reach into tasks: one session of ECS Exec for each
// task, in burstlet-agent, for all that goes on in it (where the agent of ECS Exec has
// died there, in the container that is meant, which reaches no other) (the agent beside a container
// takes two at once unless told otherwise), and in it one SSH connection, whose
// channels are commands, connections, and ways to the servers of the pod's containers.
type Pool struct {
	cfg    Config
	tasks  Tasks
	dialer ssm.Dialer
	// own is a share of the API's rate that leaves starts and stops theirs.
	own     awscall.Limiter
	opening chan struct{}
	// shortening bounds the tasks whose containers are told of a grace at once, so that
	// sessions are not opened for tasks that stop before.
	shortening chan struct{}

	// living ends with the backend.
	living  context.Context //nolint:containedctx // the life of a pool, not of a call
	end     context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[key]*taskSession
}

// taskSession is a task's.
type taskSession struct {
	pool *Pool
	// arn is the task's, via the container that the session is in.
	arn, via string
	// settled is closed when it was opened or could not be.
	settled chan struct{}
	client  *ssh.Client
	err     error
	// broken is true as soon as nothing more can arrive, a little before dead closes.
	broken func() bool
	dead   chan struct{}

	// uses and linger are guarded by the pool's lock.
	uses   int
	linger *time.Timer

	// lock guards containers, and is held while a way to a container is opened.
	lock       chan struct{}
	containers map[string]*ssh.Client
}

// key names a session: by the task's ARN and the container that it is in.
type key struct{ arn, via string }

func (t *taskSession) key() key { return key{t.arn, t.via} }

// New makes a pool without sessions, which live until Run's context ends.
func New(ctx context.Context, cfg Config, tasks Tasks) *Pool {
	living, end := context.WithCancel(context.WithoutCancel(ctx))
	return &Pool{
		cfg: cfg, tasks: tasks, dialer: ssm.Dialer{Region: cfg.Region, Credentials: cfg.Credentials},
		own: rate.NewLimiter(5, 10), opening: make(chan struct{}, sessionsOpening),
		shortening: make(chan struct{}, sessionsOpening),
		living:     living, end: end, open: map[key]*taskSession{},
	}
}

// Lend gives a backend what sessions can do. What is attached to is read from the
// backend's logs, if it has any.
func (s *Pool) Lend(b *backend.Backend) {
	b.Exec, b.Forward, b.Dial, b.Attach = commands{s}, reach{s}, reach{s}, attacher{s, b.Logs}
	if s.cfg.Stats {
		b.Stats = newTaskStats(s)
	}
}

// Run keeps sessions until the context ends, and then ends them all. It returns nil
// when nothing of them is left.
func (s *Pool) Run(ctx context.Context) error {
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

var errEnded = backend.Errorf(backend.ErrUnavailable, "the backend has ended")

// start runs f in a goroutine that Run waits for; it is false once the pool is closed.
func (s *Pool) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Go(f)
	return true
}

// use returns the session of a task, opened if there is none; done gives it back. It is in
// burstlet-agent or, where the agent of ECS Exec does not run there, in the first of others
// where it does.
func (s *Pool) use(ctx context.Context, arn string, others ...string) (session *taskSession, done func(), err error) {
	if s.cfg.Container == "" {
		return nil, nil, backend.Errorf(backend.ErrUnsupported,
			"nothing in the task can be reached: set backend.ecs.taskImage")
	}
	session, done, err = s.useIn(ctx, key{arn, s.cfg.Container})
	for _, name := range others {
		if !errors.Is(err, errNoAgent) {
			break
		}
		session, done, err = s.useIn(ctx, key{arn, name})
	}
	return session, done, err
}

// useIn is use in one container.
func (s *Pool) useIn(ctx context.Context, in key) (session *taskSession, done func(), err error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, nil, errEnded
	}
	t := s.open[in]
	if t == nil {
		t = &taskSession{
			pool: s, arn: in.arn, via: in.via, settled: make(chan struct{}), dead: make(chan struct{}),
			lock:       make(chan struct{}, 1),
			containers: map[string]*ssh.Client{},
		}
		s.open[in] = t
		s.running.Go(func() { s.openAndKeep(t) })
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
func (s *Pool) unuse(t *taskSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.uses--; t.uses > 0 || s.open[t.key()] != t {
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
func (s *Pool) expire(t *taskSession) {
	if s.open[t.key()] != t {
		return
	}
	delete(s.open, t.key())
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
	_, _, _ = c.SendRequest(intask.RequestEnd, true, nil)
	_ = c.Close()
}

// openAndKeep opens a session and keeps it until it ends.
func (s *Pool) openAndKeep(t *taskSession) {
	ctx, cancel := context.WithTimeout(s.living, sessionOpen)
	t.client, t.broken, t.err = s.connect(ctx, t.key())
	cancel()
	close(t.settled)
	if t.err == nil {
		s.keep(t.client)
	}
	close(t.dead)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[t.key()] == t {
		delete(s.open, t.key())
	}
}

// keep returns when a connection has ended. One that does not answer is ended.
func (s *Pool) keep(c *ssh.Client) {
	ended := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		_ = c.Wait() // why does not matter: its users see the error
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

// connect opens a session of ECS Exec and an SSH connection over it. broken says that
// nothing more can arrive.
func (s *Pool) connect(ctx context.Context, in key) (c *ssh.Client, broken func() bool, err error) {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, nil, backend.Errorf(backend.ErrUnavailable, "open session: %w", ctx.Err())
	}
	for try := 1; ; try++ {
		c, broken, err = s.connectOnce(ctx, in)
		if !errors.Is(err, intask.ErrNoServer) || try == containerTries {
			return c, broken, err
		}
		if err := pause.For(ctx, containerAgain); err != nil { // the server listens a moment later
			return nil, nil, backend.Errorf(backend.ErrUnavailable, "open session: %w", err)
		}
	}
}

func (s *Pool) connectOnce(ctx context.Context, in key) (c *ssh.Client, broken func() bool, err error) {
	stream, err := s.execute(ctx, in)
	if err != nil {
		return nil, nil, fmt.Errorf("open session: %w", err)
	}
	session, err := s.dialer.Dial(ctx, stream)
	if err != nil {
		return nil, nil, err
	}
	line := overSession(session)
	if c, err = speakSSH(ctx, line); err != nil {
		return nil, nil, backend.Errorf(backend.ErrUnavailable, "open session: %w", err)
	}
	return c, line.broken.Load, nil
}

// runningTask finds the live task of an attempt of a pod, and the containers that run in
// it. Errors: NotFound.
func (s *Pool) runningTask(ctx context.Context, ref backend.Ref) (arn string, containers []string, err error) {
	f, err := s.find(ctx, ref.UID, func(f backend.PodFacts) bool {
		return f.Live && f.Attempt == ref.Attempt && anyRuns(f)
	})
	for _, c := range f.Containers {
		if c.State() == backend.Running {
			containers = append(containers, c.Name)
		}
	}
	return f.ID, containers, err
}

// runningContainer finds the task in which a container runs. Errors: NotFound.
func (s *Pool) runningContainer(ctx context.Context, ref backend.ContainerRef) (string, error) {
	f, err := s.find(ctx, ref.Pod.UID, func(f backend.PodFacts) bool {
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

// find returns the facts that match, of what is known or else of what ECS says now.
// Errors: NotFound.
func (s *Pool) find(ctx context.Context, uid ktypes.UID, match func(backend.PodFacts) bool) (backend.PodFacts, error) {
	for _, f := range s.tasks.Known(uid) {
		if match(f) {
			return f, nil
		}
	}
	facts, err := s.tasks.Inspect(ctx, []ktypes.UID{uid})
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
