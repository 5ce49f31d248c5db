package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// hostLife is a row being run with containers of a host that is reached over SSH,
// and that host, seen past SSH.
type hostLife struct {
	*life
	h *hostView
}

const (
	// seccompRoot is where a kubelet's host keeps profiles.
	seccompRoot = "/var/lib/kubelet/seccomp"
	// pidsLimit is the node's podPidsLimit.
	pidsLimit = 64
	// atOnce bounds the rows that run at once: each has containers of its own.
	atOnce = 10

	hostResolv = "nameserver 192.0.2.53\nsearch host.test\noptions timeout:1\n"
)

// TestHost shows on one node, whose host is reached over SSH, what pods ask for and
// get, from inside of containers and on the host: every field row by row, and what
// every remote passes: lives, behaviours and the verbs of kubectl. Nothing of it
// stays. In the end burstlet is killed, and takes up the pods that it left.
func TestHost(t *testing.T) {
	turn(t, worker, 150*time.Second)
	hostPasses(t, "host")
}

// hostPasses is what TestHost shows, on a host and node of its own.
func hostPasses(t *testing.T, name string, options ...func(*remotehost.Config)) {
	c := theCluster(t)
	h := newContainerdHost(t, options...)
	h.write(t, "/etc/resolv.conf", hostResolv)
	h.write(t, seccompRoot+"/profiles/no-mkdir.json",
		`{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO"}]}`)
	n := newNode(t, c, name, h.section(fmt.Sprintf("podPidsLimit: %d", pidsLimit)))
	n.configure("clusterDNS: [10.96.0.10]\npods: {allowedUnsafeSysctls: [net.core.somaxconn]}\n")
	n.run()
	rows := slices.Concat(hostFields(), hostBehaviours(), hostVerbs(), hostScenarios())
	areRows(t, slices.Concat(probedStaying, longRows), rows)
	slots := make(chan struct{}, room(atOnce))
	together(t, rows, row[*hostLife].title, func(t *testing.T, r row[*hostLife]) {
		if !slices.Contains(longRows, r.name) { // which wait for time alone, and would be the last
			slots <- struct{}{}
			defer func() { <-slots }()
		}
		l := &hostLife{life: &life{T: t, c: c, n: n, namespace: c.namespace(t, rowNamespace(name, r.name))}, h: h.hostView}
		r.run(l)
		l.leaves(r.name)
	})
	if t.Failed() {
		return
	}
	n.edit("pods: {", "pods: {hostNetwork: false, ")
	t.Run("restarted", func(t *testing.T) { adopts(t, c, n) })
	t.Run("behaviour host-network", func(t *testing.T) {
		refuseHostNetwork(&life{T: t, c: c, n: n, remote: h.remote(), namespace: c.namespace(t, name+"-network-refused")})
	})
	n.deletePods(t)
	h.empty(t)
}

// probedStaying are rows whose pods stay though a command probes them.
var probedStaying = []string{"behaviour readiness-falls", "behaviour liveness-exec"}

// leaves deletes those of the row's pods that a command probes, most of them once a second:
// until all rows have passed, their probes would keep the machine busier than the rows do.
// The others stay, so that a restart of burstlet has something to take up.
func (l *hostLife) leaves(row string) {
	l.Helper()
	if allStay || slices.Contains(probedStaying, row) {
		return
	}
	list, err := l.pods().List(l.Context(), metav1.ListOptions{})
	l.must(err)
	for i := range list.Items {
		if pod := &list.Items[i]; pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Spec.Containers, probedByCommand) {
			graceful(l.T, l.c, pod)
		}
	}
}

func probedByCommand(c corev1.Container) bool {
	return slices.ContainsFunc([]*corev1.Probe{c.LivenessProbe, c.ReadinessProbe}, func(p *corev1.Probe) bool {
		return p != nil && p.Exec != nil
	})
}

// longRows are rows that wait for about a minute: so often disks are measured, and
// eviction is decided.
var longRows = []string{"ephemeral storage", "emptyDir over its limit", "statistics"}

// rowNamespace is a namespace's name for a row on a node.
func rowNamespace(node, row string) string {
	return node + "-" + strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(row))
}

// hostFields are rows about fields of a pod, after each of which nothing is left.
func hostFields() []row[*hostLife] {
	var rows []row[*hostLife]
	for _, r := range slices.Concat(honouredRows(), hostPods, hostVolumes, hostLimits) {
		rows = append(rows, row[*hostLife]{r.name, func(l *hostLife) {
			r.run(l)
			l.endsClean()
		}})
	}
	return rows
}

