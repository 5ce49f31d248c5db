package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// endpoint is one of the kubelet API and what one needs for it.
type endpoint struct {
	method, path string
	// upgrade are the headers with which the request asks for a stream.
	upgrade map[string]string
	// rights are the subresources of the Node, any of which is enough.
	rights []string
	// want is the answer to who has the right.
	want int
}

func spdy(protocol string) map[string]string {
	return map[string]string{"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": protocol}
}

func websocket(protocol string) map[string]string {
	return map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": protocol,
	}
}

// endpoints are all of the kubelet API, for container app of a pod.
func endpoints(namespace, pod string) []endpoint {
	const post, get, ok, switching = http.MethodPost, http.MethodGet, http.StatusOK, http.StatusSwitchingProtocols
	proxy := []string{"proxy"}
	at := "/" + namespace + "/" + pod
	return []endpoint{
		{get, "/containerLogs" + at + "/app", nil, proxy, ok},
		{post, "/exec" + at + "/app?output=1&command=true", spdy("v4.channel.k8s.io"), proxy, switching},
		{get, "/exec" + at + "/app?output=1&command=true", websocket("v4.channel.k8s.io"), proxy, switching},
		{post, "/attach" + at + "/app?output=1", spdy("v4.channel.k8s.io"), proxy, switching},
		{get, "/attach" + at + "/app?output=1", websocket("v4.channel.k8s.io"), proxy, switching},
		{post, "/portForward" + at, spdy("portforward.k8s.io"), proxy, switching},
		{get, "/portForward" + at + "?port=8080", websocket("v4.channel.k8s.io"), proxy, switching},
		{post, "/run" + at + "/app?cmd=true", nil, proxy, ok},
		{get, "/pods", nil, []string{"pods", "proxy"}, ok},
		{get, "/runningpods/", nil, []string{"pods", "proxy"}, ok},
		{get, "/stats/summary", nil, []string{"stats"}, ok},
		{get, "/metrics", nil, []string{"metrics"}, ok},
		{get, "/metrics/resource", nil, []string{"metrics"}, ok},
		{get, "/metrics/probes", nil, []string{"metrics"}, ok},
		{get, "/configz", nil, []string{"configz", "proxy"}, ok},
		{get, "/healthz", nil, []string{"healthz", "proxy"}, ok},
		{get, "/healthz/ping", nil, []string{"healthz", "proxy"}, ok},
		// What is not there is not told to those who may not ask.
		{get, "/nowhere", nil, proxy, http.StatusNotFound},
	}
}

// caller is somebody who asks.
type caller struct {
	name string
	// known is false for who cannot be told apart: 401.
	known bool
	// verb and right are the only ones the caller has on the node.
	verb, right string
	send        func(*http.Request) (*http.Response, error)
}

// want is what the endpoint must answer.
func (c caller) want(e endpoint) int {
	verb := map[string]string{http.MethodGet: "get", http.MethodPost: "create"}[e.method]
	switch {
	case !c.known:
		return http.StatusUnauthorized
	case c.verb == verb && slices.Contains(e.rights, c.right):
		return e.want
	}
	return http.StatusForbidden
}

// TestRights: whom the kubelet API lets do what, asked of a real API server:
// every endpoint by callers with one right each.
func TestRights(t *testing.T) {
	turn(t, waiter, 15*time.Second)
	c := theCluster(t)
	n := newNode(t, c, "rights", "  type: sim\n")
	n.run()
	namespace := c.namespace(t, "rights")
	l := &life{T: t, c: c, n: n, namespace: namespace}
	l.create(l.pod([]string{"httpd", "-p", "8080"}))
	l.until("the subject is Ready", isReady)
	callers := c.callers(t, n, namespace)
	together(t, endpoints(namespace, "subject"),
		func(e endpoint) string {
			path, _, _ := strings.Cut(strings.ReplaceAll(e.path, "/"+namespace+"/subject", ""), "?")
			return e.method + path
		},
		func(t *testing.T, e endpoint) {
			for _, who := range callers {
				code, body := n.ask(t, who, e)
				if code != who.want(e) {
					t.Errorf("%s: %d, want %d: %.200s", who.name, code, who.want(e), body)
				}
				if code == http.StatusForbidden &&
					!strings.Contains(body, "resource=nodes, subresource(s)=["+strings.Join(e.rights, " ")+"]") {
					t.Errorf("%s: refused with %q, which does not name the right", who.name, body)
				}
			}
		})
}

