package soak

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/test/kit/child"
	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// The nodes: simulated, and containers on a host over SSH.
const (
	nodeSim = "soak-sim"
	nodeSSH = "soak-ssh"
)

// patience is how long a step may take, many times what it does on an idle machine.
const patience = 5 * time.Minute

// world is a cluster with two processes, of which one leads both nodes.
type world struct {
	*testing.T
	cp       *controlplane.ControlPlane
	client   kubernetes.Interface
	host     *remotehost.Host // nil without pods over SSH
	nodes    []string
	backends map[string]string
	access   string // the ServiceAccount's kubeconfig

	processes [2]*process
	// ports are those of the nodes' kubelet APIs, by process.
	ports [2]map[string]int
	// leader is the index of the process that leads.
	leader atomic.Int32
	// asAdmin calls kubelet APIs.
	asAdmin *http.Client

	pods   podWatch
	leases leaseWatch
	kills  []time.Time
}

// process is a burstlet that is started again and again.
type process struct {
	name   string
	within []string
	file   string
	health int
	log    logs.Buffer
	*child.Child
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, nodes: []string{nodeSim}}
	if counts.ssh > 0 {
		w.host, w.nodes = remotehost.ForTest(t), append(w.nodes, nodeSSH) // the first, since it may skip the test
	}
	w.cp = cptest.New(t, controlplane.Config{}) // priority and fairness is on
	config := w.cp.AdminConfig()
	config.QPS, config.Burst = 1000, 1000
	w.client = cptest.Client(t, config)
	w.asAdmin = w.admin()
	w.access = w.serviceAccount()
	socket := launch.NewSim(t, "--max-pods", fmt.Sprint(2*counts.sim+100), "--log-level", "warn").Socket
	w.backends = map[string]string{nodeSim: fmt.Sprintf("type: sim, sim: {socket: \"unix://%s\"}", socket)}
	if w.host != nil {
		w.backends[nodeSSH] = fmt.Sprintf("type: cri, cri: {endpoint: %q, ssh: {keyFiles: [%q], knownHostsFile: %q}}",
			w.host.Endpoint(), w.host.KeyFile(), w.host.KnownHostsFile())
	}
	cptest.Namespace(t, w.client, namespace)
	w.leases.watch(w)
	for i := range w.processes {
		w.processes[i] = w.newProcess(i)
	}
	w.start(0)
	w.leads(0)
	w.start(1)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// serviceAccount makes the one of the manifests, which may act as the nodes and nothing
// else, and returns its kubeconfig.
func (w *world) serviceAccount() string {
	w.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "rbac", "serviceaccount.yaml"))
	w.must(err)
	users := make([]string, len(w.nodes))
	for i, name := range w.nodes {
		users[i] = `"system:node:` + name + `"`
	}
	manifest := strings.Replace(string(text), `"system:node:burstlet"`, strings.Join(users, ", "), 1)
	apply := w.cp.Command(w.Context(), "apply", "-f", "-")
	apply.Stdin = strings.NewReader(manifest)
	if out, err := apply.CombinedOutput(); err != nil {
		w.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	life := int64((24 * time.Hour).Seconds())
	token, err := w.client.CoreV1().ServiceAccounts("burstlet").CreateToken(w.Context(), "burstlet",
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &life},
		}, metav1.CreateOptions{})
	w.must(err)
	admin := w.cp.AdminConfig()
	return cptest.Kubeconfig(w, &rest.Config{
		Host: admin.Host, BearerToken: token.Status.Token, TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData},
	})
}

// admin calls kubelet APIs with the administrator's certificate; theirs are self-signed.
func (w *world) admin() *http.Client {
	w.Helper()
	config, err := rest.TLSConfigFor(w.cp.AdminConfig())
	w.must(err)
	config.InsecureSkipVerify = true //nolint:gosec // a test's
	config.MinVersion = tls.VersionTLS12
	transport := &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: 16}
	w.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// lease is the name of the election's Lease, where there is one for all nodes: the chart has one for several
// nodes, and burstlet-NODE for one.
func (w *world) lease() string {
	if len(w.nodes) == 1 {
		return ""
	}
	return "burstlet-nodes"
}

// memoryLimit is the chart's resources.limits.memory, in bytes.
const memoryLimit = 1 << 30

