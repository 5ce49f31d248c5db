package monitoring

import (
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// The nodes: a simulation within the process, one in a process of its own, tasks, and
// containers over SSH.
const (
	nodeSim     = "monitored-sim"
	nodeProcess = "monitored-process"
	nodeECS     = "monitored-ecs"
	nodeCRI     = "monitored-cri"
)

var nodeNames = []string{nodeCRI, nodeECS, nodeProcess, nodeSim}

// world is a cluster with two processes of burstlet: one works as all nodes, the other
// stands by for one of them.
type world struct {
	*testing.T
	cp     *controlplane.ControlPlane
	client kubernetes.Interface
	tasks  *ecs.Server
	// health are the processes' health ports.
	health [2]int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	built := building(t)
	host := remotehost.ForTest(t) // the first, since it may skip the test
	w := &world{T: t, cp: plane.Get(t)}
	w.client = cptest.Client(t, w.cp.AdminConfig())
	program := built()
	socket := launch.NewSim(t).Socket
	w.tasks = ecs.New(
		ecs.Config{
			Delays: ecs.Delays{
				Provision: 200 * time.Millisecond, Pull: 100 * time.Millisecond, Deprovision: 200 * time.Millisecond,
			},
		},
	)
	url, stop, err := w.tasks.Start()
	w.must(err)
	t.Cleanup(stop)

	process := w.entry(
		nodeProcess, "kubeconfig: "+w.credential(nodeProcess), "type: sim, sim: {socket: \"unix://"+socket+"\"}",
	)
	nodes := strings.Join([]string{
		fmt.Sprintf("- node: {name: %s}\n  bootstrapKubeconfig: %s\n  certDirectory: %s\n"+
			"  kubeletAPI: {port: %d, serverTLSBootstrap: true}\n  backend: {type: sim}\n",
			nodeSim, w.cp.KubeconfigPath(), t.TempDir(), ports.Free(t)),
		process,
		w.entry(nodeECS, "kubeconfig: "+
			w.credential(nodeECS), fmt.Sprintf("type: ecs, ecs: {region: us-east-1, cluster: default, subnets: "+
			"[subnet-0123456789abcdef0], "+
			"executionRoleARN: \"arn:aws:iam::123456789012:role/execution\", endpoint: %q}", url)),
		w.entry(nodeCRI, "kubeconfig: "+
			w.credential(nodeCRI), fmt.Sprintf("type: cri, cri: {endpoint: %q, ssh: {keyFiles: [%q], knownHostsFile: %q, "+
			"keepalive: 1s}}",
			host.Endpoint(), host.KeyFile(), host.KnownHostsFile())),
	}, "")
	w.run(0, program, nodes)
	w.certify()
	for _, name := range nodeNames {
		w.served(wait.Node(t, w.client, name, patience, "Ready", wait.NodeReady))
	}
	w.run(
		1, program,
		w.entry(nodeProcess, "kubeconfig: "+w.credential(nodeProcess), "type: sim, sim: {socket: \"unix://"+socket+"\"}"),
	)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// credential returns the kubeconfig of a node.
func (w *world) credential(node string) string {
	w.Helper()
	return cptest.NodeKubeconfig(w, w.cp, node)
}

// entry is a node in a configuration.
func (w *world) entry(name, access, backend string) string {
	return fmt.Sprintf(
		"- node: {name: %s}\n  %s\n  kubeletAPI: {port: %d, selfSigned: true}\n  backend: {%s}\n", name, access,
		ports.Free(w.T), backend,
	)
}

// run starts a process with nodes, as the chart does: behind leases, with its health
// port open.
func (w *world) run(i int, program, nodes string) {
	w.Helper()
	w.health[i] = ports.Free(w.T)
	file := launch.File(w, fmt.Sprintf(`apiVersion: burstlet.dev/v1alpha1
kind: BurstletConfiguration
node: {internalIP: 127.0.0.1, capacity: {cpu: 64, memory: 256Gi, pods: 500}}
kubeletAPI: {address: 127.0.0.1, clientCAFile: %s}
leaderElection: {enabled: true, namespace: default, kubeconfig: %s}
healthzPort: %d
healthzMetrics: true
eviction: {evictionHard: {}} # the machine may be fuller than a kubelet takes
nodes:
%s`, w.cp.CAFile(), w.cp.KubeconfigPath(), w.health[i], nodes))
	launch.ForTest(w, launch.Config{
		Name: fmt.Sprint("burstlet ", i), Program: program, File: file,
		Env: []string{"AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=example", "AWS_EC2_METADATA_DISABLED=true"},
	})
}

// certify approves the certificates that the simulated node asks for.
func (w *world) certify() {
	w.Helper()
	requests := w.client.CertificatesV1().CertificateSigningRequests()
	for _, signer := range []string{
		certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName,
	} {
		wait.For(w.T, patience, "a request to "+signer, func() error {
			list, err := requests.List(w.Context(), metav1.ListOptions{FieldSelector: "spec.signerName=" + signer})
			if err != nil || len(list.Items) == 0 {
				return fmt.Errorf("%d requests: %w", len(list.Items), err)
			}
			csr := &list.Items[0]
			if len(csr.Status.Conditions) > 0 {
				return nil // the cluster did, for an administrator's request
			}
			csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", Message: "for a test",
			})
			_, err = requests.UpdateApproval(w.Context(), csr.Name, csr, metav1.UpdateOptions{})
			return err
		})
	}
}

// served waits until the kubelet API of a node has a certificate: a node is Ready before
// the one that it asked for is there.
func (w *world) served(node *corev1.Node) {
	w.Helper()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)))
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // three have one of their own
	wait.For(w.T, patience, "the kubelet API of node "+node.Name, func() error {
		conn, err := dialer.DialContext(w.Context(), "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}
