package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/cmd/burstlet/access"
	"github.com/burstlet/burstlet/test/kit/hostile"
	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// flowSchema is what the API server's priority and fairness takes a request for.
func flowSchema(t *testing.T, c *rest.Config, call func(context.Context, kubernetes.Interface) error) string {
	t.Helper()
	c = rest.CopyConfig(c)
	var uid atomic.Value
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err == nil {
				uid.Store(resp.Header.Get("X-Kubernetes-PF-FlowSchema-UID"))
			}
			return resp, err
		})
	})
	client, err := kubernetes.NewForConfig(c)
	if err == nil {
		err = call(t.Context(), client)
	}
	if err != nil {
		t.Fatal(err)
	}
	found, _ := uid.Load().(string)
	return found
}

// TestRealPriorityOfANode: who impersonates a node has the priority of nodes, and of their
// heartbeats, by the FlowSchemas that every cluster has.
func TestRealPriorityOfANode(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const name = "prior"
	by := s.account(name, name, "serviceaccount.yaml")
	as, err := access.AsNode(t.Context(), by, name)
	s.must(err)
	schemas, err := s.admin.FlowcontrolV1().FlowSchemas().List(t.Context(), metav1.ListOptions{})
	s.must(err)
	names := map[string]string{"": "none: priority and fairness is off"}
	for i := range schemas.Items {
		names[string(schemas.Items[i].UID)] = schemas.Items[i].Name
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}}
	for _, tt := range []struct {
		name string
		as   *rest.Config
		call func(context.Context, kubernetes.Interface) error
		want string
	}{
		{"the lease", as, func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, lease, metav1.CreateOptions{})
			return err
		}, "system-node-high"},
		{"the Node", as, func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Nodes().Create(
				ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{},
			)
			return err
		}, "system-node-high"},
		{"pods", as, func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
			return err
		}, "system-nodes"},
		// The election's lease is written by the ServiceAccount itself.
		{"the election", by, func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoordinationV1().Leases(metav1.NamespaceDefault).Create(ctx,
				&coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
				}, metav1.CreateOptions{})
			return err
		}, "service-accounts"},
	} {
		if got := names[flowSchema(t, tt.as, tt.call)]; got != tt.want {
			t.Errorf("%s: FlowSchema %s, want %s", tt.name, got, tt.want)
		}
	}
	s.must(s.admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// renewals returns once the lease was renewed so often, with the longest time between two.
func (s *stage) renewals(node string, n int) (longest time.Duration) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	w, err := s.admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).Watch(ctx,
		metav1.ListOptions{FieldSelector: "metadata.name=" + node})
	s.must(err)
	defer w.Stop()
	var last time.Time
	for event := range w.ResultChan() {
		lease, ok := event.Object.(*coordinationv1.Lease)
		if !ok || event.Type == watch.Deleted || lease.Spec.RenewTime == nil {
			continue
		}
		now := lease.Spec.RenewTime.Time
		if !last.IsZero() && now.After(last) {
			longest = max(longest, now.Sub(last))
			n--
		}
		if last = now; n == 0 {
			return longest
		}
	}
	s.t.Fatal("the lease is not renewed")
	return 0
}

// TestRealHostileClient: with the default configuration a client that sends token after
// token and holds connections delays neither the node's lease nor its statuses, and
// callers that the node knows are served.
func TestRealHostileClient(t *testing.T) {
	lane.From(t, lane.Gate)
	t.Parallel()
	s := newStage(t)
	port := ports.Free(t)
	h := &hostile.Client{Address: fmt.Sprint("127.0.0.1:", port)}
	s.run(s.configure(fmt.Sprintf(`
node: {name: besieged, internalIP: 127.0.0.1}
kubeconfig: %s
backend: {type: sim, sim: {socket: "%%SOCKET%%"}}
kubeletAPI: {address: 127.0.0.1, port: %d, selfSigned: true, clientCAFile: %%CA%%}
`, s.nodeKubeconfig("besieged"), port)))
	s.ready("besieged")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var siege sync.WaitGroup
	defer siege.Wait()
	defer stop()
	for range 64 {
		siege.Go(func() { h.Tokens(ctx) })
	}
	// Before idle connections take the room of those that send tokens: where these are
	// few, the node has time for each.
	wait.Holds(t, patience, "a token is refused", func() bool { return h.Refused() > 0 })
	siege.Go(func() { h.Idle(ctx, 1500) })
	s.pod("besieged", "in-a-siege")
	s.podReady("in-a-siege")
	longest := s.renewals("besieged", 3)
	t.Logf("%d tokens sent, %d refused; at most %v between renewals", h.Sent(), h.Refused(), longest)
	// The controllers take a node for lost after 40 s without one.
	if longest > 20*time.Second {
		t.Errorf("%v between renewals of the lease, want 10 s", longest)
	}
	for _, path := range []string{"/healthz", "/pods", "/metrics"} {
		if text, err := s.asAdmin(port, path); err != nil {
			t.Errorf("%s of a caller with a certificate: %v", path, err)
		} else if path == "/metrics" &&
			!strings.Contains(text, `burstlet_http_refused_total{kind="authentications",server="kubelet_api"}`) {
			t.Error("the metrics do not tell of refusals")
		}
	}
}

// asAdmin gets a path of the kubelet API with the administrator's certificate.
func (s *stage) asAdmin(port int, path string) (string, error) {
	s.t.Helper()
	config, err := rest.TLSConfigFor(s.cp.AdminConfig())
	s.must(err)
	config.InsecureSkipVerify = true //nolint:gosec // it is self-signed
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: patience}).Get(local("https", port, path))
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	_, err = io.Copy(&text, resp.Body)
	err = errors.Join(err, resp.Body.Close())
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, &text)
	}
	return text.String(), err
}
