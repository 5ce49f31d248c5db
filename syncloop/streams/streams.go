package streams

import (
	"context"
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/plan"
)

// Pod is what is known of one pod.
type Pod struct {
	Pod    *corev1.Pod
	Status corev1.PodStatus
	Facts  []backend.PodFacts
}

// Server opens what users ask of the containers of one node.
type Server struct {
	backend backend.Backend
	lookup  func(backend.Ref) (Pod, bool)
}

// New lends what the backend does. lookup finds the pod that a caller names, by
// namespace and name, and by UID where one is given.
func New(b backend.Backend, lookup func(backend.Ref) (Pod, bool)) *Server {
	return &Server{backend: b, lookup: lookup}
}

// Exec runs a command in the running attempt of a container, whichever kind of
// container it is, and returns its exit code. The pod is named by namespace and
// name, and by UID where one is given; its attempt and ID mean nothing. Errors:
// NotFound for an unknown pod or a container that does not run, Unsupported where
// the backend lends no exec, those of the backend.
func (s *Server) Exec(ctx context.Context, pod backend.Ref, container string, spec backend.ExecSpec) (int32, error) {
	c, err := s.execTarget(pod, container)
	if err != nil {
		return 0, err
	}
	if spec.TTY {
		spec.Stderr = nil
	}
	code, err := s.backend.Exec.Exec(ctx, c.ref, spec)
	if err != nil {
		return 0, fmt.Errorf("exec in container %q of pod %q: %w", container, pod.Name, err)
	}
	return code, nil
}

// Attach joins streams to the main process of a running container until it ends.
// Whether there is a terminal is the container's choice, not the caller's, as for
// a kubelet. Names and errors are those of Exec.
func (s *Server) Attach(ctx context.Context, pod backend.Ref, container string, spec backend.AttachSpec) error {
	c, err := s.attachTarget(pod, container)
	if err != nil {
		return err
	}
	if spec.TTY = c.spec.TTY; spec.TTY {
		spec.Stderr = nil
	} else {
		spec.Resize = nil
	}
	if err := s.backend.Attach.Attach(ctx, c.ref, spec); err != nil {
		return fmt.Errorf("attach to container %q of pod %q: %w", container, pod.Name, err)
	}
	return nil
}

// Forward opens a connection to a port inside the live attempt of a pod. Names
// and errors are those of Exec, and the connection's own (refused).
func (s *Server) Forward(ctx context.Context, pod backend.Ref, port uint16) (net.Conn, error) {
	ref, err := s.forwardTarget(pod)
	if err != nil {
		return nil, err
	}
	conn, err := s.backend.Forward.Forward(ctx, ref, port)
	if err != nil {
		return nil, fmt.Errorf("connect to port %d of pod %q: %w", port, pod.Name, err)
	}
	return conn, nil
}

// Checkpoint writes an archive of the running attempt of a container, and returns where it
// is on its host. Names and errors are those of Exec.
func (s *Server) Checkpoint(
	ctx context.Context, pod backend.Ref, container string, timeout time.Duration,
) (string, error) {
	c, err := s.target(pod, container, "checkpoints", s.backend.Checkpoint != nil)
	if err != nil {
		return "", err
	}
	location, err := s.backend.Checkpoint.Checkpoint(ctx, c.ref, timeout)
	if err != nil {
		return "", fmt.Errorf("checkpoint container %q of pod %q: %w", container, pod.Name, err)
	}
	return location, nil
}

// PodUID is the UID of the pod that is named; empty for an unknown one.
func (s *Server) PodUID(pod backend.Ref) types.UID {
	if found, _, err := s.named(pod); err == nil {
		return found.UID
	}
	return ""
}

// CanExec returns the error that Exec would fail with before it asks the remote.
func (s *Server) CanExec(pod backend.Ref, container string) error {
	_, err := s.execTarget(pod, container)
	return err
}

// CanAttach is CanExec for Attach.
func (s *Server) CanAttach(pod backend.Ref, container string) error {
	_, err := s.attachTarget(pod, container)
	return err
}

// CanForward is CanExec for Forward.
func (s *Server) CanForward(pod backend.Ref) error {
	_, err := s.forwardTarget(pod)
	return err
}

// target is a running container: its attempt and its spec.
type target struct {
	ref  backend.ContainerRef
	spec *corev1.Container
}

func (s *Server) execTarget(pod backend.Ref, container string) (target, error) {
	return s.target(pod, container, "exec", s.backend.Exec != nil)
}

func (s *Server) attachTarget(pod backend.Ref, container string) (target, error) {
	return s.target(pod, container, "attach", s.backend.Attach != nil)
}

// target finds the attempt of a container that runs.
func (s *Server) target(ref backend.Ref, container, what string, lent bool) (target, error) {
	pod, facts, err := s.named(ref)
	if err != nil {
		return target{}, err
	}
	c := plan.ContainerNamed(pod, container)
	if c == nil {
		return target{}, backend.Errorf(backend.ErrNotFound, "container not found (%q)", container)
	}
	if !lent {
		return target{}, s.unlent(what)
	}
	for _, a := range plan.Attempts(facts, container) {
		if a.State() == backend.Running && a.Pod.Live {
			return target{a.Ref(), c}, nil
		}
	}
	return target{}, backend.Errorf(backend.ErrNotFound, "container not found (%q): it is not running", container)
}

// forwardTarget finds the attempt of a pod whose network is up.
func (s *Server) forwardTarget(ref backend.Ref) (backend.Ref, error) {
	pod, facts, err := s.named(ref)
	if err != nil {
		return backend.Ref{}, err
	}
	if s.backend.Forward == nil {
		return backend.Ref{}, s.unlent("port forwarding")
	}
	live := plan.LiveAttempt(facts)
	if live == nil {
		return backend.Ref{}, backend.Errorf(backend.ErrNotFound, "pod not found (%q): it is not running",
			pod.Name+"_"+pod.Namespace)
	}
	return live.Ref, nil
}

// named returns the pod that a caller names, with what is known of it.
func (s *Server) named(ref backend.Ref) (*corev1.Pod, []backend.PodFacts, error) {
	if pod, found := s.lookup(ref); found {
		return pod.Pod, pod.Facts, nil
	}
	return nil, nil, backend.Errorf(backend.ErrNotFound, "pod does not exist")
}

func (s *Server) unlent(what string) error {
	return backend.Errorf(backend.ErrUnsupported, "the %s backend does not lend %s", s.backend.Name, what)
}
