// Package hooks carries out the postStart and preStop hooks of containers through
// the backend's Exec and Dial. When a hook runs, and what its failure means, is
// the plan's matter.
package hooks

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/httpget"
	"github.com/burstlet/burstlet/backend/pause"
	"github.com/burstlet/burstlet/syncloop/prober/check"
)

// Config is what a Runner needs. Exec and Dial may be nil: hooks that need them
// fail as Unsupported.
type Config struct {
	Exec backend.Exec
	Dial backend.Dialer
	// Event tells users about a pod: kind is corev1.EventTypeWarning, reason the
	// kubelet's. Nil is nobody.
	Event func(pod *corev1.Pod, kind, reason, message string)
}

// Runner runs hooks. It keeps nothing between them.
type Runner struct {
	check *check.Checker
	event func(pod *corev1.Pod, kind, reason, message string)
}

// New returns a Runner.
func New(cfg Config) *Runner {
	return &Runner{check: check.New(cfg.Exec, cfg.Dial), event: cfg.Event}
}

// Target is the container that a hook is of.
type Target struct {
	Ref backend.ContainerRef
	Pod *corev1.Pod
	// Container is the container as the API has it, for its named ports.
	Container *corev1.Container
	// PodIP is where a request goes that names no host.
	PodIP string
}

// Error is a hook that failed. Its text is the kubelet's: it shows the hook's
// output, which may be secret, so that Events say no more than "PostStartHook
// failed" or "PreStopHook failed".
type Error struct {
	message string
	err     error
}

// Error is the kubelet's message.
func (e *Error) Error() string { return e.message }

// Unwrap returns the cause, with the backend's class.
func (e *Error) Unwrap() error { return e.err }

// Run carries out one hook to its end. When ctx ends first it returns ctx's
// error; any other error is an *Error. A hook has no time limit of its own.
func (r *Runner) Run(ctx context.Context, t Target, handler *corev1.LifecycleHandler) error {
	err := r.run(ctx, t, handler)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (r *Runner) run(ctx context.Context, t Target, h *corev1.LifecycleHandler) error {
	switch {
	case h.Exec != nil:
		output, err := r.check.Exec(ctx, t.Ref, h.Exec.Command)
		return t.failed(fmt.Sprintf("Exec lifecycle hook (%v)", h.Exec.Command), err, fmt.Sprintf(", message: %q", output))
	case h.HTTPGet != nil:
		return t.failed(fmt.Sprintf("HTTP lifecycle hook (%s)", h.HTTPGet.Path), r.get(ctx, t, h.HTTPGet), "")
	case h.Sleep != nil:
		return t.failed(fmt.Sprintf("Sleep lifecycle hook (%d)", h.Sleep.Seconds), sleep(ctx, h.Sleep.Seconds), "")
	default:
		// tcpSocket stands in the API but was never carried out by a kubelet.
		err := backend.Errorf(backend.ErrUnsupported, "invalid handler: %v", h)
		return &Error{message: fmt.Sprintf("Cannot run handler: %v", err), err: err}
	}
}

// failed words the error of a hook; nil stays nil.
func (t Target) failed(hook string, err error, tail string) error {
	if err == nil {
		return nil
	}
	return &Error{err: err, message: fmt.Sprintf("%s for Container %q in Pod \"%s_%s(%s)\" failed - error: %v%s",
		hook, t.Container.Name, t.Pod.Name, t.Pod.Namespace, t.Pod.UID, err, tail)}
}

func sleep(ctx context.Context, seconds int64) error {
	return pause.For(ctx, time.Duration(seconds)*time.Second)
}

// get sends the request, perhaps once more without TLS, which users hear of.
func (r *Runner) get(ctx context.Context, t Target, action *corev1.HTTPGetAction) error {
	target := check.Target{Ref: t.Ref, PodIP: t.PodIP, Container: t.Container}
	req, err := check.Request(ctx, target, action, httpget.ForLifecycle)
	if err != nil {
		return err
	}
	client, done := r.check.Client(ctx, t.Ref.Pod)
	defer done()
	return httpget.Hook(client, req, func(err error) {
		if err != nil {
			log.G(ctx).WithError(err).WithField("host", req.URL.Host).Debug("lifecycle hook failed without TLS too")
			return
		}
		if r.event != nil {
			r.event(t.Pod, corev1.EventTypeWarning, "LifecycleHTTPFallback",
				fmt.Sprintf("request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded", req.URL.Host))
		}
	})
}
