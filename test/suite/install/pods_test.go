package install

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/world/basecluster"
)

// clientRef is busybox with kubectl.
const clientRef = "registry.burstlet.test/client:1"

// web is a server with a Service.
const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: web
          image: registry.burstlet.test/busybox:1.36
          command: [sh, -c, 'mkdir /srv && echo hello >/srv/index.html && exec httpd -f -p 8080 -h /srv']
          readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1, timeoutSeconds: 30}
          resources: {requests: {cpu: 10m}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`

// asks is what a pod does to be sure of its cluster; each prints a line. DNS and
// Services know what is new a moment later.
const asks = `set -e
until nslookup kubernetes.default.svc.cluster.local | grep -q 'Address: 10.96.0.1$'; do sleep 0.1; done
echo name found
account=/var/run/secrets/kubernetes.io/serviceaccount
until kubectl --server=https://kubernetes.default.svc --certificate-authority=$account/ca.crt --token="$(cat $account/token)" \
	auth whoami --output=jsonpath='{.status.userInfo.username}{"\n"}' 2>/dev/null; do sleep 0.1; done
until wget -q -O - http://web.default.svc.cluster.local 2>/dev/null; do sleep 0.1; done
until wget -q -O - http://web 2>/dev/null; do sleep 0.1; done
`

// podsUseTheCluster: names, Services, the API server and metrics are there for pods and
// for this machine, with nothing of burstlet.
func podsUseTheCluster(t *testing.T, w *world) {
	c := w.c
	image, err := basecluster.ProgramImage(c.Kubectl())
	if err != nil {
		t.Fatal(err)
	}
	c.Import(t, map[string]v1.Image{clientRef: image})
	c.Apply(t, web)
	t.Cleanup(func() {
		cmd := c.Command(context.Background(), "delete", "deployment/web", "service/web", "pod/client", "--ignore-not-found")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("delete what was applied: %v: %s", err, out)
		}
	})
	c.AwaitDeployment(t, metav1.NamespaceDefault, "web")

	t.Run("from a pod", func(t *testing.T) { fromAPod(t, c) })
	t.Run("from this machine", func(t *testing.T) { fromThisMachine(t, c) })
	t.Run("metrics", func(t *testing.T) {
		want := regexp.MustCompile(`(?m)^web-\S+ +\d+m +\d+Mi`)
		basecluster.Await(t, "kubectl top pod", func(ctx context.Context) error {
			out, err := c.Command(ctx, "top", "pod", "--no-headers").CombinedOutput()
			if err != nil || !want.Match(out) {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	})
}

// fromAPod: names, Services and the API server, with the pod's own token.
func fromAPod(t *testing.T, c *basecluster.Cluster) {
	pods := c.Client.CoreV1().Pods(metav1.NamespaceDefault)
	pod, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "client"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "client", Image: clientRef, Command: []string{"sh", "-c", asks}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	basecluster.Await(t, "the client's end", func(ctx context.Context) error {
		if pod, err = pods.Get(ctx, pod.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			return fmt.Errorf("status is %+v", pod.Status)
		}
		return nil
	})
	got, err := c.Command(t.Context(), "logs", pod.Name).CombinedOutput()
	const want = "name found\nsystem:serviceaccount:default:default\nhello\nhello\n"
	if err != nil || string(got) != want {
		t.Errorf("the client ended %s and prints %q (%v), want %q", pod.Status.Phase, got, err, want)
	}
}

// fromThisMachine: the API server's way to pods, and everybody's here.
func fromThisMachine(t *testing.T, c *basecluster.Cluster) {
	list, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(
		t.Context(), metav1.ListOptions{LabelSelector: "app=web"},
	)
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d pods, %v", len(list.Items), err)
	}
	pod := list.Items[0]
	proxied, err := c.Client.CoreV1().Pods(pod.Namespace).ProxyGet("http", pod.Name, "8080", "/", nil).DoRaw(t.Context())
	if err != nil || string(proxied) != "hello\n" {
		t.Errorf("through the API server: %q, %v", proxied, err)
	}
	resp, err := http.Get("http://" + pod.Status.PodIP + ":8080/")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if closed := resp.Body.Close(); err != nil || closed != nil || string(body) != "hello\n" {
		t.Errorf("directly: %q, %v, %v", body, err, closed)
	}
	out, err := c.Command(t.Context(), "exec", pod.Name, "--", "hostname").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != pod.Name {
		t.Errorf("exec: %q, %v", out, err)
	}
}
