package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/test/kit/link"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// Two nodes of one process, each with a credential, a port and a backend of its
// own, and a third whose remote is not there, which does not disturb them.
func TestRealSeveralNodesInOneProcess(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	taken := []int{ports.Free(t), ports.Free(t), ports.Free(t)}
	cfg := s.configure(fmt.Sprintf(`
node: {internalIP: 127.0.0.1, labels: {team: blue}}
backend: {type: sim, sim: {socket: "%%SOCKET%%"}}
kubeletAPI: {address: 127.0.0.1, selfSigned: true, clientCAFile: %%CA%%}
healthzPort: %d
nodes:
- {node: {name: multi-a, labels: {rack: r1}}, kubeconfig: %s, kubeletAPI: {port: %d}}
- {node: {name: multi-b, taints: [{key: k, effect: NoSchedule}], capacity: {pods: 7}}, kubeconfig: %s, kubeletAPI: {port: %d}}
- {node: {name: multi-c}, kubeconfig: %s, backend: {sim: {socket: "unix:///nowhere/s"}}, kubeletAPI: {port: %d}}
`, ports.Free(t), s.nodeKubeconfig("multi-a"), taken[0], s.nodeKubeconfig("multi-b"), taken[1], s.nodeKubeconfig("multi-c"), taken[2]))
	p := s.run(cfg)
	for i, name := range []string{"multi-a", "multi-b"} {
		s.ready(name)
		node, err := s.admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if node.Labels["team"] != "blue" || int(node.Status.DaemonEndpoints.KubeletEndpoint.Port) != taken[i] {
			t.Errorf("%s: labels %v, endpoint %v", name, node.Labels, node.Status.DaemonEndpoints)
		}
		if (node.Labels["rack"] == "r1") != (i == 0) || (node.Spec.Taints[0].Key == "k") != (i == 1) ||
			(node.Status.Capacity.Pods().Value() == 7) != (i == 1) {
			t.Errorf("%s: labels %v, taints %v, capacity %v", name, node.Labels, node.Spec.Taints, node.Status.Capacity)
		}
		s.pod(name, "on-"+name)
		s.podReady("on-" + name)
	}
	wait.For(t, patience, "/readyz tells of all", func() error {
		text, err := readyz(cfg)
		if err == nil &&
			!strings.HasPrefix(text, "[+]node/multi-a running\n[+]node/multi-b running\n[-]node/multi-c failed: ") {
			err = errors.New(text)
		}
		return err
	})
	p.end()
	if found := s.remote.Audit().Violations; len(found) != 0 {
		t.Errorf("violations: %v", found)
	}
}

