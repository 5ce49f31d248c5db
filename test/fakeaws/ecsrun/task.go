package ecsrun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// task is a sandbox and what its containers share.
type task struct {
	r       *Runner
	spec    ecs.TaskSpec
	dir     string
	config  *runtimeapi.PodSandboxConfig
	sandbox string
	address string
	volumes map[string]string // by name: where they are
}

// Start makes a task's sandbox.
func (r *Runner) Start(ctx context.Context, spec ecs.TaskSpec) (ecs.RunningTask, error) {
	t := &task{r: r, spec: spec, dir: filepath.Join(tasksDir(r.dir), spec.ID)}
	if err := t.start(ctx); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		return nil, errors.Join(err, t.Remove(ctx))
	}
	return t, nil
}

func (t *task) start(ctx context.Context) error {
	var err error
	if err = os.MkdirAll(t.logs(), 0o755); err != nil {
		return fmt.Errorf("make directory of task: %w", err)
	}
	if t.volumes, err = t.r.volumes(t.dir, t.spec.Volumes); err != nil {
		return err
	}
	if err := t.r.cgroups.make(t.spec.ID, t.spec.MemoryMiB); err != nil {
		return err
	}
	t.config = t.sandboxConfig()
	reply, err := t.r.runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: t.config})
	if err != nil {
		return fmt.Errorf("run sandbox: %w", err)
	}
	t.sandbox = reply.GetPodSandboxId()
	state, err := t.r.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: t.sandbox})
	if err != nil {
		return fmt.Errorf("get sandbox status: %w", err)
	}
	if t.address = state.GetStatus().GetNetwork().GetIp(); t.address == "" {
		return errors.New("the sandbox has no address")
	}
	hosts := fmt.Sprintf("127.0.0.1 localhost\n%s %s.ec2.internal\n", t.address, hostname(t.address))
	if err := os.WriteFile(t.hosts(), []byte(hosts), 0o644); err != nil {
		return fmt.Errorf("write hosts of task: %w", err)
	}
	return nil
}

func (t *task) logs() string  { return filepath.Join(t.dir, "logs") }
func (t *task) hosts() string { return filepath.Join(t.dir, "hosts") }

// hostname is that of the private DNS name of an address (VPC user guide, "DNS
// attributes for your VPC"). The task's own UTS name is made before it has one.
func hostname(address string) string { return "ip-" + strings.ReplaceAll(address, ".", "-") }

func (t *task) sandboxConfig() *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: t.spec.ID, Namespace: "ecs", Uid: t.spec.ID},
		Hostname:     "ip-" + t.spec.ID[:12],
		LogDirectory: t.logs(),
		Labels:       map[string]string{"com.amazonaws.ecs.task": t.spec.ID},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    t.r.cgroups.path(t.spec.ID),
			Sysctls:         t.spec.Sysctls,
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: t.namespaces()},
		},
	}
}

func (t *task) namespaces() *runtimeapi.NamespaceOption {
	pid := runtimeapi.NamespaceMode_CONTAINER
	if t.spec.SharePID {
		pid = runtimeapi.NamespaceMode_POD
	}
	return &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_POD, Ipc: runtimeapi.NamespaceMode_POD, Pid: pid}
}

// Address is the sandbox's.
func (t *task) Address() string { return t.address }

// Remove removes the sandbox with its containers, then directories and cgroups.
func (t *task) Remove(ctx context.Context) error {
	if t.sandbox != "" {
		// Both succeed for a sandbox that is gone.
		if _, err := t.r.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: t.sandbox}); err != nil {
			return fmt.Errorf("stop sandbox: %w", err)
		}
		if _, err := t.r.runtime.RemovePodSandbox(
			ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: t.sandbox},
		); err != nil {
			return fmt.Errorf("remove sandbox: %w", err)
		}
	}
	if err := os.RemoveAll(t.dir); err != nil {
		return fmt.Errorf("remove directory of task: %w", err)
	}
	return t.r.cgroups.remove(ctx, t.spec.ID)
}

// Pull pulls an image that the runtime does not have.
func (t *task) Pull(ctx context.Context, image string, login *ecs.Login) (string, error) {
	spec := &runtimeapi.ImageSpec{Image: image}
	known, err := t.r.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: spec})
	if err != nil {
		return "", fmt.Errorf("get image status: %w", err)
	}
	if known.GetImage() == nil {
		pull := &runtimeapi.PullImageRequest{Image: spec, SandboxConfig: t.config}
		if login != nil {
			pull.Auth = &runtimeapi.AuthConfig{Username: login.Username, Password: login.Password}
		}
		if _, err := t.r.images.PullImage(ctx, pull); err != nil {
			return "", errors.New(status.Convert(err).Message())
		}
		if known, err = t.r.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: spec}); err != nil {
			return "", fmt.Errorf("get image status: %w", err)
		}
	}
	return digestOf(known.GetImage()), nil
}

// digestOf is the digest of an image's manifest, where it is known: one that was
// imported has only that of its configuration.
func digestOf(image *runtimeapi.Image) string {
	for _, repo := range image.GetRepoDigests() {
		if _, digest, ok := strings.Cut(repo, "@"); ok {
			return digest
		}
	}
	return image.GetId()
}

func isNotFound(err error) bool { return status.Code(err) == codes.NotFound }
