package remotehost

import (
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
)

// runs checks which containerd the host runs.
func runs(t *testing.T, h *Host, version containerd.Version) {
	t.Helper()
	runtime, _ := h.CRI()
	reply, err := runtime.Version(t.Context(), &runtimeapi.VersionRequest{})
	if err != nil || !strings.HasPrefix(reply.GetRuntimeVersion(), "v"+string(version)+".") {
		t.Errorf("the host runs containerd %s, want %s: %v", reply.GetRuntimeVersion(), version, err)
	}
}

// TestUpgradeContainerd upgrades containerd below a pod, which runs on and can be told
// to end; a new one runs beside it.
func TestUpgradeContainerd(t *testing.T) {
	lane.From(t, lane.All)
	containerd.NeedVersion(t, containerd.V2)
	h := ForTest(t, func(c *Config) { c.Containerd = containerd.V17 })
	runs(t, h, containerd.V17)
	sandbox, container := runPod(t, h, "old", "trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done")
	awaitLog(t, h, "old", "up")
	before := containerStatus(t, h, container)
	if err := h.UpgradeContainerd(t.Context(), containerd.V2); err != nil {
		t.Fatal(err)
	}
	runs(t, h, containerd.V2)
	after := containerStatus(t, h, container)
	if after.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING || after.GetStartedAt() != before.GetStartedAt() {
		t.Errorf(
			"the container is %v, started at %d instead of %d", after.GetState(), after.GetStartedAt(), before.GetStartedAt(),
		)
	}
	runPod(t, h, "new", "echo beside; sleep 3600")
	awaitLog(t, h, "new", "beside")
	runtime, _ := h.CRI()
	if _, err := runtime.StopContainer(
		t.Context(), &runtimeapi.StopContainerRequest{ContainerId: container, Timeout: 180},
	); err != nil {
		t.Fatal(err)
	}
	if code := awaitExit(t, h, container); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	if _, err := runtime.RemovePodSandbox(
		t.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox},
	); err != nil {
		t.Fatal(err)
	}
}

func TestUnknownVersionOfContainerd(t *testing.T) {
	if err := (Config{Containerd: "3"}).validate(); err == nil || !strings.Contains(err.Error(), `"3"`) {
		t.Errorf("got %v", err)
	}
}
