package identity

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// life is that of the certificates that the cluster issues. They are backdated by
// 5 minutes, so that 70 to 90 % of their life is over between 46 s before and
// 24 s after they were issued.
const life = time.Minute

var plane = cptest.Shared{Config: controlplane.Config{
	ClusterSigningDuration: life,
	APIServerArgs:          []string{"--enable-bootstrap-token-auth=true"},
}}

func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }

func realAdmin(t *testing.T) (*controlplane.ControlPlane, kubernetes.Interface) {
	t.Helper()
	cp := plane.Get(t)
	return cp, cptest.Client(t, cp.AdminConfig())
}

// manifests are the objects of a file in deploy/rbac.
func manifests(t *testing.T, name string) []runtime.Object {
	t.Helper()
	data := must(os.ReadFile(filepath.Join("..", "..", "deploy", "rbac", name)))(t)
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var out []runtime.Object
	for {
		doc, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		obj, _, err := strict.Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, obj)
	}
}

// apply makes the objects of files in deploy/rbac, once.
func apply(t *testing.T, admin kubernetes.Interface, files ...string) {
	t.Helper()
	ctx := t.Context()
	for _, file := range files {
		for _, obj := range manifests(t, file) {
			var err error
			switch o := obj.(type) {
			case *rbacv1.ClusterRole:
				_, err = admin.RbacV1().ClusterRoles().Create(ctx, o, metav1.CreateOptions{})
			case *rbacv1.Role:
				_, err = admin.RbacV1().Roles(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
			case *rbacv1.ClusterRoleBinding:
				_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, o, metav1.CreateOptions{})
			case *rbacv1.RoleBinding:
				_, err = admin.RbacV1().RoleBindings(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
			case *corev1.Namespace:
				_, err = admin.CoreV1().Namespaces().Create(ctx, o, metav1.CreateOptions{})
			case *corev1.ServiceAccount:
				_, err = admin.CoreV1().ServiceAccounts(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
			default:
				t.Fatalf("%s holds a %T", file, obj)
			}
			if err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatalf("%s: %v", file, err)
			}
		}
	}
}

// bootstrapToken makes a token of a group and a kubeconfig with it.
func bootstrapToken(t *testing.T, cp *controlplane.ControlPlane, admin kubernetes.Interface, id, group string) string {
	t.Helper()
	const secret = "0123456789abcdef"
	_, err := admin.CoreV1().Secrets(metav1.NamespaceSystem).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true", "auth-extra-groups": group,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "bootstrap.kubeconfig")
	if err := controlplane.WriteKubeconfig(file, &rest.Config{
		Host: cp.URL(), BearerToken: id + "." + secret,
		TLSClientConfig: rest.TLSClientConfig{CAData: must(os.ReadFile(cp.CAFile()))(t)},
	}); err != nil {
		t.Fatal(err)
	}
	return file
}

// calls makes calls, each of its own kind in its own goroutine, until it is
// stopped, and counts those that failed.
type calls struct {
	t     *testing.T
	wg    sync.WaitGroup
	done  chan struct{}
	made  atomic.Int64
	stops sync.Once
}

func (c *calls) keep(what string, every time.Duration, call func(context.Context) error) {
	c.wg.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			if err := call(c.t.Context()); err != nil {
				c.t.Errorf("%s: %v", what, err)
				return
			}
			c.made.Add(1)
			select {
			case <-c.done:
				return
			case <-ticker.C:
			}
		}
	})
}

func (c *calls) stop() {
	c.stops.Do(func() { close(c.done) })
	c.wg.Wait()
}

func newCalls(t *testing.T) *calls {
	c := &calls{t: t, done: make(chan struct{})}
	t.Cleanup(c.stop)
	return c
}

// approver approves the requests of a user to a signer until the test ends.
func approver(t *testing.T, admin kubernetes.Interface, user, signer string) {
	t.Helper()
	requests := admin.CertificatesV1().CertificateSigningRequests()
	watch := must(requests.Watch(t.Context(), metav1.ListOptions{}))(t)
	t.Cleanup(watch.Stop)
	go func() {
		for event := range watch.ResultChan() {
			csr, ok := event.Object.(*certificatesv1.CertificateSigningRequest)
			if !ok || csr.Spec.Username != user || csr.Spec.SignerName != signer || len(csr.Status.Conditions) > 0 {
				continue
			}
			csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
			}}
			if _, err := requests.UpdateApproval(t.Context(), csr.Name, csr, metav1.UpdateOptions{}); err != nil &&
				t.Context().Err() == nil {
				t.Errorf("approve %s: %v", csr.Name, err)
			}
		}
	}()
}

// seen are the certificates that were in use.
type seen struct {
	mu    sync.Mutex
	order []string
	first time.Time // when the first expired
}

