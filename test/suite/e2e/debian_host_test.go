package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/debianhost"
)

// killContainerd kills the one that systemd runs, which starts it again.
func (h *hostView) killContainerd(t *testing.T) {
	t.Helper()
	if out, err := h.Command(
		t.Context(), "systemctl", "kill", "--kill-whom=main", "--signal=KILL", "containerd",
	).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// leftoversInASlice: a process that containerd does not know stands in a cgroup below a pod's
// slice when containerd is killed. With the pod it goes, and the slice, from systemd too.
func leftoversInASlice(t *testing.T, n *node, h *hostView) {
	l := debianLife(t, n, h, "debian13-leftovers")
	l.create(l.pod(forever))
	pod := l.until("Ready", isReady)
	left := "/sys/fs/cgroup/" + h.cgroup(pod) + "/left"
	pid := l.outside(
		"mkdir " + left + "; sleep 1000000 </dev/null >/dev/null 2>&1 & echo $! >" + left + "/cgroup.procs; echo $!",
	)
	if got := l.outside("cat " + left + "/cgroup.procs"); got != pid {
		t.Fatalf("in the cgroup is %q, want process %s", got, pid)
	}
	h.killContainerd(t)
	l.endsClean()
	if got := l.outside("[ ! -e /proc/" + pid + " ] || cat /proc/" + pid + "/cgroup"); got != "" {
		t.Errorf("the process runs on in %s", got)
	}
	const units = "systemctl list-units --all --full --plain --no-legend --type slice"
	if got := l.outside(units); strings.Contains(got, strings.ReplaceAll(string(pod.UID), "-", "_")) {
		t.Errorf("systemd has the slice still:\n%s", got)
	}
}

// printSwapMax has a container print how much it may swap, swapMax says what that is.
const printSwapMax = "echo swap $(cat /sys/fs/cgroup/memory.swap.max 2>/dev/null)"

// swapMax is what a container prints that may swap so many bytes: nothing on a kernel that
// knows no limits of swap.
func (l *hostLife) swapMax(bytes int64) string {
	l.Helper()
	if !l.limitsSwap() {
		return "swap"
	}
	return fmt.Sprint("swap ", bytes)
}

// limitsSwap is whether the host's kernel can.
func (l *hostLife) limitsSwap() bool {
	l.Helper()
	return l.outside("cd /sys/fs/cgroup/system.slice; [ ! -e memory.swap.max ] || echo yes") == "yes"
}

// swapIsLimited: on a host with swap containers of burstable pods may use their share of it
// where the node says LimitedSwap, and others none.
func swapIsLimited(t *testing.T, c *cluster, h *hostView) {
	n := newNode(t, c, "debian13-swap", h.section("memorySwap: {swapBehavior: LimitedSwap}"))
	l := debianLife(t, n, h, n.name)
	if !l.limitsSwap() {
		t.Skip("the machine's kernel has no limits of swap")
	}
	l.outside("dd if=/dev/zero of=/swap bs=1M count=256; chmod 600 /swap; mkswap /swap; swapon /swap")
	defer l.outside("swapoff /swap; rm /swap")
	n.run()
	l.create(l.pod(shell(printSwapMax), requests("10m", "64Mi")))
	l.until("Ready", isReady)
	kilobytes := func(field string) int64 {
		t.Helper()
		value, err := strconv.ParseInt(l.outside("sed -n 's/^"+field+": *\\([0-9]*\\) kB/\\1/p' /proc/meminfo"), 10, 64)
		l.must(err)
		return value
	}
	share := int64(float64(64<<20) / float64(kilobytes("MemTotal")<<10) * float64(kilobytes("SwapTotal")<<10))
	const page = 4096 // the kernel counts whole ones
	l.says("app", l.swapMax(share/page*page))
	l.endsClean()
	l.create(l.pod(shell(printSwapMax)))
	l.until("Ready", isReady)
	l.says("app", l.swapMax(0))
	l.endsClean()
}

// hostShutsDown: when systemd is asked to reboot, the pods of the node end before the machine
// goes down, and in the order of their priorities.
func hostShutsDown(t *testing.T, c *cluster, h *hostView, m *debianhost.Host) {
	const important = 1000
	n := newNode(t, c, "debian13-down", h.section(fmt.Sprintf(
		"shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 90}, "+
			"{priority: %d, shutdownGracePeriodSeconds: 90}]", important)))
	n.run()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: n.name}, Value: important}
	if _, err := c.client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	l := debianLife(t, n, h, n.name)
	const dir = "/srv/shutdown"
	for name, priority := range map[string]string{"common": "", "important": class.Name} {
		script := fmt.Sprintf(
			"trap 'echo %[1]s ends >>/notes/order; sleep 5; echo %[1]s ended >>/notes/order; exit 0' TERM; "+
				"while :; do sleep 0.1; done",
			name,
		)
		l.create(l.pod([]string{"sh", "-c", script}, mount("notes", hostPathOf(dir, corev1.HostPathDirectoryOrCreate)),
			spec(func(s *corev1.PodSpec) {
				s.PriorityClassName, s.TerminationGracePeriodSeconds = priority, new(int64(60))
			}),
			func(pod *corev1.Pod) { pod.Name = name }))
	}
	for _, name := range []string{"common", "important"} {
		wait.Pod(t, c.client, l.namespace, name, l.patience(), "Ready", isReady)
	}
	wait.For(t, l.patience(), "burstlet delays shutdowns", func() error {
		if got := l.outside("systemd-inhibit --list --no-pager"); !strings.Contains(got, "burstlet") {
			return fmt.Errorf("the locks are:\n%s", got)
		}
		return nil
	})
	if err := m.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = "common ends\ncommon ended\nimportant ends\nimportant ended"
	if got := l.outside("cat " + dir + "/order"); got != want {
		t.Errorf("as the machine went down, its pods noted %q, want %q", got, want)
	}
	for _, name := range []string{"common", "important"} {
		wait.Pod(t, c.client, l.namespace, name, l.patience(), "ended by the shutdown", func(pod *corev1.Pod) error {
			if s := pod.Status; s.Phase != corev1.PodFailed || s.Reason != "Terminated" {
				return fmt.Errorf("%s %s: %s", s.Phase, s.Reason, s.Message)
			}
			return nil
		})
	}
	l.endsClean()
}
