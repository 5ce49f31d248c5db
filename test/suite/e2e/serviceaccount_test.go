package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/parts/controlplane"
)

// TestServiceAccount: a node of the ServiceAccount of deploy/rbac, which may only act as
// that node, leads, runs a pod with a token and a ConfigMap, serves its log, and is refused
// nothing.
func TestServiceAccount(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 5*time.Second)
	c := theCluster(t)
	const name = "serviceaccount"
	manifests, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "rbac", "serviceaccount.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	apply := c.Command(t.Context(), "apply", "-f", "-")
	apply.Stdin = strings.NewReader(
		strings.ReplaceAll(string(manifests), `"system:node:burstlet"`, `"system:node:`+name+`"`),
	)
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("apply the roles: %v\n%s", err, out)
	}
	token, err := c.client.CoreV1().ServiceAccounts("burstlet").CreateToken(t.Context(), "burstlet",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(t, c, name, "  type: sim\n")
	kubeconfig := filepath.Join(filepath.Dir(n.config), "kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, &rest.Config{
		Host: c.URL(), BearerToken: token.Status.Token, TLSClientConfig: rest.TLSClientConfig{CAData: c.AdminConfig().CAData},
	}); err != nil {
		t.Fatal(err)
	}
	n.configure(
		fmt.Sprintf(
			"impersonateNode: true\nleaderElection: {enabled: true, namespace: burstlet, kubeconfig: %s}\n", kubeconfig,
		),
	)
	n.run()
	l := &life{T: t, c: c, n: n, remote: remote{mounts: true}, namespace: c.namespace(t, name)}
	l.configMap("config", map[string]string{"key": "value"})
	l.create(l.pod(shell("echo $KEY; sleep 1000"), func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "KEY", ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "config"}, Key: "key",
			},
		}}}
	}))
	pod := l.until("Ready", isReady)
	l.says("app", "value")
	l.event(pod, "Started")
	l.must(l.pods().Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
	l.untilGone(pod.Name)
	for line := range strings.Lines(n.log.String()) {
		// The Node authorizer learns of a pod a moment after the node does, as a kubelet meets it.
		if strings.Contains(strings.ToLower(line), "forbidden") &&
			!strings.Contains(line, "no relationship found between node") {
			t.Errorf("refused: %s", line)
		}
	}
}
