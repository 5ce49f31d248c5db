package fakecri

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CreateContainer reserves the name as containerd does, and shows the container when it is
// whole.
func (s *Server) CreateContainer(
	ctx context.Context, r *runtimeapi.CreateContainerRequest,
) (*runtimeapi.CreateContainerResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	box := s.sandboxes[r.GetPodSandboxId()]
	if box == nil || box.state != runtimeapi.PodSandboxState_SANDBOX_READY {
		return nil, fmt.Errorf("failed to get sandbox container task: no running task found")
	}
	c := &container{
		id: s.nextID("container"), sandbox: box.id, config: r.GetConfig(), created: time.Now(), ended: make(chan struct{}),
		name: containerName(r.GetConfig(), box), logs: box.config.GetLogDirectory(),
	}
	release, err := s.reserve("container", c.name, c.id)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := s.amid(ctx, "CreateContainer"); err != nil {
		return nil, fmt.Errorf("failed to create containerd container: %w", err)
	}
	s.containers[c.id] = c
	return &runtimeapi.CreateContainerResponse{ContainerId: c.id}, nil
}

// containerName does not know the sandbox's attempt, like containerd's.
func containerName(config *runtimeapi.ContainerConfig, box *sandbox) string {
	return fmt.Sprintf(
		"%s_%s_%d", config.GetMetadata().GetName(), box.config.GetMetadata().GetUid(), config.GetMetadata().GetAttempt(),
	)
}

// StartContainer fails for a container that was started before, and for one that is
// being started.
func (s *Server) StartContainer(
	ctx context.Context, r *runtimeapi.StartContainerRequest,
) (*runtimeapi.StartContainerResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.containers[r.GetContainerId()]
	switch {
	case c == nil:
		return nil, notFound("container")
	case c.starting:
		return nil, fmt.Errorf("failed to set starting state for container %q: container is already in starting state", c.id)
	case c.state != runtimeapi.ContainerState_CONTAINER_CREATED:
		return nil, fmt.Errorf("container is in %s state", c.state)
	}
	s.begun[c.config.GetMetadata().GetName()]++
	c.starting = true
	err := s.amid(ctx, "StartContainer")
	c.starting = false
	if err != nil {
		cut := fmt.Sprintf("failed to start containerd task %q: %v: unknown", c.id, err)
		s.failStart(c, cut)
		return nil, errors.New(cut)
	}
	c.state, c.started = runtimeapi.ContainerState_CONTAINER_RUNNING, time.Now()
	return &runtimeapi.StartContainerResponse{}, nil
}

// CheckpointContainer writes a checkpoint.
func (s *Server) CheckpointContainer(
	ctx context.Context, r *runtimeapi.CheckpointContainerRequest,
) (*runtimeapi.CheckpointContainerResponse, error) {
	if s.Checkpoints == nil {
		return s.UnimplementedRuntimeServiceServer.CheckpointContainer(ctx, r)
	}
	return &runtimeapi.CheckpointContainerResponse{}, s.Checkpoints(r)
}

// StopContainer kills at the end of the timeout, while the call lives.
func (s *Server) StopContainer(
	ctx context.Context, r *runtimeapi.StopContainerRequest,
) (*runtimeapi.StopContainerResponse, error) {
	s.mu.Lock()
	c := s.containers[r.GetContainerId()]
	if c == nil || c.state != runtimeapi.ContainerState_CONTAINER_RUNNING {
		s.mu.Unlock()
		return &runtimeapi.StopContainerResponse{}, nil
	}
	c.stops = append(c.stops, r.GetTimeout())
	if r.GetTimeout() > 0 && !s.IgnoresTERM[c.config.GetMetadata().GetName()] {
		s.exit(c, 143, "Error")
	}
	ended, err := c.ended, s.amid(ctx, "StopContainer")
	s.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("an error occurs during waiting for container %q to be killed: %w", c.id, err)
	}
	timeout := time.NewTimer(time.Duration(r.GetTimeout()) * time.Second)
	defer timeout.Stop()
	select {
	case <-ended:
	case <-timeout.C:
		s.mu.Lock()
		s.exit(c, 137, "Error")
		s.mu.Unlock()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return &runtimeapi.StopContainerResponse{}, nil
}

// RemoveContainer kills what runs.
func (s *Server) RemoveContainer(
	ctx context.Context, r *runtimeapi.RemoveContainerRequest,
) (*runtimeapi.RemoveContainerResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.containers[r.GetContainerId()]
	if c == nil {
		return &runtimeapi.RemoveContainerResponse{}, nil
	}
	if !c.starting {
		s.exit(c, 137, "Error")
	}
	if err := s.amid(ctx, "RemoveContainer"); err != nil {
		return nil, fmt.Errorf("failed to delete containerd container %q: %w", c.id, err)
	}
	if err := s.remove(c); err != nil {
		return nil, err
	}
	return &runtimeapi.RemoveContainerResponse{}, nil
}

