package remotehost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/images"
)

// patience bounds each step, on a machine that builds other packages meanwhile.
const patience = 3 * time.Minute

// inside runs a shell command in the host and returns its output.
func inside(t *testing.T, h *Host, script string) string {
	t.Helper()
	out, err := h.Command(t.Context(), "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("run %q in host: %v: %s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// sshCommand is the real client's, as a user; options are the client's own.
func sshCommand(ctx context.Context, h *Host, user, command string, options ...string) *exec.Cmd {
	address, port, _ := net.SplitHostPort(h.Link().Address())
	args := append([]string{
		"-F", "none", "-i", h.KeyFile(), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
		"-o", "UserKnownHostsFile=" + h.KnownHostsFile(), "-o", "StrictHostKeyChecking=yes",
		"-p", port,
	}, options...)
	args = append(args, user+"@"+address)
	if command != "" {
		args = append(args, command)
	}
	return exec.CommandContext(ctx, "ssh", args...)
}

// overSSH runs a command over SSH and returns its output.
func overSSH(t *testing.T, h *Host, user, command string) string {
	t.Helper()
	out, err := sshCommand(t.Context(), h, user, command).CombinedOutput()
	if err != nil {
		t.Fatalf("ssh %s: %q: %v: %s", user, command, err, out)
	}
	return strings.TrimSpace(string(out))
}

// runPod runs a shell script as a pod's only container and returns the ids of
// the sandbox and the container.
func runPod(t *testing.T, h *Host, name, script string, mounts ...*runtimeapi.Mount) (sandboxID, containerID string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	runtime, _ := h.CRI()
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: "uid-" + name},
		LogDirectory: "/var/log/pods/" + name,
		Linux:        &runtimeapi.LinuxPodSandboxConfig{CgroupParent: "/pods/" + name},
	}
	sandbox, err := runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatalf("run sandbox: %v", err)
	}
	container, err := runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox.GetPodSandboxId(), SandboxConfig: config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
			Image:    &runtimeapi.ImageSpec{Image: images.BusyboxRef},
			Command:  []string{"sh", "-c", script},
			LogPath:  "main/0.log",
			Mounts:   mounts,
			Linux: &runtimeapi.LinuxContainerConfig{Resources: &runtimeapi.LinuxContainerResources{
				MemoryLimitInBytes: 64 << 20, CpuShares: 100,
			}},
		},
	})
	if err != nil {
		t.Fatalf("create container: %v", err)
	}
	if _, err := runtime.StartContainer(
		ctx, &runtimeapi.StartContainerRequest{ContainerId: container.GetContainerId()},
	); err != nil {
		t.Fatalf("start container: %v", err)
	}
	return sandbox.GetPodSandboxId(), container.GetContainerId()
}

func containerStatus(t *testing.T, h *Host, id string) *runtimeapi.ContainerStatus {
	t.Helper()
	runtime, _ := h.CRI()
	reply, err := runtime.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		t.Fatalf("get container status: %v", err)
	}
	return reply.GetStatus()
}

// awaitExit returns the exit code.
func awaitExit(t *testing.T, h *Host, id string) (code int32) {
	t.Helper()
	wait.For(t, patience, "container exit", func() error {
		status := containerStatus(t, h, id)
		if status.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
			return fmt.Errorf("state is %s", status.GetState())
		}
		code = status.GetExitCode()
		return nil
	})
	return code
}

func podIP(t *testing.T, h *Host, sandbox string) string {
	t.Helper()
	runtime, _ := h.CRI()
	reply, err := runtime.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandbox})
	if err != nil {
		t.Fatalf("get sandbox status: %v", err)
	}
	return reply.GetStatus().GetNetwork().GetIp()
}

func awaitLog(t *testing.T, h *Host, name, text string) {
	t.Helper()
	wait.For(t, patience, "log line", func() error {
		out, err := h.Command(t.Context(), "cat", "/var/log/pods/"+name+"/main/0.log").CombinedOutput()
		if err != nil || !strings.Contains(string(out), text) {
			return fmt.Errorf("log is %q, %w", out, err)
		}
		return nil
	})
}

func TestTwoHostsSideBySide(t *testing.T) {
	started := time.Now()
	first := ForTest(t)
	t.Logf("host started in %v with snapshotter %s", time.Since(started), first.Snapshotter())
	second := ForTest(t)
	for _, h := range []*Host{first, second} {
		runPod(t, h, "same-name", "echo hello from $(hostname); sleep 3600")
		awaitLog(t, h, "same-name", "stdout F hello from ")
		runtime, _ := h.CRI()
		list, err := runtime.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
		if err != nil || len(list.GetItems()) != 1 {
			t.Errorf("%s lists %v, %v; want its one sandbox", h.Hostname(), list.GetItems(), err)
		}
		// Both pods have the same cgroup, each below its host's own root.
		inside(t, h, "ls -d /sys/fs/cgroup/pods/same-name/* /sys/fs/cgroup/memory/pods/same-name/* 2>/dev/null | grep .")
		inside(t, h, "ip link show cni0")
		if out := inside(t, h, "ls /run/netns | wc -l"); out != "1" {
			t.Errorf("%s network namespaces in the /run/netns of %s, want 1", out, h.Hostname())
		}
	}
	if _, err := net.InterfaceByName("cni0"); err == nil {
		t.Error("the pods' bridge is on the machine")
	}
	if first.Subnet().Overlaps(second.Subnet()) || first.Address() == second.Address() ||
		first.Hostname() == second.Hostname() {
		t.Errorf("both hosts are %s at %s with pods in %s", first.Hostname(), first.Address(), first.Subnet())
	}
	overSSH(t, first, Root, "test $(hostname) = "+first.Hostname())
	overSSH(t, second, Root, "test $(hostname) = "+second.Hostname())
}

