package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/parts/controlplane"
)

// refused runs the node, which must end by itself with an error, and returns
// the error it printed.
func (n *node) refused() string {
	n.t.Helper()
	before := len(n.log.String())
	n.start()
	ran := n.ran
	select {
	case <-ran.Done():
		n.ran = nil
	case <-time.After(patience):
		n.t.Fatalf("it has not ended within %s", patience)
	}
	log := n.log.String()[before:]
	var exit *exec.ExitError
	if err := ran.Err(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		n.t.Fatalf("%v, want exit code 1:\n%s", err, log)
	}
	return log[strings.LastIndex(log, "burstlet: "):]
}

// edit changes the configuration file.
func (n *node) edit(old, now string) {
	n.t.Helper()
	b, err := os.ReadFile(n.config)
	if err != nil {
		n.t.Fatal(err)
	}
	if !strings.Contains(string(b), old) {
		n.t.Fatalf("%q is not in the configuration", old)
	}
	if err := os.WriteFile(n.config, []byte(strings.Replace(string(b), old, now, 1)), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// TestBadInput: a clear error that names the thing and what to do.
func TestBadInput(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 5*time.Second)
	c := theCluster(t)
	sim := "  type: sim\n"
	for _, tt := range []struct {
		name    string
		backend string
		change  func(n *node)
		// want are words that the error has.
		want func(n *node) []string
	}{
		{
			name: "unknown key", backend: sim,
			change: func(n *node) { n.edit("logging: {level: debug}", "logging: {level: debug}\nclusterDSN: [10.0.0.1]") },
			want:   func(*node) []string { return []string{"clusterDSN"} },
		},
		{
			name: "unknown key, nested", backend: sim,
			change: func(n *node) { n.edit("level: debug", "loudness: debug") },
			want:   func(*node) []string { return []string{"logging.loudness"} },
		},
		{
			name: "API server not there", backend: sim,
			change: func(n *node) { n.kubeconfig(func(r *rest.Config) { r.Host = "https://127.0.0.1:1" }) },
			want:   func(*node) []string { return []string{"https://127.0.0.1:1", "refused", "--kubeconfig"} },
		},
		{
			name: "no such kubeconfig", backend: sim,
			change: func(n *node) { n.edit("kubeconfig: ", "kubeconfig: /absent") },
			want:   func(*node) []string { return []string{"kubeconfig", "/absent", "no such file"} },
		},
		{
			name: "wrong credential", backend: sim,
			change: func(n *node) {
				n.kubeconfig(func(r *rest.Config) {
					r.CertData, r.KeyData, r.BearerToken = nil, nil, "of-another-cluster"
				})
			},
			want: func(n *node) []string { return []string{n.c.URL(), "credential", "Unauthorized", "--kubeconfig"} },
		},
		{
			name: "another node's credential", backend: sim,
			change: func(n *node) { n.edit("name: bad-another-node-s-credential", "name: somebody-else") },
			want:   func(*node) []string { return []string{"somebody-else", "forbidden"} },
		},
		{
			name: "port in use", backend: sim,
			change: func(n *node) {
				l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", n.port))
				if err != nil {
					n.t.Fatal(err)
				}
				n.t.Cleanup(func() { l.Close() })
			},
			want: func(n *node) []string { return []string{fmt.Sprint(n.port), "in use", "kubeletAPI.port"} },
		},
		{
			name: "no socket", backend: "  type: cri\n  cri: {endpoint: unix:///absent/containerd.sock}\n",
			want: func(*node) []string { return []string{"/absent/containerd.sock", "containerd"} },
		},
		{
			name:    "ECS without capacity",
			backend: "  type: ecs\n  ecs: {region: us-east-1, cluster: default, subnets: [subnet-1]}\n",
			change:  func(n *node) { n.edit(", capacity: {cpu: 64, memory: 256Gi, pods: 500}", "") },
			want:    func(*node) []string { return []string{"node.capacity.cpu", "node.capacity.memory"} },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, c, "bad-"+
				strings.NewReplacer(" ", "-", "'", "-", ",", "").Replace(strings.ToLower(tt.name)), tt.backend,
				"AWS_EC2_METADATA_DISABLED=true", "AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=example")
			if tt.change != nil {
				tt.change(n)
			}
			line := n.refused()
			t.Log(line)
			for _, word := range tt.want(n) {
				if !strings.Contains(line, word) {
					t.Errorf("the error does not say %q", word)
				}
			}
			if strings.Contains(line, "of-another-cluster") {
				t.Error("the error shows the token")
			}
		})
	}
}

// kubeconfig replaces the node's access.
func (n *node) kubeconfig(change func(*rest.Config)) {
	n.t.Helper()
	cred, err := n.c.NodeCredential(n.name)
	if err != nil {
		n.t.Fatal(err)
	}
	change(cred)
	if err := controlplane.WriteKubeconfig(filepath.Join(filepath.Dir(n.config), "kubeconfig"), cred); err != nil {
		n.t.Fatal(err)
	}
}
