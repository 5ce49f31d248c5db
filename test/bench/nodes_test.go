package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// readyWait bounds the registration of a node.
const readyWait = time.Minute

// node is a node whose pods are measured, and the program that is it.
type node struct {
	*process
	c    *cluster
	name string
	user string // who it is to the API server
	// launch starts the program once more.
	launch func() *process
	// api is its kubelet API, which asAdmin may use.
	api     string
	asAdmin *http.Client
	// profiles is where the program serves profiles; "" where it does not.
	profiles string
}

// newBurstlet starts a burstlet node on a simulated remote: in its own process,
// or in that of socket.
func newBurstlet(b *testing.B, c *cluster, name, socket string, pods int) *node {
	b.Helper()
	backend := "  type: sim\n"
	if socket != "" {
		backend += "  sim: {socket: unix://" + socket + "}\n"
	}
	return newBurstletOn(b, c, name, backend, pods)
}

// newBurstletOn starts a burstlet node with a section of the configuration as its
// backend; through is a command that runs it, if need be.
func newBurstletOn(b *testing.B, c *cluster, name, backend string, pods int, through ...string) *node {
	b.Helper()
	dir := b.TempDir()
	cred, err := c.NodeCredential(name)
	if err != nil {
		b.Fatal(err)
	}
	port := ports.Free(b)
	config := filepath.Join(dir, "burstlet.yaml")
	write(b, config, fmt.Sprintf(`apiVersion: burstlet.dev/v1alpha1
kind: BurstletConfiguration
kubeconfig: %s
node: {name: %s, internalIP: 127.0.0.1, capacity: {cpu: 100000, memory: 1000Ti, pods: %d}}
kubeletAPI: {address: 127.0.0.1, port: %d, selfSigned: true, clientCAFile: %s}
client: {qps: 100000, burst: 100000}
eviction: {evictionHard: {}} # the machine may be fuller than a kubelet takes
backend:
%s`, cptest.Kubeconfig(b, cred), name, pods, port, c.CAFile(), backend))
	n := &node{
		c: c, name: name, user: "system:node:" + name,
		api: fmt.Sprintf("https://127.0.0.1:%d", port), asAdmin: adminOfKubelets(b, c, nil),
	}
	var env []string
	if os.Getenv(profileEnv) != "" {
		n.profiles = filepath.Join(built.dir, name+".sock")
		env = []string{"BURSTLET_BENCH_SOCKET=" + n.profiles}
	}
	argv := append(through, burstlet(b), "run", "--config", config)
	n.launch = func() *process {
		if n.profiles != "" {
			if err := os.RemoveAll(n.profiles); err != nil {
				b.Fatal(err)
			}
		}
		return startProcess(b, name, argv[0], env, argv[1:]...)
	}
	n.process = n.launch()
	n.ready(b)
	return n
}

// kwokOptions are those of kustomize/kwok/kwok.yaml in kwok's module, but for the
// custom resources, which this cluster has not, and a wider net.
const kwokOptions = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  enablePodsOnNodeSyncStreamWatch: true
  nodeLeaseParallelism: 4
  podPlayStageParallelism: 4
  nodePlayStageParallelism: 4
  podsOnNodeSyncParallelism: 4
  nodeLeaseDurationSeconds: 40
  cidr: 10.0.0.0/8
`

// adminOfKubelets is an administrator whom the nodes' self-signed certificates
// do not bother. dial reaches the nodes; nil: they are on this machine.
func adminOfKubelets(
	b *testing.B, c *cluster, dial func(ctx context.Context, network, address string) (net.Conn, error),
) *http.Client {
	b.Helper()
	cfg := c.AdminConfig()
	cfg.Dial = dial
	cfg.TLSClientConfig.Insecure = true
	cfg.TLSClientConfig.CAData, cfg.TLSClientConfig.CAFile = nil, ""
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		b.Fatal(err)
	}
	return client
}

// newKwok starts kwok as one node, with the stages that come with it. Its client
// has no limit; its parallelism stays the default.
func newKwok(b *testing.B, c *cluster, name string) *node {
	b.Helper()
	path := kwok(b)
	dir := b.TempDir()
	user := "kwok"
	cred, err := c.Credential(user, "system:masters")
	if err != nil {
		b.Fatal(err)
	}
	_, err = c.client.CoreV1().Nodes().Create(b.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"kubernetes.io/hostname": name},
	}}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	var config bytes.Buffer
	config.WriteString(kwokOptions + "  manageSingleNode: " + name + "\n")
	for _, stage := range kwokStages(b) {
		text, err := os.ReadFile(stage)
		if err != nil {
			b.Fatal(err)
		}
		config.WriteString("---\n")
		config.Write(text)
	}
	file := filepath.Join(dir, "kwok.yaml")
	write(b, file, config.String())
	access := cptest.Kubeconfig(b, cred)
	n := &node{c: c, name: name, user: user}
	n.launch = func() *process {
		return startProcess(b, "kwok", path, nil, "--kubeconfig", access, "--config", file, "--node-ip", "127.0.0.1")
	}
	n.process = n.launch()
	n.ready(b)
	return n
}

// newSim starts a simulated remote and returns its socket.
func newSim(b *testing.B, pods int) string {
	b.Helper()
	return launch.NewSim(b, "--max-pods", strconv.Itoa(pods), "--log-level", "warn").Socket
}

// ready waits until the API shows the node Ready.
func (n *node) ready(b *testing.B) {
	b.Helper()
	wait.For(b, readyWait, "node "+n.name+" Ready", func() error {
		n.running()
		node, err := n.c.client.CoreV1().Nodes().Get(b.Context(), n.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return wait.NodeReady(node)
	})
}

// metrics is what the node's kubelet API says of itself.
func (n *node) metrics(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.api+"/metrics", nil)
	if err != nil {
		return "", err
	}
	resp, err := n.asAdmin.Do(req)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("metrics of %s: %s: %s", n.name, resp.Status, text)
	}
	return string(text), nil
}

// metric is the sum of a counter or gauge of the node's kubelet API over the
// series whose labels hold label.
func (n *node) metric(ctx context.Context, name, label string) (float64, error) {
	text, err := n.metrics(ctx)
	if err != nil {
		return 0, err
	}
	var sum float64
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || !strings.Contains(rest, label) || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndex(rest, " "):]), 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum += value
	}
	return sum, nil
}

// profiled writes a CPU profile of f and a heap profile after it, if asked for.
func (n *node) profiled(b *testing.B, phase string, f func()) {
	b.Helper()
	if n.profiles == "" {
		f()
		return
	}
	done := make(chan error, 1)
	go func() { done <- n.fetch(phase+".cpu", "/start") }()
	f()
	if err := n.fetch("", "/stop"); err != nil {
		b.Fatal(err)
	}
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	for _, what := range []string{"heap&text", "heap", "goroutine"} { // the first with all of MemStats
		if err := n.fetch(phase+"."+strings.ReplaceAll(what, "&", "."), "/lookup?name="+what); err != nil {
			b.Fatal(err)
		}
	}
}

// fetch writes what the program answers to a file; "" to none.
func (n *node) fetch(file, path string) error {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", n.profiles)
		},
	}}
	resp, err := client.Get("http://profiles" + path)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: %s: %s", resp.Status, text)
	}
	if file == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(os.Getenv(profileEnv), file), text, 0o600)
}

func write(b *testing.B, path, text string) {
	b.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
}
