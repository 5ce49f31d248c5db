package syncloop

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/plan"
)

// Exec runs a command in the running attempt of a container, whichever kind of
// container it is, and returns its exit code. The pod is named by namespace and
// name, and by UID where one is given; its attempt and ID mean nothing. Errors:
// NotFound for an unknown pod or a container that does not run, Unsupported where
// the backend lends no exec, those of the backend.
func (l *Loop) Exec(ctx context.Context, pod backend.Ref, container string, spec backend.ExecSpec) (int32, error) {
	c, err := l.execTarget(pod, container)
	if err != nil {
		return 0, err
	}
	if spec.TTY {
		spec.Stderr = nil
	}
	code, err := l.cfg.Backend.Exec.Exec(ctx, c.ref, spec)
	if err != nil {
		return 0, fmt.Errorf("exec in container %q of pod %q: %w", container, pod.Name, err)
	}
	return code, nil
}

// Attach joins streams to the main process of a running container until it ends.
// Whether there is a terminal is the container's choice, not the caller's, as for
// a kubelet. Names and errors are those of Exec.
func (l *Loop) Attach(ctx context.Context, pod backend.Ref, container string, spec backend.AttachSpec) error {
	c, err := l.attachTarget(pod, container)
	if err != nil {
		return err
	}
	if spec.TTY = c.spec.TTY; spec.TTY {
		spec.Stderr = nil
	} else {
		spec.Resize = nil
	}
	if err := l.cfg.Backend.Attach.Attach(ctx, c.ref, spec); err != nil {
		return fmt.Errorf("attach to container %q of pod %q: %w", container, pod.Name, err)
	}
	return nil
}

// Forward opens a connection to a port inside the live attempt of a pod. Names
// and errors are those of Exec, and the connection's own (refused).
func (l *Loop) Forward(ctx context.Context, pod backend.Ref, port uint16) (net.Conn, error) {
	ref, err := l.forwardTarget(pod)
	if err != nil {
		return nil, err
	}
	conn, err := l.cfg.Backend.Forward.Forward(ctx, ref, port)
	if err != nil {
		return nil, fmt.Errorf("connect to port %d of pod %q: %w", port, pod.Name, err)
	}
	return conn, nil
}

// Checkpoint writes an archive of the running attempt of a container, and returns where it
// is on its host. Names and errors are those of Exec.
func (l *Loop) Checkpoint(
	ctx context.Context, pod backend.Ref, container string, timeout time.Duration,
) (string, error) {
	c, err := l.target(pod, container, "checkpoints", l.cfg.Backend.Checkpoint != nil)
	if err != nil {
		return "", err
	}
	location, err := l.cfg.Backend.Checkpoint.Checkpoint(ctx, c.ref, timeout)
	if err != nil {
		return "", fmt.Errorf("checkpoint container %q of pod %q: %w", container, pod.Name, err)
	}
	return location, nil
}

// PodUID is the UID of the pod that is named; empty for an unknown one.
func (l *Loop) PodUID(pod backend.Ref) types.UID {
	if found, _, err := l.named(pod); err == nil {
		return found.UID
	}
	return ""
}

// CanExec returns the error that Exec would fail with before it asks the remote.
func (l *Loop) CanExec(pod backend.Ref, container string) error {
	_, err := l.execTarget(pod, container)
	return err
}

// CanAttach is CanExec for Attach.
func (l *Loop) CanAttach(pod backend.Ref, container string) error {
	_, err := l.attachTarget(pod, container)
	return err
}

// CanForward is CanExec for Forward.
func (l *Loop) CanForward(pod backend.Ref) error {
	_, err := l.forwardTarget(pod)
	return err
}

// target is a running container: its attempt and its spec.
type target struct {
	ref  backend.ContainerRef
	spec *corev1.Container
}

func (l *Loop) execTarget(pod backend.Ref, container string) (target, error) {
	return l.target(pod, container, "exec", l.cfg.Backend.Exec != nil)
}

func (l *Loop) attachTarget(pod backend.Ref, container string) (target, error) {
	return l.target(pod, container, "attach", l.cfg.Backend.Attach != nil)
}

// target finds the attempt of a container that runs.
func (l *Loop) target(ref backend.Ref, container, what string, lent bool) (target, error) {
	pod, facts, err := l.named(ref)
	if err != nil {
		return target{}, err
	}
	c := plan.ContainerNamed(pod, container)
	if c == nil {
		return target{}, backend.Errorf(backend.ErrNotFound, "container not found (%q)", container)
	}
	if !lent {
		return target{}, l.unlent(what)
	}
	for _, a := range plan.Attempts(facts, container) {
		if a.State() == backend.Running && a.Pod.Live {
			return target{a.Ref(), c}, nil
		}
	}
	return target{}, backend.Errorf(backend.ErrNotFound, "container not found (%q): it is not running", container)
}

