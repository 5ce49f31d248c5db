// Package stopper holds calls open that stop containers, longer than those who ask
// for the stop wait. It imports the contract and nothing else of the project.
package stopper

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/backend"
)

// stopMargin is what a stop call gets beyond its grace, to kill and to clean up.
const stopMargin = 2 * time.Minute

// RemovalFollows is how long a sandbox whose containers were ended is left to a
// Remove, which ends it in one call: each stop of a sandbox runs the network's
// plugins. A pod that stays in the API holds its address so much longer.
const RemovalFollows = time.Second

// Runtime is what the stopper needs of the container runtime. Neither call minds
// what is not there any more.
type Runtime interface {
	// StopContainer sends TERM, and KILL after so many seconds. It returns when the
	// container has ended.
	StopContainer(ctx context.Context, id string, seconds int64) error
	// StopSandbox ends a sandbox and all in it.
	StopSandbox(ctx context.Context, id string) error
}

// Stopper holds StopContainer calls open. The runtime sends TERM when a call
// arrives and KILL at the end of its timeout, but only while the call lives, so
// it must not end with whoever asked.
//
// One goroutine owns all state and never blocks; each call has a goroutine of
// its own that reports back. A call that fails is forgotten: whoever wants the
// container stopped asks again, as the contract says.
type Stopper struct {
	runtime  Runtime
	requests chan Request
	leaves   chan leave
	ended    chan struct{}
}

// leave asks that a sandbox be left to who asks. The reply is closed once no call
// for it is open.
type leave struct {
	sandbox string
	reply   chan<- (<-chan struct{})
}

// Request asks for the end of containers and then of their sandbox.
type Request struct {
	// Containers are the ids of the containers.
	Containers []string
	// Grace is from TERM to KILL.
	Grace time.Duration
	// Sandbox is the id of the sandbox that ends after them; "" is none.
	Sandbox string
	// Removable sandboxes are left to a Remove for RemovalFollows after the containers.
	Removable bool
}

// New makes a stopper that does nothing before Run.
func New(runtime Runtime) *Stopper {
	return &Stopper{runtime: runtime, requests: make(chan Request), leaves: make(chan leave), ended: make(chan struct{})}
}

// Stop returns when the request is lodged. Errors: Unavailable when Run has ended,
// or is not there within the context.
func (s *Stopper) Stop(ctx context.Context, r Request) error {
	select {
	case <-s.ended:
		return backend.Errorf(backend.ErrUnavailable, "the cri backend is not running")
	default:
	}
	select {
	case s.requests <- r:
		return nil
	case <-s.ended:
		return backend.Errorf(backend.ErrUnavailable, "the cri backend is not running")
	case <-ctx.Done():
		return backend.Errorf(backend.ErrUnavailable, "lodge a stop request: %w", ctx.Err())
	}
}

// Leave returns when no call for a sandbox is open and none will be made for what
// was asked before. Errors: Unavailable when the context ends.
func (s *Stopper) Leave(ctx context.Context, sandbox string) error {
	reply := make(chan (<-chan struct{}), 1)
	select {
	case s.leaves <- leave{sandbox, reply}:
	case <-s.ended:
		return nil // and all its calls with it
	case <-ctx.Done():
		return backend.Errorf(backend.ErrUnavailable, "take over a sandbox: %w", ctx.Err())
	}
	select {
	case <-<-reply:
		return nil
	case <-s.ended:
		return nil
	case <-ctx.Done():
		return backend.Errorf(backend.ErrUnavailable, "wait for the stop of a sandbox: %w", ctx.Err())
	}
}

// Run serves requests until the context ends; then the open calls are dropped,
// and the containers they were for are left to their next owner. It asks may before
// each call, since a sandbox's comes long after its request.
func (s *Stopper) Run(ctx context.Context, may backend.Permit) error {
	defer close(s.ended)
	state := &stops{
		Stopper:    s,
		may:        may,
		results:    make(chan result),
		containers: map[string]*containerStop{},
		sandboxes:  map[string]*sandboxStop{},
	}
	defer state.calls.Wait()
	for {
		select {
		case r := <-s.requests:
			state.lodge(ctx, r)
		case l := <-s.leaves:
			l.reply <- state.leave(l.sandbox)
		case r := <-state.results:
			state.finish(ctx, r)
		case <-ctx.Done():
			return nil
		}
	}
}

// stops is the state of the stopper's goroutine.
type stops struct {
	*Stopper
	may        backend.Permit
	calls      sync.WaitGroup
	results    chan result
	containers map[string]*containerStop
	sandboxes  map[string]*sandboxStop
}

