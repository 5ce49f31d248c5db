package install

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/parts/remotehost"
	"github.com/burstlet/burstlet/test/world/basecluster"
)

// installSSH: two processes of burstlet on a real kubelet, a node whose pods run
// on a host over SSH, and the whole life of the release.
func installSSH(t *testing.T, w *world) {
	i, host := newSSH(t, w, "ssh", "edge-1")
	before := hostState(t, host)

	v := sshValues(t, i.node, host)
	i.helm.run(t, "install", append(withValues(t, v), "--create-namespace")...)
	i.awaitNode(i.node)
	i.begin()
	pod := i.pods()[0]
	i.use(pod)
	i.forward(pod)
	i.top(pod)
	i.scaleUp()
	v["config"] = values{"logging": values{"level": "debug"}}
	i.upgrade(v)

	started := time.Now()
	i.helm.run(t, "uninstall")
	t.Logf("uninstalled in %s", time.Since(started).Round(time.Second))
	i.endsClean()
	nothingOnHost(t, host, before)
}

// readiness is asked by burstlet over SSH, and in a task by what runs there.
const readiness = "readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1, timeoutSeconds: 30}"

// newSSH starts a host for a release's node.
func newSSH(t *testing.T, w *world, name, node string) (*installed, *remotehost.Host) {
	t.Helper()
	host := remotehost.ForTest(t, at(w.c.Machine()))
	return newInstalled(t, w, name, node, host.DialContext), host
}

func at(address netip.Addr) func(*remotehost.Config) {
	return func(c *remotehost.Config) { c.LinkAddress = address }
}

// sshValues are those of a release with one node on a host.
func sshValues(t *testing.T, node string, host *remotehost.Host) values {
	t.Helper()
	key, err := os.ReadFile(host.KeyFile())
	if err != nil {
		t.Fatal(err)
	}
	known, err := os.ReadFile(host.KnownHostsFile())
	if err != nil {
		t.Fatal(err)
	}
	return values{
		"image":    imageValues(t),
		"replicas": 2,
		"nodes": values{node: values{
			"backend": values{"type": "cri", "cri": values{"endpoint": host.EndpointOf(remotehost.Burst)}},
			// The machine may be fuller than a kubelet takes.
			"eviction": values{"evictionHard": values{}},
		}},
		// Less than Helm's own.
		"removal": values{"timeout": removalTimeout.String()},
		"sshKeys": values{"privateKey": string(key), "knownHosts": string(known)},
	}
}

// nothingOnHost compares all that stands on a host with what was there before the
// installation.
func nothingOnHost(t *testing.T, host *remotehost.Host, before map[string]bool) {
	t.Helper()
	basecluster.Await(t, "nothing to be left on the host", func(context.Context) error {
		left := slices.DeleteFunc(added(before, hostState(t, host)), emptyPlace.MatchString)
		if len(left) > 0 {
			return fmt.Errorf("left:\n%s", strings.Join(left, "\n"))
		}
		return nil
	})
}

// emptyPlace are the directories in which pods have theirs, as any kubelet makes them
// once for a host, and what CNI plugins keep. What stands in them has names of its own.
var emptyPlace = regexp.MustCompile(`^(` +
	`cgroup /sys/fs/cgroup(/[^/]+)?/burstlet(/burstable|/besteffort)?` +
	`|file /var/lib/burstlet(/pods)?|file /var/log/(pods|containers)|file /run/netns` +
	`|file /var/lib/cni(/results|/networks(/burstlet-test(/lock|/last_reserved_ip\.0)?)?)?)$`)

// hostState is what stands on a host: sandboxes, containers, processes, mounts, files
// and cgroups. What containerd itself keeps of images is left out.
func hostState(t *testing.T, host *remotehost.Host) map[string]bool {
	t.Helper()
	state := map[string]bool{}
	cri, _ := host.CRI()
	sandboxes, err := cri.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sandboxes.Items {
		state["sandbox "+s.Id+" of "+s.Metadata.Name] = true
	}
	containers, err := cri.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range containers.Containers {
		state["container "+c.Id+" of "+c.Metadata.Name] = true
	}
	for what, script := range map[string]string{
		"process": "cat /proc/[0-9]*/comm 2>/dev/null | grep -v -x -e cat -e sort -e sh -e grep | sort -u",
		"mount":   "cut -d ' ' -f 2 /proc/self/mounts",
		"file": "find / /run /tmp /dev/shm -xdev -path /var/lib/containerd -prune -o -path /run/containerd -prune " +
			"-o -path /usr -prune -o -print",
		"cgroup": "find /sys/fs/cgroup -type d",
	} {
		out, err := host.Command(t.Context(), "sh", "-c", script).CombinedOutput()
		if err != nil {
			t.Fatalf("look for each %s on the host: %v: %s", what, err, out)
		}
		for line := range strings.Lines(string(out)) {
			state[what+" "+strings.TrimSpace(line)] = true
		}
	}
	return state
}