// forwardTarget finds the attempt of a pod whose network is up.
func (l *Loop) forwardTarget(ref backend.Ref) (backend.Ref, error) {
	pod, facts, err := l.named(ref)
	if err != nil {
		return backend.Ref{}, err
	}
	if l.cfg.Backend.Forward == nil {
		return backend.Ref{}, l.unlent("port forwarding")
	}
	live := plan.LiveAttempt(facts)
	if live == nil {
		return backend.Ref{}, backend.Errorf(backend.ErrNotFound, "pod not found (%q): it is not running",
			pod.Name+"_"+pod.Namespace)
	}
	return live.Ref, nil
}

func (l *Loop) unlent(what string) error {
	return backend.Errorf(backend.ErrUnsupported, "the %s backend does not lend %s", l.cfg.Backend.Name, what)
}

// named returns the pod that a caller names, with what is known of it.
func (l *Loop) named(ref backend.Ref) (*corev1.Pod, []backend.PodFacts, error) {
	var w *worker
	if ref.UID == "" {
		w = l.find(ref.Namespace, ref.Name)
	} else if w = l.worker(ref.UID); w != nil && (w.ref.Namespace != ref.Namespace || w.ref.Name != ref.Name) {
		w = nil
	}
	if w != nil {
		if pod, _, facts := w.snapshot(); pod != nil {
			return pod, facts, nil
		}
	}
	return nil, nil, backend.Errorf(backend.ErrNotFound, "pod does not exist")
}

// ContainerLogs opens the log of a container's newest attempt that ran, or with
// previous of the one that ended before the present. Errors: NotFound for an
// unknown pod or container, Invalid for one that has not started yet, Unsupported
// where the backend has no logs.
func (l *Loop) ContainerLogs(ctx context.Context, namespace, name, container string, previous bool,
	opts backend.LogOptions,
) (io.ReadCloser, error) {
	w := l.find(namespace, name)
	if w == nil {
		return nil, backend.Errorf(backend.ErrNotFound, "pod %q does not exist", name)
	}
	pod, status, facts := w.snapshot()
	if plan.ContainerNamed(pod, container) == nil {
		return nil, backend.Errorf(backend.ErrNotFound, "container %q not found in pod %q", container, name)
	}
	if l.cfg.Backend.Logs == nil {
		return nil, backend.Errorf(backend.ErrUnsupported, "the %s backend does not serve logs", l.cfg.Backend.Name)
	}
	c, err := logged(facts, containerStatus(&status, container), name, container, previous)
	if err != nil {
		return nil, err
	}
	r, err := l.cfg.Backend.Logs.Open(ctx, c.Ref(), opts)
	if err != nil {
		return nil, fmt.Errorf("open log of container %q in pod %q: %w", container, name, err)
	}
	return r, nil
}

// logged chooses the attempt whose log is asked for, as the kubelet does
// (validateContainerLogStatus): of a container that waits to be started again,
// the one that ended last is both the present and the previous one.
func logged(
	facts []backend.PodFacts, status *corev1.ContainerStatus, pod, container string, previous bool,
) (*plan.ContainerAttempt, error) {
	started := slices.DeleteFunc(
		plan.Attempts(facts, container), func(c plan.ContainerAttempt) bool { return c.StartedAt.IsZero() },
	)
	waits := status != nil && status.State.Waiting != nil
	skip := 0
	if previous && !waits {
		skip = 1
	}
	switch {
	case len(started) > skip:
		return &started[skip], nil
	case previous:
		return nil, backend.Errorf(backend.ErrInvalid, "previous terminated container %q in pod %q not found", container, pod)
	case status == nil:
		return nil, backend.Errorf(backend.ErrInvalid, "container %q in pod %q is not available", container, pod)
	case waits:
		return nil, backend.Errorf(backend.ErrInvalid, "container %q in pod %q is waiting to start: %s",
			container, pod, waitsFor(status.State.Waiting.Reason))
	case status.State.Terminated != nil:
		return nil, backend.Errorf(backend.ErrInvalid, "container %q in pod %q is terminated", container, pod)
	}
	return nil, backend.Errorf(
		backend.ErrInvalid, "container %q in pod %q is waiting to start - no logs yet", container, pod,
	)
}

// waitsFor puts the common reasons into the kubelet's words.
func waitsFor(reason string) string {
	switch reason {
	case plan.ReasonErrImagePull:
		return "image can't be pulled"
	case plan.ReasonImagePullBackOff:
		return "trying and failing to pull image"
	}
	return reason
}

// containerStatus finds a container of any kind; nil if it has no status yet.
func containerStatus(status *corev1.PodStatus, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{
		status.ContainerStatuses, status.InitContainerStatuses, status.EphemeralContainerStatuses,
	} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// find returns the worker of the pod that the API has under a name: the newest,
// where one made anew stands beside one that is still ending.
func (l *Loop) find(namespace, name string) *worker {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found *worker
	for _, w := range l.workers {
		if w.ref.Namespace != namespace || w.ref.Name != name {
			continue
		}
		pod, _, _ := w.snapshot()
		if pod == nil {
			continue
		}
		if found != nil {
			other, _, _ := found.snapshot()
			if pod.CreationTimestamp.Before(&other.CreationTimestamp) || w.isRemoved() {
				continue
			}
		}
		found = w
	}
	return found
}

func (w *worker) isRemoved() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.removed
}
