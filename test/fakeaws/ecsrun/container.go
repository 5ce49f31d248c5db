package ecsrun

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// cleanupTimeout bounds the removal of what could not be started.
const cleanupTimeout = 2 * time.Minute

// oomKilled is containerd's reason of a container that ran out of memory.
const oomKilled = "OOMKilled"

// container is one run of a container.
type container struct {
	t    *task
	id   string
	logs *logPipe // nil if nobody reads them
	// reached is true if the agent of ECS Exec runs in it.
	reached bool
}

// Run starts a container.
func (t *task) Run(ctx context.Context, spec ecs.ContainerSpec) (ecs.RunningContainer, error) {
	c := &container{t: t, reached: spec.ExecMiB > 0}
	if err := c.run(ctx, spec); err != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		return nil, errors.Join(err, c.abandon(cleanup))
	}
	return c, nil
}

func (c *container) run(ctx context.Context, spec ecs.ContainerSpec) error {
	config, err := c.t.containerConfig(spec)
	if err != nil {
		return err
	}
	if spec.Log != nil {
		config.LogPath = spec.Name + "." + strconv.Itoa(spec.Run)
		if c.logs, err = openLogs(filepath.Join(c.t.logs(), config.LogPath), spec.Log); err != nil {
			return err
		}
	}
	made, err := c.t.r.runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: c.t.sandbox, Config: config, SandboxConfig: c.t.config,
	})
	if err != nil {
		return errors.New(status.Convert(err).Message())
	}
	c.id = made.GetContainerId()
	if err := c.complete(ctx, spec); err != nil {
		return err
	}
	if _, err := c.t.r.runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: c.id}); err != nil {
		return errors.New(status.Convert(err).Message())
	}
	return c.logs.opened()
}

// abandon removes what could not be started.
func (c *container) abandon(ctx context.Context) error {
	if err := errors.Join(c.logs.opened(), c.logs.close()); err != nil {
		return err
	}
	if c.id == "" {
		return nil
	}
	if _, err := c.t.r.runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: c.id}); err != nil &&
		!isNotFound(err) {
		return fmt.Errorf("remove container: %w", err)
	}
	return nil
}

// containerConfig is a container for CRI.
func (t *task) containerConfig(spec ecs.ContainerSpec) (*runtimeapi.ContainerConfig, error) {
	security, err := t.security(spec)
	if err != nil {
		return nil, err
	}
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: spec.Name, Attempt: uint32(spec.Run)},
		Image:    &runtimeapi.ImageSpec{Image: spec.Image},
		Command:  spec.EntryPoint, Args: spec.Command, WorkingDir: spec.WorkingDirectory, Stdin: spec.Interactive,
		Tty:   spec.TTY,
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: security, Resources: t.resources(spec)},
		// Containers of a task share it, as they do with docker's "container:" network.
		Mounts: []*runtimeapi.Mount{{ContainerPath: "/etc/hosts", HostPath: t.hosts(), Readonly: spec.ReadOnlyRoot}},
	}
	for _, kv := range spec.Env {
		name, v, _ := strings.Cut(kv, "=")
		config.Envs = append(config.Envs, &runtimeapi.KeyValue{Key: name, Value: []byte(v)})
	}
	for _, m := range spec.Mounts {
		config.Mounts = append(
			config.Mounts, &runtimeapi.Mount{ContainerPath: m.Path, HostPath: t.volumes[m.Volume], Readonly: m.ReadOnly},
		)
	}
	return config, nil
}

// minShares are docker's for a container without cpu (ECS API, ContainerDefinition:
// cpu: "null and zero CPU values are passed to Docker as 0": the kernel's least, 2).
const minShares = 2

// leastMiB is what a container has whose memory an agent takes: with less containerd cannot
// start it, and with this it starts and is killed.
const leastMiB = 4

// resources bound a container by its own memory or its task's, less what the agent of ECS
// Exec takes of it, for which no memory of this machine is used.
func (t *task) resources(spec ecs.ContainerSpec) *runtimeapi.LinuxContainerResources {
	memory := t.spec.MemoryMiB
	if spec.MemoryMiB > 0 {
		memory = min(memory, spec.MemoryMiB)
	}
	memory = max(memory-spec.ExecMiB, leastMiB)
	return &runtimeapi.LinuxContainerResources{
		MemoryLimitInBytes: int64(memory) << 20, CpuShares: int64(max(minShares, spec.CPU)),
	}
}

// security is what docker gives to a container that asks for nothing.
func (t *task) security(spec ecs.ContainerSpec) (*runtimeapi.LinuxContainerSecurityContext, error) {
	s := &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions: t.namespaces(),
		ReadonlyRootfs:   spec.ReadOnlyRoot,
		Capabilities:     &runtimeapi.Capability{AddCapabilities: spec.AddCaps, DropCapabilities: spec.DropCaps},
		MaskedPaths: []string{
			"/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
			"/proc/timer_stats",
			"/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		},
		ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
	}
	user, group, hasGroup := strings.Cut(spec.User, ":")
	if user == "" {
		return s, nil
	}
	if uid, err := strconv.ParseInt(user, 10, 64); err == nil {
		s.RunAsUser = &runtimeapi.Int64Value{Value: uid}
	} else {
		s.RunAsUsername = user
	}
	if hasGroup {
		gid, err := strconv.ParseInt(group, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("unable to find group %s: groups by name are not known here", group)
		}
		s.RunAsGroup = &runtimeapi.Int64Value{Value: gid}
	}
	return s, nil
}

// Wait waits for the end of a run.
func (c *container) Wait(ctx context.Context) (ecs.Exit, error) {
	if c.reached { // here, where nobody waits for its start
		if err := c.startAgent(ctx); err != nil {
			return ecs.Exit{}, errors.Join(err, c.logs.close())
		}
	}
	// It returns when the process ends, or with an error when that was before. Only
	// CRI knows why it ended, a moment later.
	_, waited := c.t.r.tasks.Wait(inNamespace(ctx), &tasksapi.WaitRequest{ContainerID: c.id})
	var exit ecs.Exit
	var gone error
	err := retry(ctx, func() (err error) {
		if exit, err = c.exit(ctx); isNotFound(err) { // somebody else removed it
			gone, err = err, nil
		}
		if err != nil {
			return errors.Join(err, waited)
		}
		return nil
	})
	if err = errors.Join(err, gone); err != nil {
		return exit, errors.Join(err, c.logs.close())
	}
	return exit, c.logs.drained(ctx)
}

// exit asks CRI how the container ended: that it runs is an error.
func (c *container) exit(ctx context.Context) (ecs.Exit, error) {
	reply, err := c.t.r.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.id})
	if err != nil {
		return ecs.Exit{}, fmt.Errorf("get container status: %w", err)
	}
	s := reply.GetStatus()
	if s.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
		return ecs.Exit{}, fmt.Errorf("container is %s", s.GetState())
	}
	return ecs.Exit{Code: s.GetExitCode(), OOM: s.GetReason() == oomKilled}, nil
}

// Stop stops the run.
func (c *container) Stop(ctx context.Context, grace time.Duration) error {
	_, err := c.t.r.runtime.StopContainer(
		ctx, &runtimeapi.StopContainerRequest{ContainerId: c.id, Timeout: int64(grace / time.Second)},
	)
	if err != nil && !isNotFound(err) {
		return fmt.Errorf("stop container: %w", err)
	}
	return nil
}
