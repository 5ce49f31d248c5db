// Package images decides whether an image must be pulled and pulls it: pull
// policies, a limit on pulls at once, and one pull for all who wait for the same
// image. Backoff is the caller's: it stands in the plan's input.
package images

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// The kubelet's errors for images (pkg/kubelet/images/types.go).
var (
	ErrPull      = errors.New("ErrImagePull")
	ErrNever     = errors.New("ErrImageNeverPull")
	ErrInvalid   = errors.New("InvalidImageName")
	errRuntime   = errors.New("ImageInspectError")
	errCancelled = errors.New("the pod is ending")
)

// Reason is the kubelet's word for an error of Ensure, as a container's waiting
// reason; empty for one that is not the user's matter.
func Reason(err error) string {
	for _, class := range []error{ErrPull, ErrNever, ErrInvalid, errRuntime} {
		if errors.Is(err, class) {
			return class.Error()
		}
	}
	return ""
}

// Event tells the user something about the pod.
type Event func(kind, reason, format string, args ...any)

// Puller finds and pulls images on one remote.
type Puller struct {
	images backend.Images
	limit  time.Duration
	slots  chan struct{}

	mu      sync.Mutex
	pulling map[string]*pull
}

type pull struct {
	done chan struct{}
	id   string
	err  error
	// waiters counts who wants it; the last to leave ends it.
	waiters int
	cancel  context.CancelFunc
}

// New returns a puller that runs at most parallel pulls at once, each bounded
// by limit.
func New(images backend.Images, parallel int, limit time.Duration) *Puller {
	return &Puller{
		images: images, limit: limit, slots: make(chan struct{}, parallel), pulling: map[string]*pull{},
	}
}

// Ensure makes sure that a container's image is on the remote, as its pull
// policy says, and returns its id.
func (p *Puller) Ensure(ctx context.Context, c *corev1.Container, event Event) (string, error) {
	policy := c.ImagePullPolicy
	if policy != corev1.PullAlways {
		id, err := p.images.Find(ctx, c.Image)
		switch {
		case err == nil:
			event(corev1.EventTypeNormal, "Pulled", "Container image %q already present on machine", c.Image)
			return id, nil
		case errors.Is(err, backend.ErrInvalid):
			return "", failed(event, "InspectFailed", backend.Classed(ErrInvalid, fmt.Errorf("apply image name %q: %w", c.Image, err)))
		case !errors.Is(err, backend.ErrNotFound):
			return "", backend.Classed(errRuntime, fmt.Errorf("look for image %q: %w", c.Image, err))
		case policy == corev1.PullNever:
			return "", failed(event, "ErrImageNeverPull", backend.Classed(ErrNever,
				fmt.Errorf("container image %q is not present with pull policy of Never", c.Image)))
		}
	}
	event(corev1.EventTypeNormal, "Pulling", "Pulling image %q", c.Image)
	start := time.Now()
	id, err := p.shared(ctx, c.Image)
	switch {
	case err == nil:
		event(corev1.EventTypeNormal, "Pulled", "Successfully pulled image %q in %s", c.Image,
			time.Since(start).Round(time.Millisecond))
		return id, nil
	case errors.Is(err, errCancelled):
		return "", backend.Errorf(backend.ErrThrottled, "pull image %q: %w", c.Image, err)
	case errors.Is(err, backend.ErrInvalid):
		return "", failed(event, "InspectFailed", backend.Classed(ErrInvalid, fmt.Errorf("apply image name %q: %w", c.Image, err)))
	}
	return "", failed(event, "Failed", backend.Classed(ErrPull, fmt.Errorf("pull image %q: %w", c.Image, err)))
}

func failed(event Event, reason string, err error) error {
	event(corev1.EventTypeWarning, reason, "Error: %v", err)
	return err
}

// shared joins a pull of the same image that is under way, or begins one.
func (p *Puller) shared(ctx context.Context, image string) (string, error) {
	p.mu.Lock()
	q := p.pulling[image]
	if q == nil {
		// The pull belongs to all who wait for it: it ends with the last.
		pullCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		q = &pull{done: make(chan struct{}), cancel: cancel}
		p.pulling[image] = q
		go p.pull(pullCtx, image, q)
	}
	q.waiters++
	p.mu.Unlock()
	defer p.leave(image, q)
	select {
	case <-q.done:
		return q.id, q.err
	case <-ctx.Done():
		return "", errCancelled
	}
}

// leave ends a pull that nobody waits for, and waits until it has ended, so
// that no pull outlives those who asked for it.
func (p *Puller) leave(image string, q *pull) {
	p.mu.Lock()
	q.waiters--
	last := q.waiters == 0
	if last && p.pulling[image] == q {
		delete(p.pulling, image)
	}
	p.mu.Unlock()
	if last {
		q.cancel()
		<-q.done
	}
}

func (p *Puller) pull(ctx context.Context, image string, q *pull) {
	defer close(q.done)
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		q.err = errCancelled
		return
	}
	if p.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.limit)
		defer cancel()
	}
	q.id, q.err = p.images.Pull(ctx, image, nil)
}