// A process that is told to end while it waits for its remote has not failed.
func TestRealEndWhileItIsSetUp(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	silent := filepath.Join(t.TempDir(), "silent")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", silent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := s.run(s.configure(fmt.Sprintf(`
node: {name: unfinished, internalIP: 127.0.0.1}
kubeconfig: %s
backend: {type: sim, sim: {socket: "unix://%s"}}
kubeletAPI: {address: 127.0.0.1, port: %d, selfSigned: true, clientCAFile: %%CA%%}
healthzPort: %d
`, s.nodeKubeconfig("unfinished"), silent, ports.Free(t), ports.Free(t))))
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	p.end()
}

// An administrator deletes the Node: it is back within seconds with what it was
// made with, and its lease is the new Node's.
func TestRealDeletedNodeIsBackWithItsLease(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.run(s.configure(fmt.Sprintf(`
node: {name: phoenix, internalIP: 127.0.0.1, labels: {team: blue}}
kubeconfig: %s
backend: {type: sim, sim: {socket: "%%SOCKET%%"}}
`, s.nodeKubeconfig("phoenix"))))
	s.ready("phoenix")
	nodes, leases := s.admin.CoreV1().Nodes(), s.admin.CoordinationV1().Leases("kube-node-lease")
	old, err := nodes.Get(t.Context(), "phoenix", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wait.For(t, patience, "its lease", func() error {
		_, err := leases.Get(t.Context(), "phoenix", metav1.GetOptions{})
		return err
	})
	if err := nodes.Delete(t.Context(), "phoenix", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	deleted := time.Now()
	node := wait.Node(t, s.admin, "phoenix", patience, "back and Ready", func(node *corev1.Node) error {
		if node.UID == old.UID {
			return errNotYet
		}
		return wait.NodeReady(node)
	})
	t.Logf("back after %v", time.Since(deleted))
	if node.Labels["team"] != "blue" || node.Labels["type"] != "virtual-kubelet" || len(node.Spec.Taints) == 0 {
		t.Errorf("labels %v, taints %v", node.Labels, node.Spec.Taints)
	}
	owned := func() error {
		lease, err := leases.Get(t.Context(), "phoenix", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(lease.OwnerReferences) != 1 || lease.OwnerReferences[0].UID != node.UID {
			return fmt.Errorf("the lease belongs to %v, the node is %s", lease.OwnerReferences, node.UID)
		}
		return nil
	}
	wait.For(t, patience, "the lease follows", owned)
	t.Logf("its lease after %v", time.Since(deleted))
	renewed := time.Now()
	wait.For(t, patience, "the lease is renewed for the new node", func() error {
		lease, err := leases.Get(t.Context(), "phoenix", metav1.GetOptions{})
		if err == nil && lease.Spec.RenewTime.Time.Before(renewed) {
			err = errNotYet
		}
		return err
	})
	if err := owned(); err != nil {
		t.Error(err)
	}
}

// readyz is what a process says of its nodes.
func readyz(cfg config.Configuration) (string, error) {
	resp, err := http.Get(local("http", cfg.HealthzPort, "/readyz"))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// contenders are two processes that stand for the same node.
type contenders struct {
	*stage
	node    string
	tunnels [2]*link.Link
	cfgs    [2]config.Configuration
}

// stand makes two contenders, each with a way of its own to the election's lease.
// The lease is written under a user that may write leases in this namespace and
// nothing else.
func (s *stage) stand(node string) *contenders {
	s.t.Helper()
	c := &contenders{stage: s, node: node}
	s.allowLeases(node + "-election")
	credential := s.nodeKubeconfig(node)
	for i := range c.cfgs {
		c.tunnels[i] = s.tunnel()
		cred, err := s.cp.Credential(node + "-election")
		if err != nil {
			s.t.Fatal(err)
		}
		cred.Host = "https://" + c.tunnels[i].Address()
		c.cfgs[i] = s.configure(fmt.Sprintf(`
node: {name: %s, internalIP: 127.0.0.%d}
kubeconfig: %s
backend: {type: sim, sim: {socket: "%%SOCKET%%"}}
kubeletAPI: {address: 127.0.0.1, port: %d, selfSigned: true, clientCAFile: %%CA%%}
healthzPort: %d
leaderElection: {enabled: true, namespace: default, kubeconfig: %s, leaseDuration: 60s, renewDeadline: 45s}
`, node, i+1, credential, ports.Free(s.t), ports.Free(s.t), cptest.Kubeconfig(s.t, cred)))
	}
	return c
}

func (s *stage) allowLeases(user string) {
	s.t.Helper()
	ctx := s.t.Context()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules: []rbacv1.PolicyRule{
			{
				APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
				Verbs: []string{"get", "create", "update"},
			},
		},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: user}},
	}
	if _, err := s.admin.RbacV1().Roles("default").Create(ctx, role, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.admin.RbacV1().RoleBindings("default").Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// holder is who holds the election's lease, "" for nobody.
func (c *contenders) holder() string {
	c.t.Helper()
	lease, err := c.admin.CoordinationV1().Leases("default").Get(c.t.Context(), c.cfgs[0].LeaseName(), metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// leads is nil when the Node shows contender i as the one to call, and no other
// answers that it runs the node.
func (c *contenders) leads(i int) error {
	for j := range c.cfgs {
		want := map[bool]string{true: "running", false: "standby"}[i == j]
		text, err := readyz(c.cfgs[j])
		if err != nil && i != j {
			continue // it has ended
		}
		if err != nil {
			return err
		}
		// Who stands by without a way to the API says that, too.
		if text != "[+]node/"+c.node+" "+want+"\n" && (i == j || !strings.HasPrefix(text, "[-]node/"+c.node+" standby: ")) {
			return fmt.Errorf("contender %d says %q", j, text)
		}
	}
	node, err := c.admin.CoreV1().Nodes().Get(c.t.Context(), c.node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	at, port := node.Status.Addresses[0].Address, int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if at != c.cfgs[i].Node.InternalIP || port != c.cfgs[i].KubeletAPI.Port {
		return fmt.Errorf("the node is at %s:%d", at, port)
	}
	return nil
}

// watchReady notes every time at which the node is not Ready, from the time on at
// which it first was.
func (c *contenders) watchReady() (unready func() []string) {
	c.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w, err := c.admin.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", c.node).String(),
	})
	if err != nil {
		stop()
		c.t.Fatal(err)
	}
	var mu sync.Mutex
	var found []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			node, ok := event.Object.(*corev1.Node)
			if !ok || event.Type == watch.Deleted {
				continue
			}
			for _, cond := range node.Status.Conditions {
				if cond.Type == corev1.NodeReady && cond.Status != corev1.ConditionTrue {
					mu.Lock()
					found = append(found, fmt.Sprintf("%s: %s %s", time.Now().Format(time.StampMilli), cond.Reason, cond.Message))
					mu.Unlock()
				}
			}
		}
	}()
	return func() []string {
		stop()
		w.Stop()
		<-done
		mu.Lock()
		defer mu.Unlock()
		return found
	}
}

// TestRealTakeover: a leader that ends hands over at once, one that cannot renew
// when its lease is over; pods that are made meanwhile start once, those that run go
// on, and the node is Ready throughout, at the address of whoever leads.
func TestRealTakeover(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := s.stand("ha")
	first := s.run(c.cfgs[0])
	wait.For(t, patience, "the first leads", func() error { return c.leads(0) })
	s.ready("ha")
	unready := c.watchReady()
	s.run(c.cfgs[1])
	var pods []string
	add := func(n int) {
		for range n {
			pods = append(pods, fmt.Sprintf("ha-%d", len(pods)))
			s.pod("ha", pods[len(pods)-1])
		}
	}
	allRun := func() {
		t.Helper()
		for _, name := range pods {
			s.podReady(name)
		}
	}
	add(5)
	allRun()
	holder := c.holder()
	first.end()
	ended := time.Now()
	if now := c.holder(); holder == "" || now == holder {
		t.Errorf("the first held the lease as %q, and when it has ended %q does: it was not given up", holder, now)
	}
	add(5)
	wait.For(t, patience, "the second leads after a clean end", func() error { return c.leads(1) })
	t.Logf("clean takeover after %v", time.Since(ended))
	allRun()

	s.run(c.cfgs[0])
	wait.For(t, patience, "the first stands by", func() error { return c.leads(1) })
	c.tunnels[1].Cut()
	cut := time.Now()
	add(5)
	wait.For(t, patience, "the first leads after the second could not renew", func() error {
		_, err := s.admin.CoordinationV1().Leases("default").Get(t.Context(), "burstlet-ha", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return c.leads(0)
	})
	t.Logf("takeover after %v", time.Since(cut))
	add(5)
	allRun()
	c.tunnels[1].Restore()
	add(5)
	allRun()
	if err := c.leads(0); err != nil {
		t.Error(err)
	}
	if found := unready(); len(found) != 0 {
		t.Errorf("the node was not ready: %s", strings.Join(found, "; "))
	}
	c.once(pods)
}

// once checks that every pod was launched once and runs for the first time.
func (c *contenders) once(pods []string) {
	c.t.Helper()
	if found := c.remote.Audit().Violations; len(found) != 0 {
		c.t.Errorf("violations: %v", found)
	}
	audit := c.remote.Audit()
	for _, name := range pods {
		pod, err := c.admin.CoreV1().Pods("default").Get(c.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			c.t.Fatal(err)
		}
		launches, starts := audit.Launches[pod.UID], audit.Starts[sim.ContainerKey{UID: pod.UID, Name: "c"}]
		if launches != 1 || starts != 1 || pod.Status.ContainerStatuses[0].RestartCount != 0 {
			c.t.Errorf("pod %s: launched %d times, started %d times, %+v", name, launches, starts, pod.Status.ContainerStatuses)
		}
	}
}

// With shutdown.mode drain the pods end with the process, as with a kubelet's
// host, and the API says so; static ones run again with the next process.
func TestRealDrain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	manifest := filepath.Join(t.TempDir(), "static.yaml")
	if err := os.WriteFile(manifest, []byte(`
apiVersion: v1
kind: Pod
metadata: {name: static, namespace: default}
spec: {containers: [{name: c, image: busybox, command: [sleep, infinity]}]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := s.configure(fmt.Sprintf(`
node: {name: drained, internalIP: 127.0.0.1}
kubeconfig: %s
backend: {type: sim, sim: {socket: "%%SOCKET%%"}}
pods: {staticPodPath: %s}
shutdown: {mode: drain, flushTimeout: 2m, gracePeriod: 10s, gracePeriodCriticalPods: 5s}
`, s.nodeKubeconfig("drained"), manifest))
	p := s.run(cfg)
	s.ready("drained")
	s.pod("drained", "goes")
	s.podReady("goes")
	s.podReady("static-drained")
	p.end()
	for _, name := range []string{"goes", "static-drained"} {
		pod, err := s.admin.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "Terminated" {
			t.Errorf("%s: status %+v, %v", name, pod.Status, err)
		}
	}
	node, err := s.admin.CoreV1().Nodes().Get(t.Context(), "drained", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && (c.Status != corev1.ConditionFalse || c.Message != "node is shutting down") {
			t.Errorf("ready: %+v", c)
		}
	}
	s.run(cfg)
	s.podReady("static-drained")
	pod, err := s.admin.CoreV1().Pods("default").Get(t.Context(), "goes", metav1.GetOptions{})
	if err != nil || pod.Status.Phase != corev1.PodFailed {
		t.Errorf("goes came back: %+v, %v", pod.Status, err)
	}
}

// A leader without rights to its lease says so and stands by; it does not run.
func TestRealElectionWithoutRights(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	credential := s.nodeKubeconfig("powerless")
	cfg := s.configure(fmt.Sprintf(`
node: {name: powerless, internalIP: 127.0.0.1}
kubeconfig: %s
backend: {type: sim, sim: {socket: "%%SOCKET%%"}}
healthzPort: %d
leaderElection: {enabled: true, namespace: default, kubeconfig: %s}
`, credential, ports.Free(t), credential))
	p := s.run(cfg)
	wait.For(t, patience, "it is not ready, and says why", func() error {
		text, err := readyz(cfg)
		if err == nil && (!strings.HasPrefix(text, "[-]node/powerless standby: ") || !strings.Contains(text, "forbidden")) {
			err = errors.New(text)
		}
		return err
	})
	if _, err := s.admin.CoreV1().Nodes().Get(t.Context(), "powerless", metav1.GetOptions{}); err == nil {
		t.Error("the node runs without its lease")
	}
	p.end()
}
