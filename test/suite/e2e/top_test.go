package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/test/kit/child"
	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/binaries"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// TestTop: kubectl top, answered by metrics-server, which reads the node with a
// right to nodes/metrics and no other.
func TestTop(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 50*time.Second)
	c := theCluster(t)
	program := cptest.Tool(t, binaries.MetricsServer)
	var lives []*life
	for _, on := range []struct{ name, section, script string }{
		{"top", newSimProcess(t).section(), "use cpu=250m memory=64Mi; sleep 1000"},
		{"top-ssh", newContainerdHost(t).section(), "head -c 32m /dev/zero >/dev/shm/used; while :; do :; done"},
	} {
		n := newNode(t, c, on.name, on.section)
		n.run()
		l := &life{T: t, c: c, n: n, namespace: c.namespace(t, on.name)}
		l.create(l.pod([]string{"sh", "-c", on.script}, func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300m")}
		}))
		l.until("the pod is Ready", isReady)
		lives = append(lives, l)
	}
	simulated, overSSH := lives[0], lives[1]
	simulated.serveMetrics(program, overSSH.n.name)
	for _, tt := range []struct {
		l    *life
		args []string
		want string
	}{
		{simulated, []string{"top", "pod", "subject", "--no-headers"}, `^subject +2[45]\dm +6[345]Mi`},
		{simulated, []string{"top", "pod", "subject", "--containers", "--no-headers"}, `^subject +app +2[45]\dm +6[345]Mi`},
		{simulated, []string{"top", "node", simulated.n.name, "--no-headers"}, `^top +[1-9]\d*m +\d+% +[1-9]\d*Mi`},
		// The limit of its processor time is what a loop gets, or less on a busy machine.
		{
			overSSH,
			[]string{"top", "pod", "subject", "--containers", "--no-headers"},
			`^subject +app +([1-9]\d?|[1-3]\d\d)m +3\dMi`,
		},
		{overSSH, []string{"top", "node", overSSH.n.name, "--no-headers"}, `^top-ssh +[1-9]\d*m +\d+% +[1-9]\d*Mi`},
	} {
		l := tt.l
		want := regexp.MustCompile(tt.want)
		wait.For(t, patience, "kubectl "+strings.Join(tt.args, " "), func() error {
			if got := l.kubectl("", tt.args...); !want.MatchString(got.out) {
				return fmt.Errorf("prints %q and %q, want %s", got.out, got.err, want)
			}
			return nil
		})
	}
}

// metricsService announces a metrics-server of this machine. ExternalName spares
// a route to a cluster IP, which there is none of.
const metricsService = `apiVersion: v1
kind: Service
metadata: {name: metrics-server, namespace: %[1]s}
spec: {type: ExternalName, externalName: localhost, ports: [{port: %[2]d}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: metrics-server, namespace: %[1]s, port: %[2]d}
`

// serveMetrics runs metrics-server under the rights of its own manifest, for the
// node of the row and others.
func (l *life) serveMetrics(program string, others ...string) {
	l.Helper()
	const account = "metrics-server"
	_, err := l.c.client.CoreV1().ServiceAccounts(l.namespace).Create(l.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	l.must(err)
	l.c.allow(l.T, l.namespace, account,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes/metrics"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"pods", "nodes"}, Verbs: []string{"get", "list", "watch"},
		})
	l.c.bind(l.T, l.namespace, account, "system:auth-delegator")
	_, err = l.c.client.RbacV1().RoleBindings(metav1.NamespaceSystem).Create(l.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics-server-auth-reader"},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "Role", Name: "extension-apiserver-authentication-reader",
		},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: l.namespace, Name: account}},
	}, metav1.CreateOptions{})
	l.must(err)

	dir, port := l.TempDir(), ports.Free(l.T)
	admin := l.c.AdminConfig()
	kubeconfig := cptest.Kubeconfig(l, &rest.Config{
		Host: admin.Host, TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData},
		BearerToken: l.c.token(l.T, l.namespace, account),
	})
	child.ForTest(l, child.Config{Program: program, Args: []string{
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--cert-dir=" + dir,
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--kubelet-insecure-tls", "--kubelet-use-node-status-port", "--kubelet-preferred-address-types=InternalIP",
		"--node-selector=kubernetes.io/hostname in (" + strings.Join(append(others, l.n.name), ",") + ")",
		"--metric-resolution=10s", "--kubelet-request-timeout=9s",
	}})
	l.Cleanup(func() {
		// An API that nobody serves would keep namespaces from ending.
		ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
		defer cancel()
		if out, err := l.command(ctx, "delete", "apiservice", "v1beta1.metrics.k8s.io").CombinedOutput(); err != nil {
			l.Errorf("%v: %s", err, out)
		}
	})
	if got := l.kubectl(fmt.Sprintf(metricsService, l.namespace, port), "apply", "-f", "-"); got.code != 0 {
		l.Fatalf("announce metrics-server: %+v", got)
	}
}
