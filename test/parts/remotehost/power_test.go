package remotehost

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/registry"
	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
)

func TestRebootKeepsTheDiskAlone(t *testing.T) {
	h := ForTest(t)
	sandbox, container := runPod(t, h, "steady", "sleep 3600")
	kept := []string{
		"/var/lib/probe", "/var/log/probe", "/var/tmp/probe", "/root" + "/probe", "/home/burst/probe", "/etc/probe",
		"/etc/ssh/probe", "/opt/probe", "/srv/probe", "/probe",
	}
	lost := []string{"/run/probe", "/tmp/probe", "/dev/shm/probe"}
	inside(t, h, "touch "+strings.Join(append(kept, lost...), " ")+"; mkdir /srv/mount && mount -t tmpfs x /srv/mount")
	before, machineID := h.BootID(), inside(t, h, "cat /etc/machine-id")
	session := sshCommand(t.Context(), h, Root, "sleep 3600")
	if err := session.Start(); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	if err := h.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("rebooted in %v", time.Since(started))
	if err := session.Wait(); err == nil {
		t.Error("a session outlived the reboot")
	}
	inside(t, h, "ls "+strings.Join(kept, " "))
	if out := inside(t, h, "ls -d "+strings.Join(lost, " ")+
		" /srv/mount/* /run/netns/* 2>/dev/null; grep /srv/mount /proc/mounts; find /sys/fs/cgroup -type d -name "+
		container); out != "" {
		t.Errorf("after the reboot there is still %s", out)
	}
	if h.BootID() == before || inside(t, h, "cat /proc/sys/kernel/random/boot_id") != h.BootID() ||
		inside(t, h, "cat /etc/machine-id") != machineID {
		t.Errorf("boot id %s, before %s; machine id before %s", h.BootID(), before, machineID)
	}
	// As the kubelet finds it: images and dead pods are there, nothing runs.
	runtime, _ := h.CRI()
	status, err := runtime.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandbox})
	if err != nil || status.GetStatus().GetState() != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
		t.Errorf("the sandbox is %v, %v; want not ready", status.GetStatus().GetState(), err)
	}
	c, err := runtime.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: container})
	if err != nil || c.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("the container is %v, %v", c.GetStatus().GetState(), err)
	}
	runPod(t, h, "after", "echo again; sleep 3600")
	awaitLog(t, h, "after", "again")
	overSSH(t, h, Root, "true") // the same key at the same address
}

func TestPowerOff(t *testing.T) {
	h := ForTest(t)
	if err := h.PowerOff(); err != nil {
		t.Fatal(err)
	}
	if out, err := sshCommand(t.Context(), h, Root, "true").CombinedOutput(); err == nil {
		t.Errorf("a host that is off answers: %s", out)
	}
	if err := h.PowerOn(t.Context()); err != nil {
		t.Fatal(err)
	}
	overSSH(t, h, Root, "true")
	if err := h.PowerOn(t.Context()); err == nil {
		t.Error("a host that is on was powered on")
	}
}

func TestContainersOutliveDaemons(t *testing.T) {
	h := ForTest(t)
	_, container := runPod(t, h, "steady", "sleep 3600")
	if err := h.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if state := containerStatus(t, h, container).GetState(); state != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("the container is %v", state)
	}
	overSSH(t, h, Root, "true")
}

func TestContainersOutliveContainerd(t *testing.T) {
	h := ForTest(t)
	sandbox, container := runPod(t, h, "steady", "trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done")
	awaitLog(t, h, "steady", "up")
	before := containerStatus(t, h, container)
	if err := h.KillContainerd(t.Context()); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("unix", h.Socket()); err == nil {
		conn.Close()
		t.Error("containerd still answers")
	}
	if err := h.StartContainerd(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := containerStatus(t, h, container)
	if after.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING || after.GetStartedAt() != before.GetStartedAt() {
		t.Errorf(
			"after the restart the container is %v, started at %d instead of %d", after.GetState(), after.GetStartedAt(),
			before.GetStartedAt(),
		)
	}
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
	wait.For(t, patience, "shims to be reaped", func() error {
		if out := inside(t, h, "cat /proc/[0-9]*/stat | grep -E 'shim|\\) Z ' || true"); out != "" {
			return errors.New(out)
		}
		return nil
	})
}

func TestRegistry(t *testing.T) {
	const (
		domain  = "pull.burstlet.test"
		public  = domain + "/busybox:1"
		private = domain + "/private/busybox:1"
	)
	h := ForTest(t)
	image, err := images.Busybox()
	if err != nil {
		t.Fatal(err)
	}
	r := registry.New(registry.Private{Prefix: "private/", User: "puller", Password: "open sesame"})
	if err := r.Push(image, public, private); err != nil {
		t.Fatal(err)
	}
	if err := h.ServeRegistry(t.Context(), domain, r); err != nil {
		t.Fatal(err)
	}
	_, imageService := h.CRI()
	pull := func(ref string, auth *runtimeapi.AuthConfig) error {
		_, err := imageService.PullImage(
			t.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: ref}, Auth: auth},
		)
		return err
	}
	if err := pull(public, nil); err != nil {
		t.Errorf("pull: %v", err)
	}
	if err := pull(private, nil); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("pull without credentials: %v", err)
	}
	if err := h.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := pull(private, &runtimeapi.AuthConfig{Username: "puller", Password: "open sesame"}); err != nil {
		t.Errorf("pull with credentials after a reboot: %v", err)
	}
	if err := pull(domain+"/missing:1", nil); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("pull of a missing image: %v", err)
	}
	if r.Pulls("busybox") == 0 || r.Pulls("private/busybox") == 0 {
		t.Error("pulls were not counted")
	}
}

func TestDiskFull(t *testing.T) {
	h := ForTest(t, func(c *Config) { c.DiskBytes = 64 << 20 })
	out, err := h.Command(t.Context(), "sh", "-c", "head -c 80M /dev/zero > /var/lib/big").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "No space left on device") {
		t.Errorf("80 MiB on a disk of 64: %v: %s", err, out)
	}
	inside(t, h, "rm /var/lib/big")
	runPod(t, h, "fits", "sleep 3600")
}

func TestContainerdThatEndsByItselfIsSaid(t *testing.T) {
	containerd.Need(t, "remote host", Missing())
	h, err := Start(t.Context(), Config{}) // ForTest's fails of it
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- h.AwaitFailure(t.Context()) }()
	if err := h.KillContainerd(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.StartContainerd(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.inside.Load().Failed(containerd.Daemon); err != nil {
		t.Errorf("KillContainerd is not by itself: %v", err)
	}
	// SIGABRT is the end of a Go program with a report.
	kill := `for p in /proc/[0-9]*; do if [ "$(cat $p/comm)" = containerd ]; then kill -ABRT ${p#/proc/}; fi; done`
	if out, err := h.Command(t.Context(), "sh", "-c", kill).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "containerd ended by itself, with code 2") ||
		!strings.Contains(err.Error(), "SIGABRT") {
		t.Errorf("got %v", err)
	}
}