// remove fails for a container that is being started.
func (s *Server) remove(c *container) error {
	if c.starting {
		return fmt.Errorf(
			"failed to set removing state for container %q: container is in starting state, can't be removed", c.id,
		)
	}
	delete(s.containers, c.id)
	return nil
}

// UpdateContainerResources changes what the container was made with.
func (s *Server) UpdateContainerResources(
	_ context.Context, r *runtimeapi.UpdateContainerResourcesRequest,
) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.containers[r.GetContainerId()]
	if c == nil {
		return nil, notFound("container")
	}
	c.config.Linux.Resources = r.GetLinux()
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}

// ReopenContainerLog is Reopening.
func (s *Server) ReopenContainerLog(
	_ context.Context, r *runtimeapi.ReopenContainerLogRequest,
) (*runtimeapi.ReopenContainerLogResponse, error) {
	if s.Reopening == nil {
		return nil, status.Error(codes.Unimplemented, "logs are not opened anew")
	}
	return &runtimeapi.ReopenContainerLogResponse{}, s.Reopening(r.GetContainerId())
}

// ListContainers honours the label selector.
func (s *Server) ListContainers(
	_ context.Context, r *runtimeapi.ListContainersRequest,
) (*runtimeapi.ListContainersResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := &runtimeapi.ListContainersResponse{}
	for _, c := range s.containers {
		if selects(r.GetFilter().GetLabelSelector(), c.config.GetLabels()) {
			reply.Containers = append(reply.Containers, &runtimeapi.Container{
				Id: c.id, PodSandboxId: c.sandbox, Metadata: c.config.GetMetadata(), State: c.state,
				Image: c.config.GetImage(), ImageRef: c.config.GetImage().GetImage(), CreatedAt: c.created.UnixNano(),
				Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
			})
		}
	}
	return reply, nil
}

// ContainerStatus has the times and the end.
func (s *Server) ContainerStatus(
	_ context.Context, r *runtimeapi.ContainerStatusRequest,
) (*runtimeapi.ContainerStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.containers[r.GetContainerId()]
	if c == nil {
		return nil, notFound("container")
	}
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{
		Id: c.id, Metadata: c.config.GetMetadata(), State: c.state,
		CreatedAt: c.created.UnixNano(), StartedAt: nanos(c.started), FinishedAt: nanos(c.finished),
		ExitCode: c.code, Reason: c.reason, Message: c.message, Image: c.config.GetImage(),
		ImageRef: c.config.GetImage().GetImage(),
		Labels:   c.config.GetLabels(), Annotations: c.config.GetAnnotations(), Mounts: c.config.GetMounts(),
		Resources: &runtimeapi.ContainerResources{Linux: c.config.GetLinux().GetResources()},
		LogPath:   path.Join(c.logs, c.config.GetLogPath()),
	}}, nil
}

// ExecSync answers by Commands, for running containers alone.
func (s *Server) ExecSync(ctx context.Context, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	if err := s.runs(r.GetContainerId()); err != nil {
		return nil, err
	}
	if s.Commands == nil {
		return nil, errors.New("failed to exec in container: no commands here")
	}
	return s.Commands(ctx, r)
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func notFound(what string) error {
	return status.Errorf(codes.NotFound, "an error occurred when try to find %s: not found", what)
}

// exit ends a container that has not ended. The lock is held.
func (s *Server) exit(c *container, code int32, reason string) {
	if c.state == runtimeapi.ContainerState_CONTAINER_EXITED {
		return
	}
	c.state, c.finished, c.code, c.reason = runtimeapi.ContainerState_CONTAINER_EXITED, time.Now(), code, reason
	close(c.ended)
}

// Exit ends a container by itself.
func (s *Server) Exit(containerID string, code int32, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exit(s.containers[containerID], code, reason)
}

// FailStart ends a container that was created and does not start.
func (s *Server) FailStart(containerID, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failStart(s.containers[containerID], message)
}

func (s *Server) failStart(c *container, message string) {
	c.message = message
	s.exit(c, 128, "StartError")
}

// Container is the configuration of the only container of a name, with its id.
func (s *Server) Container(name string) (string, *runtimeapi.ContainerConfig) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, c := range s.containers {
		if c.config.GetMetadata().GetName() == name {
			return id, c.config
		}
	}
	return "", nil
}

// Stops are the timeouts of the stop calls that reached a running container.
func (s *Server) Stops(containerID string) []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int64(nil), s.containers[containerID].stops...)
}
