package containerhost

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/images"
)

// patience bounds each step, on a machine that builds other packages meanwhile.
const patience = 3 * time.Minute

// pod is a sandbox with one container, made by runPod.
type pod struct {
	host      *Host
	sandbox   string
	container string
	logFile   string
}

// runPod runs a shell script as a pod's only container.
func runPod(t *testing.T, h *Host, name, script string, mounts ...*runtimeapi.Mount) *pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	runtime, _ := h.CRI()
	logs := filepath.Join(h.LogRoot(), name)
	if err := os.Mkdir(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: "uid-" + name},
		LogDirectory: logs,
		Linux:        &runtimeapi.LinuxPodSandboxConfig{},
	}
	started := time.Now()
	sandbox, err := runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatalf("run sandbox: %v", err)
	}
	sandboxed := time.Now()
	container, err := runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId:  sandbox.GetPodSandboxId(),
		SandboxConfig: config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
			Image:    &runtimeapi.ImageSpec{Image: images.BusyboxRef},
			Command:  []string{"sh", "-c", script},
			LogPath:  "main/0.log",
			Mounts:   mounts,
			Linux:    &runtimeapi.LinuxContainerConfig{},
		},
	})
	if err != nil {
		t.Fatalf("create container: %v", err)
	}
	created := time.Now()
	if _, err := runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: container.GetContainerId()}); err != nil {
		t.Fatalf("start container: %v", err)
	}
	t.Logf("sandbox %v, create %v, start %v", sandboxed.Sub(started), created.Sub(sandboxed), time.Since(created))
	return &pod{host: h, sandbox: sandbox.GetPodSandboxId(), container: container.GetContainerId(), logFile: filepath.Join(logs, "main/0.log")}
}

func (p *pod) status(t *testing.T) *runtimeapi.ContainerStatus {
	t.Helper()
	runtime, _ := p.host.CRI()
	reply, err := runtime.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: p.container})
	if err != nil {
		t.Fatalf("get container status: %v", err)
	}
	return reply.GetStatus()
}

func (p *pod) ip(t *testing.T) string {
	t.Helper()
	runtime, _ := p.host.CRI()
	reply, err := runtime.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.sandbox})
	if err != nil {
		t.Fatalf("get sandbox status: %v", err)
	}
	return reply.GetStatus().GetNetwork().GetIp()
}

// awaitExit returns the exit code.
func (p *pod) awaitExit(t *testing.T) int32 {
	t.Helper()
	var code int32
	wait.For(t, patience, "container exit", func() error {
		status := p.status(t)
		if status.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
			return fmt.Errorf("state is %s", status.GetState())
		}
		code = status.GetExitCode()
		return nil
	})
	return code
}

// awaitLog waits for a text in the log file, which it reads from outside.
func (p *pod) awaitLog(t *testing.T, text string) {
	t.Helper()
	wait.For(t, patience, "log line", func() error {
		content, err := os.ReadFile(p.logFile)
		if err != nil {
			return err
		}
		if !strings.Contains(string(content), text) {
			return fmt.Errorf("log is %q", content)
		}
		return nil
	})
}