func (s *seen) add(id string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first.IsZero() {
		s.first = until
	}
	if !slices.Contains(s.order, id) {
		s.order = append(s.order, id)
	}
}

func (s *seen) enough(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.order) >= n && time.Now().After(s.first.Add(2*time.Second))
}

func (s *seen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.order)
}

// A node that has only a bootstrap token gets its client certificate when somebody approves
// it, renewals from the real controllers, and its serving certificate, and both rotate until the first
// ones have expired; no call of the node and no connection to it fails.
func TestRealCertificatesThatLiveAMinuteRotateWithNoFailedRequest(t *testing.T) {
	t.Parallel()
	cp, admin := realAdmin(t)
	const node = "rotating"
	apply(t, admin, "bootstrap.yaml")
	approver(t, admin, "system:bootstrap:abcdef", certificatesv1.KubeAPIServerClientKubeletSignerName)
	c := running(t, must(NewClient(t.Context(), ClientConfig{
		NodeName: node, CertDirectory: t.TempDir(),
		BootstrapKubeconfig: bootstrapToken(t, cp, admin, "abcdef", "system:bootstrappers:burstlet"),
	}))(t))
	cfg := c.RESTConfig()
	cfg.QPS = -1
	client := must(kubernetes.NewForConfig(cfg))(t)
	lease := registered(t, client, node)

	approver(t, admin, "system:node:"+node, certificatesv1.KubeletServingSignerName)
	s := must(NewServing(t.Context(), ServingConfig{
		NodeName: node, Client: client, CertDirectory: t.TempDir(),
		Addresses: func() []corev1.NodeAddress {
			return []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}, {Type: corev1.NodeHostName, Address: node},
			}
		},
	}))(t)
	background.Run(t, s.Run)
	issued(t, s, nil)

	var asClient, asServer seen
	work := newCalls(t)
	often := lane.Pick[time.Duration](60, 60, 20) * time.Millisecond
	work.keep("ask who the node is", often, func(ctx context.Context) error {
		review, err := client.AuthenticationV1().SelfSubjectReviews().Create(
			ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{},
		)
		if err != nil {
			return err
		}
		if user := review.Status.UserInfo; user.Username != "system:node:"+node ||
			!slices.Contains(user.Groups, "system:nodes") {
			return fmt.Errorf("the API server knows it as %s of %v", user.Username, user.Groups)
		}
		id := review.Status.UserInfo.Extra["authentication.kubernetes.io/credential-id"]
		asClient.add(strings.Join(id, ""), c.current().Leaf.NotAfter)
		return nil
	})
	work.keep("renew the lease", 2*often, func(ctx context.Context) error {
		now := metav1.NowMicro()
		lease.Spec.RenewTime = &now
		fresh, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Update(ctx, lease, metav1.UpdateOptions{})
		if err == nil {
			lease = fresh
		}
		return err
	})
	work.keep("list pods", often, func(ctx context.Context) error {
		_, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		return err
	})
	address := serveTLS(t, s)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must(os.ReadFile(cp.CAFile()))(t))
	work.keep("connect to the node", often, func(ctx context.Context) error {
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots}}
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		leaf := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
		asServer.add(fmt.Sprintf("%x", sha256.Sum256(leaf.Raw)), leaf.NotAfter)
		return conn.Close()
	})
	wait.For(t, 10*time.Minute, "certificates in use", func() error {
		if t.Failed() {
			t.FailNow()
		}
		if !asClient.enough(3) || !asServer.enough(3) {
			return fmt.Errorf("%d for the client, %d for the server", asClient.count(), asServer.count())
		}
		return nil
	})
	work.stop()
	t.Logf(
		"%d calls; certificates in use: %d for the client, %d for the server", work.made.Load(), asClient.count(),
		asServer.count(),
	)
}

// registered makes the node and its lease, with its own rights.
func registered(t *testing.T, client kubernetes.Interface, name string) *coordinationv1.Lease {
	t.Helper()
	must(client.CoreV1().Nodes().Create(
		t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{},
	))(t)
	return must(client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}, metav1.CreateOptions{}))(t)
}

// serveTLS accepts connections, with the certificate of the moment.
func serveTLS(t *testing.T, s *Serving) string {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	conf := &tls.Config{
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.Certificate(hello.Context()), nil
		},
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(io.Discard, tls.Server(conn, conf)) // shakes hands
				conn.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

// Without automatic approval the node waits until somebody approves its request.
func TestRealBootstrapWaitsForApproval(t *testing.T) {
	t.Parallel()
	cp, admin := realAdmin(t)
	const group = "system:bootstrappers:waits"
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "waits"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: group}},
	}
	must(admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}))(t)
	clients, errs := bootstrap(
		t.Context(), ClientConfig{NodeName: "waits", BootstrapKubeconfig: bootstrapToken(t, cp, admin, "waits0", group)},
	)
	approver(t, admin, "system:bootstrap:waits0", certificatesv1.KubeAPIServerClientKubeletSignerName)
	c := <-clients
	if err := <-errs; err != nil {
		t.Fatal(err)
	}
	running(t, c)
	client := must(kubernetes.NewForConfig(c.RESTConfig()))(t)
	registered(t, client, "waits")
	if _, err := client.CoreV1().Secrets("kube-system").List(
		t.Context(), metav1.ListOptions{},
	); !apierrors.IsForbidden(err) {
		t.Errorf("the Node authorizer lets a node list Secrets: %v", err)
	}
}