// ask sends a request to the node itself.
func (n *node) ask(t *testing.T, who caller, e endpoint) (code int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, e.method, fmt.Sprintf("https://127.0.0.1:%d%s", n.port, e.path), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range e.upgrade {
		req.Header.Set(name, value)
	}
	resp, err := who.send(req)
	if err != nil {
		t.Fatalf("%s: %v", who.name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp.StatusCode, ""
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		t.Fatalf("%s: %v", who.name, err)
	}
	return resp.StatusCode, string(b)
}

// callers are those of the table: strangers, one without rights, and one for
// each right.
func (c *cluster) callers(t *testing.T, n *node, namespace string) []caller {
	t.Helper()
	callers := append(c.strangers(t, namespace),
		c.account(t, namespace, "nobody", n.name, "", ""),
		caller{name: "a certificate without rights", known: true, send: c.transportOf(t, "somebody").RoundTrip},
		// The right on another node is none on this one.
		c.account(t, namespace, "elsewhere", "another-node", "get", "proxy"),
		c.account(t, namespace, "create-proxy", n.name, "create", "proxy"))
	for _, right := range []string{"proxy", "pods", "stats", "metrics", "configz", "healthz", "log"} {
		callers = append(callers, c.account(t, namespace, "get-"+right, n.name, "get", right))
	}
	return callers
}

// strangers cannot be told apart.
func (c *cluster) strangers(t *testing.T, namespace string) []caller {
	t.Helper()
	plain := insecureTransport(t)
	return []caller{
		{name: "no credential", send: plain.RoundTrip},
		{name: "a made-up token", send: bearer(plain, "made-up")},
		{
			name: "a token for another audience",
			send: bearer(plain, c.token(t, namespace, "default", "https://elsewhere.example")),
		},
		{name: "a certificate of another CA", send: insecureTransport(t, foreignCertificate(t)).RoundTrip},
	}
}

func bearer(transport *http.Transport, token string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		req.Header.Set("Authorization", "Bearer "+token)
		return transport.RoundTrip(req)
	}
}

// token asks for one of a service account.
func (c *cluster) token(t *testing.T, namespace, name string, audiences ...string) string {
	t.Helper()
	reply, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return reply.Status.Token
}

// account makes a service account with one right on one node, or none.
func (c *cluster) account(t *testing.T, namespace, name, node, verb, right string) caller {
	t.Helper()
	if _, err := c.client.CoreV1().ServiceAccounts(namespace).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	who := caller{name: name, known: true, send: bearer(insecureTransport(t), c.token(t, namespace, name))}
	if verb == "" {
		return who
	}
	c.allow(t, namespace, name, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"nodes/" + right}, Verbs: []string{verb}, ResourceNames: []string{node},
	})
	// The kubelet remembers a refusal for 30 s.
	wait.For(t, patience, name+" has its right", func() error {
		review, err := c.client.AuthorizationV1().SubjectAccessReviews().Create(
			t.Context(),
			&authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{
					User: "system:serviceaccount:" + namespace + ":" + name,
					ResourceAttributes: &authorizationv1.ResourceAttributes{
						Verb: verb, Resource: "nodes", Subresource: right, Name: node,
					},
				},
			},
			metav1.CreateOptions{},
		)
		if err == nil && !review.Status.Allowed {
			err = fmt.Errorf("refused: %s", review.Status.Reason)
		}
		return err
	})
	if node == "another-node" {
		who.verb, who.right = "", ""
		return who
	}
	who.verb, who.right = verb, right
	return who
}

// allow binds a service account to a cluster role of these rules.
func (c *cluster) allow(t *testing.T, namespace, account string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	name := namespace + "-" + account
	if _, err := c.client.RbacV1().ClusterRoles().Create(t.Context(),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.bind(t, namespace, account, name)
}

// bind binds a service account to a cluster role.
func (c *cluster) bind(t *testing.T, namespace, account, role string) {
	t.Helper()
	if _, err := c.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: namespace + "-" + account + "-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestNodeCredential: with its own credential a node reads what its pods refer
// to, while they live, and nothing else.
func TestNodeCredential(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 5*time.Second)
	c := theCluster(t)
	n := newNode(t, c, "credential", "  type: sim\n")
	n.run()
	l := &life{T: t, c: c, n: n, namespace: c.namespace(t, "credential")}
	for _, name := range []string{"own", "foreign"} {
		_, err := c.client.CoreV1().Secrets(l.namespace).Create(t.Context(),
			&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"key": name},
			}, metav1.CreateOptions{})
		l.must(err)
	}
	cred, err := c.NodeCredential(n.name)
	l.must(err)
	client, err := kubernetes.NewForConfig(cred)
	l.must(err)
	read := func(name string) error {
		_, err := client.CoreV1().Secrets(l.namespace).Get(t.Context(), name, metav1.GetOptions{})
		return err
	}
	refused := func(what string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want it forbidden", what, err)
		}
	}
	refused("a Secret before a pod refers to it", read("own"))

	l.create(l.pod(shell("echo $KEY"), func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "KEY", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "own"}, Key: "key"},
		}}}
	}))
	l.until("the pod with the Secret is Ready", isReady)
	l.says("app", "own")
	l.must(read("own"))

	refused("a Secret to which no pod of the node refers", read("foreign"))
	_, err = client.CoreV1().Secrets(l.namespace).List(t.Context(), metav1.ListOptions{})
	refused("all Secrets", err)
	_, err = client.CoreV1().ServiceAccounts(l.namespace).CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	refused("a token that is bound to no pod", err)
	_, err = client.CoreV1().Nodes().Create(t.Context(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "another-node"}}, metav1.CreateOptions{})
	refused("another node", err)

	l.must(l.pods().Delete(t.Context(), "subject", metav1.DeleteOptions{}))
	l.untilGone("subject")
	wait.For(t, patience, "the Secret is out of reach again", func() error {
		switch err := read("own"); {
		case apierrors.IsForbidden(err):
			return nil
		case err != nil:
			return err
		}
		return errors.New("it can be read")
	})
}
