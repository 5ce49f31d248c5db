package cri

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/containerd/log"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
)

// stopMargin is what a stop call gets beyond its grace, to kill and to clean up.
const stopMargin = 2 * time.Minute

// removalFollows is how long a sandbox whose containers were ended is left to a
// Remove, which ends it in one call: each stop of a sandbox runs the network's
// plugins. A pod that stays in the API holds its address so much longer.
const removalFollows = time.Second

// stopClient is what the stopper needs of the runtime.
type stopClient interface {
	stopContainer(ctx context.Context, id string, seconds int64) error
	stopSandbox(ctx context.Context, id string) error
}

type criStops struct {
	runtime runtimeapi.RuntimeServiceClient
}

func (c criStops) stopContainer(ctx context.Context, id string, seconds int64) error {
	_, err := c.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: seconds})
	if err != nil && !isNotFound(err) {
		return failed(err, "stop container %s", id)
	}
	return nil
}

func (c criStops) stopSandbox(ctx context.Context, id string) error {
	_, err := c.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	if err != nil && !isNotFound(err) {
		return failed(err, "stop sandbox %s", id)
	}
	return nil
}

// stopper holds StopContainer calls open. The runtime sends TERM when a call
// arrives and KILL at the end of its timeout, but only while the call lives, so
// it must not end with whoever asked.
//
// One goroutine owns all state and never blocks; each call has a goroutine of
// its own that reports back. A call that fails is forgotten: whoever wants the
// container stopped asks again, as the contract says.
type stopper struct {
	client   stopClient
	requests chan request
	leaves   chan leave
	ended    chan struct{}
}

// leave asks that a sandbox be left to who asks. The reply is closed once no call
// for it is open.
type leave struct {
	sandbox string
	reply   chan<- (<-chan struct{})
}

// request asks for the end of containers and then of their sandbox.
type request struct {
	pod   podStop
	grace time.Duration
}

// podStop names containers, and the sandbox that ends after them unless it is
// empty.
type podStop struct {
	sandbox    string
	containers []string
	// removable sandboxes are left to a Remove for a moment after the containers.
	removable bool
}

func newStopper(runtime runtimeapi.RuntimeServiceClient) *stopper {
	return &stopper{client: criStops{runtime}, requests: make(chan request), leaves: make(chan leave), ended: make(chan struct{})}
}

// ask returns when the request is lodged. Errors: Unavailable when run has
// ended, or is not there within the context.
func (s *stopper) ask(ctx context.Context, r request) error {
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

// leave returns when no call for a sandbox is open and none will be made for what
// was asked before. Errors: Unavailable when the context ends.
func (s *stopper) leave(ctx context.Context, sandbox string) error {
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

// run serves requests until the context ends; then the open calls are dropped,
// and the containers they were for are left to their next owner. It asks may before
// each call, since a sandbox's comes long after its request.
func (s *stopper) run(ctx context.Context, may backend.Permit) error {
	defer close(s.ended)
	state := &stops{
		stopper:    s,
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
	*stopper
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
	left      chan struct{} // closed: nobody needs the call that has not begun
	done      chan struct{} // closed when the call has ended
}

// result is the end of one call, for a container or for a sandbox.
type result struct {
	container, sandbox string
	err                error
}

func (s *stops) lodge(ctx context.Context, r request) {
	for _, id := range r.pod.containers {
		s.stopContainer(ctx, id, r.grace)
	}
	if r.pod.sandbox == "" {
		return
	}
	sandbox := s.sandboxes[r.pod.sandbox]
	if sandbox == nil {
		sandbox = &sandboxStop{waits: map[string]bool{}, left: make(chan struct{}), done: make(chan struct{})}
		s.sandboxes[r.pod.sandbox] = sandbox
	}
	sandbox.removable = r.pod.removable
	for _, id := range r.pod.containers {
		sandbox.waits[id] = true
	}
	s.stopSandbox(ctx, r.pod.sandbox)
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
		return s.client.stopContainer(ctx, id, seconds)
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
			timer := time.NewTimer(removalFollows)
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
		return s.client.stopSandbox(ctx, id)
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
		log.G(ctx).WithError(r.err).Warn("Failed to stop on the remote; it will be asked again")
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
	// Ended, or nobody is at it any more.
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
