package containerhost

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/registry"
)

// inside runs a shell command in the host and returns its output.
func inside(t *testing.T, h *Host, script string) string {
	t.Helper()
	out, err := h.Command(t.Context(), "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("run %q in host: %v: %s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestPodRunsAndLogs(t *testing.T) {
	started := time.Now()
	h := ForTest(t)
	t.Logf("host started in %v with snapshotter %s", time.Since(started), h.Snapshotter())

	p := runPod(t, h, "hello", "echo hello from a pod; exit 7")
	if code := p.awaitExit(t); code != 7 {
		t.Errorf("exit code %d, want 7", code)
	}
	p.awaitLog(t, "stdout F hello from a pod\n")
	ip, err := netip.ParseAddr(p.ip(t))
	if err != nil || !h.Subnet().Contains(ip) {
		t.Errorf("pod has address %v (%v), want one of %s", ip, err, h.Subnet())
	}
}

func TestHostIsApart(t *testing.T) {
	h := ForTest(t)
	runPod(t, h, "net", "sleep 3600")
	for _, dir := range []string{"/run", "/tmp", "/var/lib", "/var/log", "/var/tmp"} {
		path := filepath.Join(dir, filepath.Base(h.StateDir())+"-probe")
		inside(t, h, "echo here > "+path+" && cat "+path)
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was written in the host and is seen on the machine: %v", path, err)
		}
	}
	outside := t.TempDir()
	if out := inside(t, h, "ls -d "+outside+" 2>/dev/null || echo absent"); out != "absent" {
		t.Errorf("the machine's %s is seen in the host", outside)
	}
	inside(t, h, "ip link show cni0")
	if _, err := net.InterfaceByName("cni0"); err == nil {
		t.Error("the pods' bridge is on the machine")
	}
	if out := inside(t, h, "ls /run/netns | wc -l"); out != "1" {
		t.Errorf("%s network namespaces in the host's /run/netns, want 1", out)
	}
	if out := inside(t, h, "ip route show default"); out != "" {
		t.Errorf("the host has a way out: %s", out)
	}
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if out := inside(t, h, "cat /proc/sys/kernel/hostname"); out != "containerhost" || out == machine {
		t.Errorf("host name is %q, on the machine %q", out, machine)
	}
}

func TestMachineMountsAreSeenByPods(t *testing.T) {
	h := ForTest(t)
	volume := filepath.Join(h.Shared(), "volume")
	if err := os.Mkdir(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", volume, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(volume, "key"), []byte("on tmpfs\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := runPod(t, h, "reader", "cat /volume/key; stat -f -c %T /volume",
		&runtimeapi.Mount{HostPath: volume, ContainerPath: "/volume", Readonly: true})
	if code := p.awaitExit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p.awaitLog(t, "stdout F on tmpfs\n")
	p.awaitLog(t, "stdout F tmpfs\n")
}

func TestContainersOutliveContainerd(t *testing.T) {
	h := ForTest(t)
	p := runPod(t, h, "steady", "trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done")
	p.awaitLog(t, "up")
	before := p.status(t)
	if err := h.KillContainerd(t.Context()); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("unix", strings.TrimPrefix(h.Socket(), "unix://")); err == nil {
		conn.Close()
		t.Error("containerd still answers")
	}
	if err := h.StartContainerd(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := p.status(t)
	if after.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING || after.GetStartedAt() != before.GetStartedAt() {
		t.Errorf("after the restart the container is %v, started at %d instead of %d", after.GetState(), after.GetStartedAt(), before.GetStartedAt())
	}
	runtime, _ := h.CRI()
	if _, err := runtime.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: p.container, Timeout: 180}); err != nil {
		t.Fatal(err)
	}
	if code := p.awaitExit(t); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	if _, err := runtime.RemovePodSandbox(t.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.sandbox}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, patience, "shims to be reaped", func() error {
		if out := inside(t, h, "cat /proc/[0-9]*/stat | grep -E 'shim|\\) Z ' || true"); out != "" {
			return errors.New(out)
		}
		return nil
	})
}

