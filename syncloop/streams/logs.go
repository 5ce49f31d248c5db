package streams

import (
	"context"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/plan"
)

// ContainerLogs opens the log of a container's newest attempt that ran, or with
// previous of the one that ended before the present. Errors: NotFound for an
// unknown pod or container, Invalid for one that has not started yet, Unsupported
// where the backend has no logs.
func (s *Server) ContainerLogs(ctx context.Context, namespace, name, container string, previous bool,
	opts backend.LogOptions,
) (io.ReadCloser, error) {
	pod, found := s.lookup(backend.Ref{Namespace: namespace, Name: name})
	if !found {
		return nil, backend.Errorf(backend.ErrNotFound, "pod %q does not exist", name)
	}
	if plan.ContainerNamed(pod.Pod, container) == nil {
		return nil, backend.Errorf(backend.ErrNotFound, "container %q not found in pod %q", container, name)
	}
	if s.backend.Logs == nil {
		return nil, backend.Errorf(backend.ErrUnsupported, "the %s backend does not serve logs", s.backend.Name)
	}
	c, err := logged(pod.Facts, containerStatus(&pod.Status, container), name, container, previous)
	if err != nil {
		return nil, err
	}
	r, err := s.backend.Logs.Open(ctx, c.Ref(), opts)
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
