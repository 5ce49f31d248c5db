package fakecri

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RunPodSandbox reserves the name as containerd does, and shows the sandbox when it is whole.
func (s *Server) RunPodSandbox(
	ctx context.Context, r *runtimeapi.RunPodSandboxRequest,
) (*runtimeapi.RunPodSandboxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	box := &sandbox{id: s.nextID("sandbox"), config: r.GetConfig(), created: time.Now()}
	release, err := s.reserve("sandbox", sandboxName(r.GetConfig().GetMetadata()), box.id)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := s.amid(ctx, "RunPodSandbox"); err != nil {
		return nil, fmt.Errorf("failed to setup network for sandbox %q: %w", box.id, err)
	}
	s.sandboxes[box.id] = box
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: box.id}, nil
}

func sandboxName(m *runtimeapi.PodSandboxMetadata) string {
	return fmt.Sprintf("%s_%s_%s_%d", m.GetName(), m.GetNamespace(), m.GetUid(), m.GetAttempt())
}

// StopPodSandbox kills the containers, ends the sandbox and takes its network down.
// As containerd does, it fails while another call takes the same network down.
func (s *Server) StopPodSandbox(
	ctx context.Context, r *runtimeapi.StopPodSandboxRequest,
) (*runtimeapi.StopPodSandboxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopContainers(r.GetPodSandboxId())
	box := s.sandboxes[r.GetPodSandboxId()]
	if box != nil {
		if box.freeing {
			return nil, fmt.Errorf("failed to destroy network for sandbox %q: unknown FS magic", box.id)
		}
		box.freeing = true
		defer func() { box.freeing = false }()
	}
	if err := s.amid(ctx, "StopPodSandbox"); err != nil {
		return nil, fmt.Errorf("failed to stop sandbox container %q: %w", r.GetPodSandboxId(), err)
	}
	if box != nil {
		box.state = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

// stopContainers kills those of a sandbox but one that is being started, as containerd does.
func (s *Server) stopContainers(sandbox string) {
	for _, c := range s.containers {
		if c.sandbox == sandbox && !c.starting {
			s.exit(c, 137, "Error")
		}
	}
}

// RemovePodSandbox removes the containers with it, unless one is being started.
func (s *Server) RemovePodSandbox(
	ctx context.Context, r *runtimeapi.RemovePodSandboxRequest,
) (*runtimeapi.RemovePodSandboxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.GetPodSandboxId()
	box := s.sandboxes[id]
	if box == nil {
		return &runtimeapi.RemovePodSandboxResponse{}, nil
	}
	s.stopContainers(id)
	box.state = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	if err := s.amid(ctx, "RemovePodSandbox"); err != nil {
		return nil, fmt.Errorf("failed to remove sandbox %q: %w", id, err)
	}
	for _, c := range s.containers {
		if c.sandbox != id {
			continue
		}
		if err := s.remove(c); err != nil {
			return nil, err
		}
	}
	delete(s.sandboxes, id)
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

// ListPodSandbox honours the label selector.
func (s *Server) ListPodSandbox(
	_ context.Context, r *runtimeapi.ListPodSandboxRequest,
) (*runtimeapi.ListPodSandboxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := &runtimeapi.ListPodSandboxResponse{}
	for _, box := range s.sandboxes {
		if selects(r.GetFilter().GetLabelSelector(), box.config.GetLabels()) {
			reply.Items = append(reply.Items, &runtimeapi.PodSandbox{
				Id: box.id, Metadata: box.config.GetMetadata(), State: box.state, CreatedAt: box.created.UnixNano(),
				Labels: box.config.GetLabels(), Annotations: box.config.GetAnnotations(),
			})
		}
	}
	return reply, nil
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// PodSandboxStatus has an address while the sandbox is ready.
func (s *Server) PodSandboxStatus(
	_ context.Context, r *runtimeapi.PodSandboxStatusRequest,
) (*runtimeapi.PodSandboxStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	box := s.sandboxes[r.GetPodSandboxId()]
	if box == nil {
		return nil, status.Errorf(codes.NotFound, "an error occurred when try to find sandbox: not found")
	}
	network := &runtimeapi.PodSandboxNetworkStatus{}
	if box.state == runtimeapi.PodSandboxState_SANDBOX_READY {
		network.Ip = "10.1.0.7"
		network.AdditionalIps = []*runtimeapi.PodIP{{Ip: "fd00::7"}}
	}
	reply := &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
		Id: box.id, Metadata: box.config.GetMetadata(), State: box.state, CreatedAt: box.created.UnixNano(),
		Network: network, Labels: box.config.GetLabels(), Annotations: box.config.GetAnnotations(),
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{
			Options: box.config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		}},
	}}
	if r.GetVerbose() {
		reply.Info = map[string]string{"info": fmt.Sprintf(`{"pid":%d}`, SandboxPID)}
	}
	return reply, nil
}

// Kill ends a sandbox's own process, and nothing else.
func (s *Server) Kill(sandboxID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sandboxes[sandboxID].state = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

// Sandboxes are the configurations of all sandboxes by id.
func (s *Server) Sandboxes() map[string]*runtimeapi.PodSandboxConfig {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]*runtimeapi.PodSandboxConfig{}
	for id, box := range s.sandboxes {
		out[id] = box.config
	}
	return out
}