// newProcess configures a process as the chart does, and limits its memory as the chart
// does: what is not said is the default.
func (w *world) newProcess(i int) *process {
	w.Helper()
	p := &process{
		name: fmt.Sprint("burstlet ", i), within: launch.MemoryCgroup(w.T, memoryLimit), health: ports.Free(w.T),
	}
	w.ports[i] = map[string]int{}
	p.log.Keep = 1 << 20
	p.log.ShowAtFailure(w.T, p.name)
	var text bytes.Buffer
	fmt.Fprintf(&text, `apiVersion: burstlet.dev/v1alpha1
kind: BurstletConfiguration
kubeconfig: %s
impersonateNode: true
node: {internalIP: 127.0.0.1, capacity: {cpu: 100000, memory: 1000Ti, pods: %d}}
kubeletAPI: {address: 127.0.0.1, selfSigned: true}
leaderElection: {enabled: true, namespace: burstlet, name: %q, kubeconfig: %s}
healthzBindAddress: 127.0.0.1
healthzPort: %d
healthzMetrics: true
eviction: {evictionHard: {}} # the machine may be fuller than a kubelet takes
nodes:
`, w.access, 2*max(counts.sim, counts.ssh)+100, w.lease(), w.access, p.health)
	for _, node := range w.nodes {
		w.ports[i][node] = ports.Free(w.T)
		fmt.Fprintf(
			&text, "- {node: {name: %s}, kubeletAPI: {port: %d}, backend: {%s}}\n", node, w.ports[i][node], w.backends[node],
		)
	}
	p.file = launch.File(w.T, text.String())
	return p
}

func (w *world) start(i int) {
	w.Helper()
	p := w.processes[i]
	p.Child = launch.ForTest(w.T, launch.Config{Name: p.name, Within: p.within, File: p.file, Log: &p.log})
}

// leads waits until a process leads all nodes, and they are Ready.
func (w *world) leads(i int) {
	w.Helper()
	wait.For(w.T, patience, w.processes[i].name+" leads", func() error {
		if err := w.processes[i].Err(); err != nil {
			w.Fatal(err)
		}
		m, err := w.scrape(i)
		if err != nil {
			return err
		}
		for _, node := range w.nodes {
			if m.value("burstlet_node_state", "node", node, "state", "running") != 1 {
				err = errors.Join(err, fmt.Errorf("not node %s", node))
			}
		}
		return err
	})
	w.leader.Store(int32(i)) //nolint:gosec // 0 or 1
}

// killLeader kills the process that leads, starts it again once the other leads, and
// returns how long that took.
func (w *world) killLeader() time.Duration {
	w.Helper()
	old := int(w.leader.Load())
	next := 1 - old
	// It is a standby only when it says so.
	wait.For(w.T, patience, w.processes[next].name+" stands by", func() error {
		m, err := w.scrape(next)
		for _, node := range w.nodes {
			if err == nil && m.value("burstlet_node_state", "node", node, "state", "standby") != 1 {
				err = fmt.Errorf("not for node %s", node)
			}
		}
		return err
	})
	killed := time.Now()
	w.kills = append(w.kills, killed)
	w.must(w.processes[old].Kill())
	w.leads(next)
	took := time.Since(killed).Round(100 * time.Millisecond)
	w.Logf(
		"%s: %s was killed, %s leads after %v", killed.Format(time.TimeOnly), w.processes[old].name, w.processes[next].name,
		took,
	)
	w.start(old)
	return took
}

// killStandby kills the process that does not lead, and starts it again.
func (w *world) killStandby() {
	w.Helper()
	i := 1 - int(w.leader.Load())
	w.must(w.processes[i].Kill())
	w.start(i)
}

// forEach calls f for 0 to n-1, 16 at a time.
func (w *world) forEach(n int, f func(i int) error) {
	w.Helper()
	var g errgroup.Group
	g.SetLimit(16)
	for i := range n {
		g.Go(func() error { return f(i) })
	}
	w.must(g.Wait())
}

// transitions is how often the lead of the nodes' election changed hands.
func (w *world) transitions() int {
	w.Helper()
	name := cmp.Or(w.lease(), "burstlet-"+w.nodes[0])
	lease, err := w.client.CoordinationV1().Leases("burstlet").Get(w.Context(), name, metav1.GetOptions{})
	w.must(err)
	if lease.Spec.LeaseTransitions == nil {
		return 0
	}
	return int(*lease.Spec.LeaseTransitions)
}

// isReady is for a pod that is Ready.
func isReady(pod *corev1.Pod) bool { return wait.PodReady(pod) == nil }