func TestDialing(t *testing.T) {
	const server = "mkdir /www; echo served > /www/index.html; httpd -f -p 8080 -h /www"
	h := ForTest(t)
	linked := ForTest(t, func(c *Config) { c.Linked = true })
	get := func(conn net.Conn, err error) error {
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			return err
		}
		reply, err := io.ReadAll(conn)
		if err == nil && !strings.Contains(string(reply), "served") {
			err = fmt.Errorf("reply %q", reply)
		}
		return err
	}

	apart := net.JoinHostPort(runPod(t, h, "web", server).ip(t), "8080")
	wait.For(t, patience, "pod through the host's network", func() error {
		return get(h.DialContext(t.Context(), "tcp", apart))
	})
	reached := net.JoinHostPort(runPod(t, linked, "web", server).ip(t), "8080")
	var dialer net.Dialer
	wait.For(t, patience, "pod through the link", func() error {
		return get(dialer.DialContext(t.Context(), "tcp", reached))
	})
	runtime, _ := linked.CRI()
	list, err := runtime.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	if err != nil || len(list.GetContainers()) != 1 {
		t.Fatalf("list containers: %v, %v", list, err)
	}
	exec, err := runtime.Exec(t.Context(), &runtimeapi.ExecRequest{
		ContainerId: list.GetContainers()[0].GetId(), Cmd: []string{"true"}, Stdout: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	address := strings.Split(strings.TrimPrefix(exec.GetUrl(), "http://"), "/")[0]
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatalf("dial streaming server of a linked host: %v", err)
	}
	conn.Close()
	if _, err := h.DialContext(t.Context(), "tcp", "localhost:80"); err == nil {
		t.Error("a name was dialled")
	}
}

func TestRegistryIsFoundByName(t *testing.T) {
	const ref = "pull.burstlet.test/busybox:1"
	h := ForTest(t)
	image, err := images.Busybox()
	if err != nil {
		t.Fatal(err)
	}
	r := registry.New()
	if err := r.Push(image, ref); err != nil {
		t.Fatal(err)
	}
	server, err := h.ServeRegistry(t.Context(), "pull.burstlet.test", r)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	_, imageService := h.CRI()
	pull := func() error {
		_, err := imageService.PullImage(t.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
		return err
	}
	if err := pull(); err != nil || r.Pulls("busybox") == 0 {
		t.Errorf("pull: %v after %d reads", err, r.Pulls("busybox"))
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if err := pull(); err == nil {
		t.Error("an image was pulled from a registry that is gone")
	}
}

func TestTwoHostsSideBySide(t *testing.T) {
	first, second := ForTest(t), ForTest(t)
	if first.Subnet().Overlaps(second.Subnet()) {
		t.Errorf("both hosts have pods in %s and %s", first.Subnet(), second.Subnet())
	}
	runPod(t, first, "same-name", "sleep 3600")
	runPod(t, second, "same-name", "sleep 3600")
	runtime, _ := first.CRI()
	list, err := runtime.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	if err != nil || len(list.GetItems()) != 1 {
		t.Errorf("first host lists %v, %v; want its one sandbox", list.GetItems(), err)
	}
}

func TestStartRefuses(t *testing.T) {
	ForTest(t) // skips where Start could not be asked
	used := t.TempDir()
	if err := os.WriteFile(filepath.Join(used, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	for name, cfg := range map[string]Config{
		"used directory": {StateDir: used},
		"relative":       {StateDir: "state"},
		"long path":      {StateDir: long},
		"IPv6 subnet":    {Subnet: netip.MustParsePrefix("fd00::/64")},
		"small subnet":   {Subnet: netip.MustParsePrefix("198.18.0.0/30")},
		"host bits":      {Subnet: netip.MustParsePrefix("198.18.0.1/24")},
		"host name":      {Hostname: "two words"},
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
	if _, err := os.Stat(long); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused host left its directory: %v", err)
	}
	if _, err := os.Stat(filepath.Join(used, "file")); err != nil {
		t.Errorf("a refused host removed a file that was there: %v", err)
	}
}
