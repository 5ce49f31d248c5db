package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// rawGrace is what a pod of busyboxPod has to end, in seconds.
const rawGrace = 30

// rawCRI makes pods like busyboxPod by the calls that are needed and no others:
// what no agent can be faster than.
type rawCRI struct {
	runtime runtimeapi.RuntimeServiceClient
	// logs and files are directories as containerd sees them: of logs, and of what
	// is mounted into every container.
	logs, files string
}

// newRaw makes pods on a host, past SSH.
func newRaw(b *testing.B, h *remotehost.Host) *rawCRI {
	b.Helper()
	const dir = "/var/lib/raw"
	runtime, _ := h.CRI()
	// An agent mounts as much into every container.
	if err := os.MkdirAll(h.Path(dir+"/token"), 0o755); err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"/hosts", "/message", "/token/token"} {
		write(b, h.Path(dir+name), "")
	}
	return &rawCRI{runtime: runtime, logs: dir + "/logs", files: dir}
}

// burst makes pods at once, and then ends and removes them at once.
func (r *rawCRI) burst(b *testing.B, phase string, count int) (up, down float64) {
	b.Helper()
	type made struct{ sandbox, container string }
	pods := make([]made, count)
	start := time.Now()
	atOnce(b, count, func(ctx context.Context, i int) (err error) {
		pods[i].sandbox, pods[i].container, err = r.start(ctx, burstName(phase, i))
		return err
	})
	up = float64(count) / time.Since(start).Seconds()
	start = time.Now()
	atOnce(b, count, func(ctx context.Context, i int) error { return r.end(ctx, pods[i].sandbox, pods[i].container) })
	return up, float64(count) / time.Since(start).Seconds()
}

// atOnce calls f for all pods, as agents do that have a worker for each.
func atOnce(b *testing.B, count int, f func(ctx context.Context, i int) error) {
	b.Helper()
	g, ctx := errgroup.WithContext(b.Context())
	for i := range count {
		g.Go(func() error { return f(ctx, i) })
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}

func (r *rawCRI) start(ctx context.Context, name string) (sandbox, container string, err error) {
	private := &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
	box := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "raw", Uid: name},
		Hostname: name, LogDirectory: filepath.Join(r.logs, name),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    "/raw/" + name,
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: private},
		},
	}
	ran, err := r.runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: box})
	if err != nil {
		return "", "", fmt.Errorf("run sandbox: %w", err)
	}
	created, err := r.runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: ran.GetPodSandboxId(), SandboxConfig: box,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "app"},
			Image:    &runtimeapi.ImageSpec{Image: images.BusyboxRef},
			Command:  busyboxCommand(), LogPath: "app.log",
			Mounts: []*runtimeapi.Mount{
				{ContainerPath: "/etc/hosts", HostPath: filepath.Join(r.files, "hosts")},
				{ContainerPath: "/dev/termination-log", HostPath: filepath.Join(r.files, "message")},
				{
					ContainerPath: "/var/run/secrets/kubernetes.io/serviceaccount", HostPath: filepath.Join(r.files, "token"),
					Readonly: true,
				},
			},
			Linux: &runtimeapi.LinuxContainerConfig{
				SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: private},
			},
		},
	})
	if err != nil {
		return "", "", fmt.Errorf("create container: %w", err)
	}
	if _, err := r.runtime.StartContainer(
		ctx, &runtimeapi.StartContainerRequest{ContainerId: created.GetContainerId()},
	); err != nil {
		return "", "", fmt.Errorf("start container: %w", err)
	}
	return ran.GetPodSandboxId(), created.GetContainerId(), nil
}

func (r *rawCRI) end(ctx context.Context, sandbox, container string) error {
	if _, err := r.runtime.StopContainer(
		ctx, &runtimeapi.StopContainerRequest{ContainerId: container, Timeout: rawGrace},
	); err != nil {
		return fmt.Errorf("stop container: %w", err)
	}
	if _, err := r.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox}); err != nil {
		return fmt.Errorf("stop sandbox: %w", err)
	}
	if _, err := r.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox}); err != nil {
		return fmt.Errorf("remove sandbox: %w", err)
	}
	return nil
}
