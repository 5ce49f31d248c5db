package fakecri

import (
	"context"
	"errors"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// errNoStreaming is the answer where there is no streaming server.
var errNoStreaming = errors.New("no streaming server here")

// Exec gives out a URL of Streaming, for running containers alone.
func (s *Server) Exec(_ context.Context, r *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	if err := s.runs(r.GetContainerId()); err != nil {
		return nil, err
	}
	if s.Streaming == nil {
		return nil, errNoStreaming
	}
	return s.Streaming.GetExec(r)
}

// Attach is as Exec.
func (s *Server) Attach(_ context.Context, r *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	if err := s.runs(r.GetContainerId()); err != nil {
		return nil, err
	}
	if s.Streaming == nil {
		return nil, errNoStreaming
	}
	return s.Streaming.GetAttach(r)
}

// PortForward gives out a URL of Streaming, for live sandboxes alone.
func (s *Server) PortForward(
	_ context.Context, r *runtimeapi.PortForwardRequest,
) (*runtimeapi.PortForwardResponse, error) {
	s.mu.Lock()
	box := s.sandboxes[r.GetPodSandboxId()]
	live := box != nil && box.state == runtimeapi.PodSandboxState_SANDBOX_READY
	s.mu.Unlock()
	switch {
	case box == nil:
		// containerd wraps it without its code.
		return nil, fmt.Errorf("failed to find sandbox %q: not found", r.GetPodSandboxId())
	case !live:
		return nil, errors.New("sandbox container is not running")
	case s.Streaming == nil:
		return nil, errNoStreaming
	}
	return s.Streaming.GetPortForward(r)
}

// runs is nil for a container that is running.
func (s *Server) runs(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.containers[id]
	switch {
	case c == nil:
		return notFound("container")
	case c.state != runtimeapi.ContainerState_CONTAINER_RUNNING:
		return fmt.Errorf("container is in %s state", c.state)
	}
	return nil
}