func TestFilesAreApart(t *testing.T) {
	h := ForTest(t)
	for _, dir := range []string{
		"/etc", "/etc/ssh", "/run", "/tmp", "/dev/shm", "/var/lib", "/var/log", "/var/tmp",
		"/root", "/home", "/opt", "/srv", "/mnt", "/",
	} {
		probe := filepath.Join(dir, h.Cgroup()+"-probe")
		inside(t, h, "echo here > "+probe+" && cat "+probe)
		if _, err := os.Stat(probe); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was written in the host and is seen on the machine: %v", probe, err)
		}
	}
	for _, dir := range []string{"/run", "/tmp", "/dev/shm", "/var/lib", "/var/log", "/var/tmp", "/root", "/etc/ssh"} {
		probe, err := os.MkdirTemp(dir, h.Cgroup()+"-machine-")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(probe); err != nil {
				t.Error(err)
			}
		})
		if out := inside(t, h, "ls -d "+probe+" 2>/dev/null || echo absent"); out != "absent" {
			t.Errorf("the machine's %s is seen in the host", probe)
		}
	}
	if out := inside(
		t, h, "touch /usr/probe /usr/bin/probe /usr/lib/probe 2>&1 || true",
	); strings.Count(out, "Read-only") != 3 {
		t.Errorf("the machine's programs can be written: %s", out)
	}
}

func TestSharedFiles(t *testing.T) {
	h := ForTest(t)
	volume, theirs := filepath.Join(h.Shared(), "volume"), filepath.Join(h.Shared(), "theirs")
	for _, dir := range []string{volume, theirs} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("tmpfs", volume, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(volume, "key"), []byte("on tmpfs\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	sandbox, container := runPod(t, h, "reader", "cat /volume/key; stat -f -c %T /volume; echo back >/theirs/file; exit 7",
		&runtimeapi.Mount{HostPath: volume, ContainerPath: "/volume", Readonly: true},
		&runtimeapi.Mount{HostPath: theirs, ContainerPath: "/theirs"})
	if code := awaitExit(t, h, container); code != 7 {
		t.Errorf("exit code %d, want 7", code)
	}
	awaitLog(t, h, "reader", "stdout F on tmpfs\n")
	awaitLog(t, h, "reader", "stdout F tmpfs\n")
	if back, err := os.ReadFile(filepath.Join(theirs, "file")); err != nil || string(back) != "back\n" {
		t.Errorf("the pod wrote %q, %v", back, err)
	}
	if ip, err := netip.ParseAddr(podIP(t, h, sandbox)); err != nil || !h.Subnet().Contains(ip) {
		t.Errorf("pod has address %v (%v), want one of %s", ip, err, h.Subnet())
	}
	inside(t, h, "mount -t tmpfs x "+theirs+" && touch "+theirs+"/hidden")
	if _, err := os.Stat(filepath.Join(theirs, "hidden")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what the host mounted is seen on the machine: %v", err)
	}
	if err := h.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	inside(t, h, "cat "+volume+"/key "+theirs+"/file")
}

func TestHostIsAnotherMachine(t *testing.T) {
	h := ForTest(t)
	if out := inside(
		t, h, "ip route show default; ip -o addr show scope global up | grep -v cni0",
	); !strings.Contains(out, h.Address().String()) || strings.Contains(out, "default") {
		t.Errorf("the host's network is %s; want %s and no way out", out, h.Address())
	}
	machine, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	if out := inside(t, h, "cat /proc/sys/kernel/random/boot_id"); out != h.BootID() ||
		out == strings.TrimSpace(string(machine)) {
		t.Errorf("boot id %q, want %q and not the machine's", out, h.BootID())
	}
	if out := inside(t, h, "cat /proc/1/cgroup"); strings.Contains(out, h.Cgroup()) {
		t.Errorf("the host sees its place among the machine's cgroups: %s", out)
	}
	if banner := bannerAt(net.JoinHostPort(h.Address().String(), "22"), 300*time.Millisecond); banner != "" {
		t.Errorf("there is a way in beside the link: %q", banner)
	}
	if banner := bannerAt(h.Link().Address(), 3*time.Minute); !strings.HasPrefix(banner, "SSH-2.0-") {
		t.Errorf("sshd says %q: the check proves nothing", banner)
	}
}

// bannerAt is what a server says first, if there is one, in a time. What answers in the
// place of others, as some networks do, says nothing.
func bannerAt(address string, within time.Duration) string {
	conn, err := net.DialTimeout("tcp", address, within)
	if err != nil {
		return ""
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return ""
	}
	banner := make([]byte, 64)
	n, _ := conn.Read(banner)
	return string(banner[:n])
}

func TestStartRefuses(t *testing.T) {
	ForTest(t) // skips where Start could not be asked
	for name, cfg := range map[string]Config{
		"host name":      {Hostname: "two words"},
		"option of sshd": {SSHDOptions: []string{"PermitTTY no\nPermitTTY yes"}},
		"wrong option":   {SSHDOptions: []string{"NoSuchOption yes"}},
		"disk":           {DiskBytes: -1},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := Start(t.Context(), cfg)
			if err == nil {
				t.Error("it was accepted")
				if err := h.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