// hostBehaviours are those of the table of all remotes that containers can do.
func hostBehaviours() []row[*hostLife] {
	var rows []row[*hostLife]
	for _, b := range behaviours() {
		if slices.Contains(b.on, onCRI) {
			rows = append(rows, row[*hostLife]{"behaviour " + b.name, func(l *hostLife) {
				l.remote = l.h.remote()
				b.run(l.life)
			}})
		}
	}
	return rows
}

func hostVerbs() []row[*hostLife] {
	var rows []row[*hostLife]
	for _, v := range verbs {
		rows = append(rows, row[*hostLife]{"kubectl " + v.name, func(l *hostLife) { v.run(l.life) }})
	}
	return rows
}

func hostScenarios() []row[*hostLife] {
	var rows []row[*hostLife]
	for _, s := range scenarios {
		s.token = true
		rows = append(rows, row[*hostLife]{"scenario " + s.name, func(l *hostLife) {
			s.run(l.T, l.c, l.n, l.h.remote(), l.namespace)
		}})
	}
	return rows
}

// deletePods deletes all pods of the node and waits until they are gone.
func (n *node) deletePods(t *testing.T) {
	t.Helper()
	onNode := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", n.name).String()}
	list, err := n.c.client.CoreV1().Pods("").List(t.Context(), onNode)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			graceful(t, n.c, &list.Items[i])
		}
	}
	wait.For(t, patience, "the node's pods are gone", func() error {
		list, err := n.c.client.CoreV1().Pods("").List(t.Context(), onNode)
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("there are %d, one is %s/%s", len(list.Items), list.Items[0].Namespace, list.Items[0].Name)
		}
		return err
	})
}

// write puts a file onto the host.
func (h *hostView) write(t *testing.T, path, content string) {
	t.Helper()
	cmd := h.Command(t.Context(), "sh", "-ec", `mkdir -p "$(dirname "$1")"; cat >"$1"`, "sh", path)
	cmd.Stdin = strings.NewReader(content)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("write %s on the host: %v: %s", path, err, out)
	}
}

// outside runs a script on the host and returns what it prints, without the space
// around it.
func (l *hostLife) outside(script string) string {
	l.Helper()
	out, err := l.h.Command(l.Context(), "sh", "-ec", script).CombinedOutput()
	if err != nil {
		l.Fatalf("on the host: %s: %v: %s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// inside runs a script in the container app.
func (l *hostLife) inside(script string) string {
	l.Helper()
	got := l.kubectl("", "exec", "subject", "-c", "app", "--", "sh", "-c", script)
	if got.code != 0 {
		l.Fatalf("in the container: %s: %+v", script, got)
	}
	return strings.TrimSpace(got.out)
}

// endsClean deletes the row's pods, after which nothing of them is on the host.
func (l *hostLife) endsClean() {
	l.Helper()
	pods, err := l.pods().List(l.Context(), metav1.ListOptions{})
	l.must(err)
	for i := range pods.Items {
		graceful(l.T, l.c, &pods.Items[i])
	}
	wait.For(l.T, l.patience(), "nothing left of the pods", func() error {
		for i := range pods.Items {
			pod := &pods.Items[i]
			if err := l.c.gone(l.T, pod.Namespace, pod.Name); err != nil {
				return err
			}
			if left := l.h.left(pod.UID); left != "" {
				return fmt.Errorf("pod %s left:\n%s", pod.Name, left)
			}
		}
		return nil
	})
}

// left lists mounts, directories, cgroups and links of a pod that are on the host.
func (h *hostView) left(uid types.UID) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	script := `grep -F "$1" /proc/mounts; find /sys/fs/cgroup -type d \( -name "*$1*" -o -name "*$(echo "$1" | tr - _)*" \)
		ls -d /var/lib/burstlet/pods/"$1" /var/log/pods/*"$1" 2>/dev/null; find /var/log/containers -lname "*$1*" 2>/dev/null; :`
	out, err := h.Command(ctx, "sh", "-c", script, "sh", string(uid)).CombinedOutput()
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(out))
}

// empty checks that nothing of any pod is on the host.
func (h *hostView) empty(t *testing.T) {
	t.Helper()
	wait.For(t, patience, "nothing left on the host", func() error {
		out, err := h.Command(t.Context(), "sh", "-c", `for dir in /var/lib/burstlet/pods /var/log/pods /var/log/containers; do [ ! -d $dir ] || ls -A $dir; done
			grep -F /var/lib/burstlet/ /proc/mounts; find /sys/fs/cgroup -type d -path "*/burstlet*pod*"; :`).CombinedOutput()
		if err == nil && len(out) > 0 {
			err = fmt.Errorf("left:\n%s", out)
		}
		return err
	})
}