// The roles of deploy/rbac grant what they say and nothing more: the ServiceAccount may do
// nothing by itself but take part in the election.
func TestRealRolesGrantNothingMore(t *testing.T) {
	t.Parallel()
	_, admin := realAdmin(t)
	apply(t, admin, "serviceaccount.yaml", "bootstrap.yaml")
	const serviceAccount = "system:serviceaccount:burstlet:burstlet"
	for _, tc := range []struct {
		user, group string
		resource    string // [namespace ]resource[.group][/subresource]
		yes, no     string // verbs
	}{
		{serviceAccount, "", "nodes", "", "get list watch create patch update delete deletecollection proxy"},
		{serviceAccount, "", "kube-node-lease leases.coordination.k8s.io", "", "get create update"},
		{serviceAccount, "", "burstlet leases.coordination.k8s.io", "get create update", "list watch patch delete"},
		{serviceAccount, "", "default leases.coordination.k8s.io", "", "get create update"},
		{serviceAccount, "", "default pods", "", "get list watch delete create update patch"},
		{serviceAccount, "", "default secrets", "", "get list watch create update patch delete"},
		{serviceAccount, "", "default serviceaccounts", "", "get list create impersonate"},
		{serviceAccount, "", "users", "", "impersonate"}, // but those by name: TestRealThefts
		{serviceAccount, "", "groups", "", "impersonate"},
		{serviceAccount, "", "certificatesigningrequests.certificates.k8s.io", "", "create get list watch update"},
		{serviceAccount, "", "clusterroles.rbac.authorization.k8s.io", "", "get list bind escalate create"},

		{
			"system:bootstrap:abcdef", "system:bootstrappers:burstlet", "certificatesigningrequests.certificates.k8s.io",
			"create get list watch", "update delete",
		},
		{
			"system:bootstrap:abcdef", "system:bootstrappers:burstlet",
			"certificatesigningrequests.certificates.k8s.io/nodeclient", "", "create get",
		},
		{
			"system:bootstrap:abcdef", "system:bootstrappers:burstlet",
			"certificatesigningrequests.certificates.k8s.io/approval", "", "update",
		},
		{"system:bootstrap:abcdef", "system:bootstrappers:burstlet", "default pods", "", "get list watch"},
		{
			"system:bootstrap:abcdef", "system:bootstrappers:other", "certificatesigningrequests.certificates.k8s.io", "",
			"create",
		},
		{"system:node:n1", "system:nodes", "certificatesigningrequests.certificates.k8s.io/selfnodeclient", "create", "get"},
		{"system:node:n1", "system:nodes", "certificatesigningrequests.certificates.k8s.io/nodeclient", "", "create"},
		{
			"system:node:n1", "system:nodes", "certificatesigningrequests.certificates.k8s.io", "create get list watch",
			"delete",
		},
	} {
		for _, verb := range strings.Fields(tc.yes) {
			// The API server learns of new roles a moment after they were made.
			wait.For(t, patience, fmt.Sprintf("%s %s may %s %s", tc.user, tc.group, verb, tc.resource), func() error {
				if !allowed(t, admin, tc.user, tc.group, tc.resource, verb) {
					return errors.New("it is refused")
				}
				return nil
			})
		}
		for _, verb := range strings.Fields(tc.no) {
			if allowed(t, admin, tc.user, tc.group, tc.resource, verb) {
				t.Errorf("%s %s %s: %s is allowed", tc.user, tc.group, tc.resource, verb)
			}
		}
	}
}

// allowed asks the API server.
func allowed(t *testing.T, admin kubernetes.Interface, user, group, resource, verb string) bool {
	t.Helper()
	namespace, rest, found := strings.Cut(resource, " ")
	if !found {
		namespace, rest = "", resource
	}
	rest, subresource, _ := strings.Cut(rest, "/")
	name, apiGroup, _ := strings.Cut(rest, ".")
	review := must(admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   user,
			Groups: slices.DeleteFunc([]string{group, "system:authenticated"}, func(g string) bool { return g == "" }),
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Group: apiGroup, Resource: name, Subresource: subresource, Verb: verb,
			},
		},
	}, metav1.CreateOptions{}))(t)
	return review.Status.Allowed
}
