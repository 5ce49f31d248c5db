package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/debianhost"
)

// debianSlow is how many times longer than elsewhere a test waits for a Debian host.
const debianSlow = 3

// TestDebian13 shows a node whose host is a whole Debian 13 machine: systemd makes the
// cgroups, which are of version 2. Its pods get what they ask for; burstlet and containerd
// are killed, disk and memory run out, the machine is rebooted and shut down, and in the end
// nothing is left.
func TestDebian13(t *testing.T) {
	lane.From(t, lane.All)
	turn(t, waiter, 30*time.Minute)
	c := theCluster(t)
	m := debianhost.ForTest(t, debianhost.Config{})
	h := viewOf(m)
	h.systemd = true
	n := newNode(t, c, "debian13", h.section(fmt.Sprintf("podPidsLimit: %d", pidsLimit)))
	n.run()
	// By itself: containerd tells of the end and of the OOM apart, and on a busy host of this
	// kind more time may lie between them than burstlet looks again for.
	t.Run("alone", func(t *testing.T) { rowsPass(t, n, h, []string{"OOM"}, 1, debianSlow) })
	t.Run("OOM of a child", func(t *testing.T) { childOutOfMemory(t, n, h) })
	t.Run("leftovers in a slice", func(t *testing.T) { leftoversInASlice(t, n, h) })
	t.Run("pressure", func(t *testing.T) { underPressure(t, "debian13-low", h, debianSlow) })
	t.Run("swap", func(t *testing.T) { swapIsLimited(t, c, h) })
	others := slices.DeleteFunc(slices.Clone(commonRows), func(name string) bool { return name == "OOM" })
	t.Run("pods", func(t *testing.T) { rowsPass(t, n, h, others, 3, debianSlow) })
	r := rollout{c: c, n: n, namespace: c.namespace(t, "debian13-rollout"), replicas: 3, token: true}
	t.Run("burstlet is killed", func(t *testing.T) {
		r.killed(t, 5)
		wait.For(
			t, debianSlow*patience, "the host has what the API has, once",
			func() error { return r.sameAsAPI(t, h.count, neverRestarted) },
		)
	})
	t.Run("containerd is killed", func(t *testing.T) {
		r.roll(t, 10)
		wait.For(t, debianSlow*patience, "the rollout is on its way", func() error { return r.onItsWay(t) })
		h.killContainerd(t)
		r.complete(t, debianSlow*patience)
		// One whose start was cut off has a sandbox more.
		wait.For(t, debianSlow*patience, "each pod runs once", func() error {
			_, running := h.count(t)
			for _, uid := range r.uids(t) {
				if running[uid] != 1 {
					return fmt.Errorf("pod %s has %d running containers", uid, running[uid])
				}
			}
			return nil
		})
	})
	t.Run("reboot", func(t *testing.T) { debianReboots(t, n, m) })
	t.Run("all goes", func(t *testing.T) {
		if err := c.client.AppsV1().Deployments(r.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		n.deletePods(t)
		h.empty(t)
	})
	t.Run("shutdown", func(t *testing.T) { hostShutsDown(t, c, h, m) })
}

// TestDebian13Chaos shows what TestHostChaos does on a Debian 13 machine: burstlet is killed a
// quarter as often, for the machine is ten times slower.
func TestDebian13Chaos(t *testing.T) {
	if *hostKills == 0 {
		t.Skip("it takes twenty minutes: it runs from lane all on, or with -hostkills 200")
	}
	turn(t, waiter, 20*time.Minute)
	h := viewOf(debianhost.ForTest(t, debianhost.Config{}))
	h.systemd = true
	n := newNode(t, theCluster(t), "debian13-chaos", h.section())
	n.run()
	x := chaosOn(t, n, h)
	x.replicas, x.ofJob, x.slow = 3, 3, debianSlow
	x.survives(t, *hostKills/4, n.dies, func(*testing.T) {}) // that the host has each pod once is asked before
	h.empty(t)
}

// childOutOfMemory: on version 2 of cgroups a container ends as a whole with the first of
// its processes that the kernel kills for memory, though its shell would go on and end well
// (memory.oom.group), and it may not swap. It begins a little later: containerd tells nothing
// of an OOM that comes before it has begun to look.
func childOutOfMemory(t *testing.T, n *node, h *hostView) {
	l := debianLife(t, n, h, "debian13-child")
	pod := l.pod(
		[]string{"sh", "-c", "cat /sys/fs/cgroup/memory.oom.group; " + printSwapMax +
			"; sleep 5; tail -c 200m /dev/zero; echo went on"},
		limits("500m", "24Mi"),
	)
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	l.create(pod)
	l.says("app", "1", l.swapMax(0))
	l.until("failed", phaseIs(corev1.PodFailed, exited(137, "OOMKilled")))
	if out, err := l.log("app"); err != nil || strings.Contains(out, "went on") {
		t.Errorf("its shell went on: %q, %v", out, err)
	}
}

// debianLife is of a pod on a node of a Debian host.
func debianLife(t *testing.T, n *node, h *hostView, namespace string) *hostLife {
	t.Helper()
	return &hostLife{life: &life{T: t, c: n.c, n: n, namespace: n.c.namespace(t, namespace), slow: debianSlow}, h: h}
}

// debianReboots reboots the machine: a pod starts again and finds what it had on its
// disk.
func debianReboots(t *testing.T, n *node, m *debianhost.Host) {
	l := debianLife(t, n, viewOf(m), "debian13-reboot").life
	l.create(l.pod(shell("echo life >>/state/lives; echo lives $(wc -l </state/lives)"),
		mount("state", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})))
	l.until("Ready", isReady)
	l.says("app", "lives 1")
	before := bootOf(l)
	if err := m.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.until("Ready again", restartedOnce)
	l.says("app", "lives 2")
	wait.For(t, l.patience(), "the Node tells of another boot", func() error {
		if bootOf(l) == before {
			return fmt.Errorf("it is still %s", before)
		}
		return nil
	})
}

// bootOf is the boot that the Node tells of.
func bootOf(l *life) string {
	l.Helper()
	node, err := l.c.client.CoreV1().Nodes().Get(l.Context(), l.n.name, metav1.GetOptions{})
	l.must(err)
	return node.Status.NodeInfo.BootID
}
