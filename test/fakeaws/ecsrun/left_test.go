package ecsrun

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// mine are the cgroups of this process's tasks, in all hierarchies.
func mine(t *testing.T, host *remotehost.Host) []string {
	t.Helper()
	var out []string
	for _, hierarchy := range []string{"*", ""} {
		found, err := filepath.Glob(filepath.Join(host.CgroupRoot(), hierarchy, cgroupsOf, strconv.Itoa(os.Getpid())+"-*"))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	return out
}

func mounts(t *testing.T, host *remotehost.Host) int {
	t.Helper()
	out, err := host.Command(t.Context(), "cat", "/proc/self/mounts").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(out), "\n")
}

func TestNothingIsLeft(t *testing.T) {
	host := remotehost.ForTest(t, linked)
	goroutines, before := runtime.NumGoroutine(), mounts(t, host)
	w := newWorld(t, host, ecs.Config{})
	tmpfs := func(c *types.ContainerDefinition) {
		c.LinuxParameters = &types.LinuxParameters{Tmpfs: []types.Tmpfs{{ContainerPath: aws.String("/t"), Size: 5}}}
	}
	ended := w.run(withVolume("v"), shell("app", "echo x >/v/f", essential, tmpfs, mounted("v", "/v")))
	w.until(ended, "STOPPED", inState("STOPPED"))
	if entries, err := os.ReadDir(tasksDir(host.Shared())); err != nil || len(entries) != 0 {
		t.Errorf("a stopped task left %v, %v", entries, err)
	}
	if found := sandboxes(t, host); found != 0 {
		t.Errorf("a stopped task left %d sandboxes", found)
	}
	running := w.run(
		withFileSystem("/"), shell("app", "trap '' TERM; while true; do sleep 1; done", essential, mounted("efs", "/e")),
	)
	w.until(running, "RUNNING", inState("RUNNING"))
	if len(mine(t, host)) == 0 || sandboxes(t, host) != 1 {
		t.Error("a running task is not seen by this test")
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
	if found := sandboxes(t, host); found != 0 {
		t.Errorf("%d sandboxes are left", found)
	}
	if found := mine(t, host); len(found) != 0 {
		t.Errorf("cgroups are left: %v", found)
	}
	for _, dir := range []string{tasksDir(host.Shared()), systemsDir(host.Shared())} {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
	w.eventually(func() string { return "mounts to go" }, func() bool { return mounts(t, host) <= before })
	w.eventually(func() string {
		var b strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
		return "goroutines to end:\n" + b.String()
	}, func() bool { return runtime.NumGoroutine() <= goroutines })
}

func sandboxes(t *testing.T, host *remotehost.Host) int {
	t.Helper()
	cri, _ := host.CRI()
	list, err := cri.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.GetItems())
}