// containerStop is a container with open stop calls.
type containerStop struct {
	open int
	kill time.Time // when the first of them kills
}

// sandboxStop is a sandbox to stop when nothing is waited for any more.
type sandboxStop struct {
	waits     map[string]bool // containers
	calling   bool
	removable bool
	left      chan struct{} // closed: the call that has not begun is not needed
	done      chan struct{} // closed when the call has ended
}

// result is the end of one call, for a container or for a sandbox.
type result struct {
	container, sandbox string
	err                error
}

func (s *stops) lodge(ctx context.Context, r Request) {
	for _, id := range r.Containers {
		s.stopContainer(ctx, id, r.Grace)
	}
	if r.Sandbox == "" {
		return
	}
	sandbox := s.sandboxes[r.Sandbox]
	if sandbox == nil {
		sandbox = &sandboxStop{waits: map[string]bool{}, left: make(chan struct{}), done: make(chan struct{})}
		s.sandboxes[r.Sandbox] = sandbox
	}
	sandbox.removable = r.Removable
	for _, id := range r.Containers {
		sandbox.waits[id] = true
	}
	s.stopSandbox(ctx, r.Sandbox)
}

// stopContainer opens a call unless one is open that kills as early. The grace
// is rounded up to the second that CRI counts in, so that asking again with what
// is left of a grace opens no further call.
func (s *stops) stopContainer(ctx context.Context, id string, grace time.Duration) {
	seconds := int64((max(grace, 0) + time.Second - 1) / time.Second)
	timeout := time.Duration(seconds) * time.Second
	kill := time.Now().Add(timeout)
	c := s.containers[id]
	if c == nil {
		c = &containerStop{}
		s.containers[id] = c
	} else if !kill.Before(c.kill) {
		return
	}
	c.kill = kill
	c.open++
	s.call(ctx, timeout, result{container: id}, func(ctx context.Context) error {
		if err := s.may.Ask("stop container"); err != nil {
			return err
		}
		return s.runtime.StopContainer(ctx, id, seconds)
	})
}

// stopSandbox opens the call once the sandbox's containers have ended.
func (s *stops) stopSandbox(ctx context.Context, id string) {
	sandbox := s.sandboxes[id]
	if sandbox == nil || sandbox.calling || len(sandbox.waits) > 0 {
		return
	}
	sandbox.calling = true
	removable := sandbox.removable
	s.call(ctx, 0, result{sandbox: id}, func(ctx context.Context) error {
		if removable {
			timer := time.NewTimer(RemovalFollows)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-sandbox.left:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := s.may.Ask("stop sandbox"); err != nil {
			return err
		}
		return s.runtime.StopSandbox(ctx, id)
	})
}

// leave forgets a sandbox, unless a call for it is open: what it returns is closed
// at the end of that.
func (s *stops) leave(id string) <-chan struct{} {
	sandbox := s.sandboxes[id]
	if sandbox == nil {
		done := make(chan struct{})
		close(done)
		return done
	}
	select {
	case <-sandbox.left:
	default:
		close(sandbox.left)
	}
	if !sandbox.calling {
		s.drop(id)
	}
	return sandbox.done
}

func (s *stops) drop(sandbox string) {
	if known := s.sandboxes[sandbox]; known != nil {
		close(known.done)
		delete(s.sandboxes, sandbox)
	}
}

// call makes one call in a goroutine of its own and reports its end.
func (s *stops) call(ctx context.Context, timeout time.Duration, r result, do func(context.Context) error) {
	s.calls.Go(func() {
		callCtx, cancel := context.WithTimeout(ctx, timeout+stopMargin)
		defer cancel()
		r.err = do(callCtx)
		select {
		case s.results <- r:
		case <-ctx.Done():
		}
	})
}

func (s *stops) finish(ctx context.Context, r result) {
	if r.err != nil && !errors.Is(r.err, context.Canceled) {
		log.G(ctx).WithError(r.err).Warn("failed to stop on the remote; it will be asked again")
	}
	if r.sandbox != "" {
		s.drop(r.sandbox)
		return
	}
	c := s.containers[r.container]
	if c == nil {
		return
	}
	c.open--
	if r.err != nil && c.open > 0 {
		return
	}
	// Ended, or no call for it is open.
	delete(s.containers, r.container)
	for id, sandbox := range s.sandboxes {
		if !sandbox.waits[r.container] {
			continue
		}
		if r.err != nil {
			// Stopping the sandbox would kill what is within its grace.
			s.drop(id)
			continue
		}
		delete(sandbox.waits, r.container)
		s.stopSandbox(ctx, id)
	}
}
