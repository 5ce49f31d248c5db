package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// The ServiceAccounts of deploy/rbac.
const (
	approverAccount = "system:serviceaccount:burstlet:burstlet-approver"
	nodeAccount     = "system:serviceaccount:burstlet:burstlet"
)

// approver runs "burstlet approve-certificates" with the rights of
// deploy/rbac/approver.yaml until the test ends, and returns its health port.
func (s *stage) approver(f approveFlags) int {
	s.t.Helper()
	_, err := s.admin.CoreV1().Namespaces().Create(
		s.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "burstlet"}}, metav1.CreateOptions{},
	)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		s.t.Fatal(err)
	}
	s.apply("approver.yaml")
	access := s.as(approverAccount)
	f.healthzBindAddress, f.healthzPort = "127.0.0.1", ports.Free(s.t)
	background.Run(s.t, func(ctx context.Context) error { return approveCertificates(ctx, access, f) })
	wait.For(s.t, patience, "the approver is ready", func() error {
		text, err := fetch(f.healthzPort, "/readyz")
		if err == nil && text != "[+]approver ok\n" {
			err = errors.New(text)
		}
		return err
	})
	return f.healthzPort
}

// apply makes the objects of a file in deploy/rbac.
func (s *stage) apply(file string) {
	s.t.Helper()
	if out, err := s.cp.Command(s.t.Context(), "apply", "-f", "../../deploy/rbac/"+file).CombinedOutput(); err != nil {
		s.t.Fatalf("apply %s: %v\n%s", file, err, out)
	}
}

// as is the access of a ServiceAccount.
func (s *stage) as(account string) *rest.Config {
	access := rest.CopyConfig(s.cp.AdminConfig())
	access.Impersonate = rest.ImpersonationConfig{
		UserName: account, Groups: []string{"system:serviceaccounts", "system:authenticated"},
	}
	return access
}

// node is the access of a node.
func (s *stage) node(name string) *rest.Config {
	s.t.Helper()
	access, err := s.cp.NodeCredential(name)
	if err != nil {
		s.t.Fatal(err)
	}
	return access
}

func fetch(port int, path string) (string, error) {
	response, err := http.Get(local("http", port, path))
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return string(body), err
}

// certified is nil when the port serves with a certificate of the cluster's for
// the node.
func (s *stage) certified(node string, port int) error {
	pem, err := os.ReadFile(s.cp.CAFile())
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{RootCAs: pool})
	if err != nil {
		return err
	}
	defer conn.Close()
	if cn := conn.ConnectionState().PeerCertificates[0].Subject.CommonName; cn != "system:node:"+node {
		return fmt.Errorf("it is %s's", cn)
	}
	return nil
}

// request asks for a node's certificate; change makes it another request than
// the node's own.
func (s *stage) request(
	who *rest.Config, node string, change func(*x509.CertificateRequest, *certificatesv1.CertificateSigningRequestSpec),
) string {
	s.t.Helper()
	template := &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
		DNSNames: []string{node}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeletServingSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}
	change(template, &csr.Spec)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		s.t.Fatal(err)
	}
	csr.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	client, err := kubernetes.NewForConfig(who)
	if err != nil {
		s.t.Fatal(err)
	}
	made, err := client.CertificatesV1().CertificateSigningRequests().Create(s.t.Context(), csr, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return made.Name
}

// issued is nil for a request that was approved and signed, errNotYet for one that
// nobody decided.
func (s *stage) issued(csr string) error {
	found, err := s.admin.CertificatesV1().CertificateSigningRequests().Get(s.t.Context(), csr, metav1.GetOptions{})
	switch {
	case err != nil:
		return err
	case len(found.Status.Conditions) == 0:
		return errNotYet
	case len(found.Status.Certificate) == 0:
		return fmt.Errorf("conditions %v and no certificate", found.Status.Conditions)
	}
	return nil
}

// own leaves a request as it is.
func own(*x509.CertificateRequest, *certificatesv1.CertificateSigningRequestSpec) {}

const approvedServer = `
node: {name: %s, internalIP: 127.0.0.1}
kubeconfig: %s
certDirectory: %s
backend: {type: sim, sim: {socket: "%%SOCKET%%"}}
kubeletAPI: {address: 127.0.0.1, port: %d, serverTLSBootstrap: true, clientCAFile: %%CA%%}
`

// A node has its serving certificate by itself where the approver runs. What it, or
// another user, asks for beyond its own name and address stays Pending.
func TestRealApproverApprovesANodesOwnAndLeavesForgeriesAlone(t *testing.T) {
	s := newStage(t)
	const name = "approved"
	port := ports.Free(t)
	health := s.approver(
		approveFlags{nodes: []string{name}, networks: []string{"127.0.0.0/8"}, requesters: []string{nodeAccount}},
	)
	s.mayRequest("burstlet", "burstlet")
	s.run(s.configure(fmt.Sprintf(approvedServer, name, s.nodeKubeconfig(name), t.TempDir(), port)))
	wait.For(t, patience, "the API has a certificate of the cluster", func() error { return s.certified(name, port) })

	forged := map[string]string{}
	forge := func(
		what string, who *rest.Config, change func(*x509.CertificateRequest, *certificatesv1.CertificateSigningRequestSpec),
	) {
		forged[what] = s.request(who, name, change)
	}
	node := s.node(name)
	forge("the API server's name", node, func(
		r *x509.CertificateRequest, _ *certificatesv1.CertificateSigningRequestSpec,
	) {
		r.DNSNames = append(r.DNSNames, "kubernetes.default.svc")
	})
	forge("the API server's address", node, func(
		r *x509.CertificateRequest, _ *certificatesv1.CertificateSigningRequestSpec,
	) {
		r.IPAddresses = append(r.IPAddresses, net.IPv4(10, 0, 0, 1))
	})
	forge("client auth", node, func(_ *x509.CertificateRequest, spec *certificatesv1.CertificateSigningRequestSpec) {
		spec.Usages = append(spec.Usages, certificatesv1.UsageClientAuth)
	})
	// A node itself is held to its own name by NodeRestriction already.
	forge("a node that is not listed", s.node("stranger"), func(
		r *x509.CertificateRequest, _ *certificatesv1.CertificateSigningRequestSpec,
	) {
		r.Subject.CommonName, r.DNSNames = "system:node:stranger", []string{"stranger"}
	})
	forge("another node's name by who may ask for this one", s.as(nodeAccount), func(
		r *x509.CertificateRequest, _ *certificatesv1.CertificateSigningRequestSpec,
	) {
		r.Subject.CommonName, r.DNSNames = "system:node:other", []string{"other"}
	})
	forge("an administrator asks", s.cp.AdminConfig(), own)
	byAccount := s.request(s.as(nodeAccount), name, own)
	honest := s.request(node, name, own)
	wait.For(
		t, patience, "the honest request of the ServiceAccount is approved", func() error { return s.issued(byAccount) },
	)
	wait.For(t, patience, "the honest request that came last is approved", func() error { return s.issued(honest) })
	for what, csr := range forged {
		if err := s.issued(csr); !errors.Is(err, errNotYet) {
			t.Errorf("%s: want it Pending, got %v", what, err)
		}
	}
	page, err := fetch(health, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`burstlet_approver_requests_total{reason="ForeignName",result="left"} 1`,
		`burstlet_approver_requests_total{reason="ForeignAddress",result="left"} 1`,
		`burstlet_approver_requests_total{reason="BadUsages",result="left"} 1`,
		`burstlet_approver_requests_total{reason="NotANode",result="left"} 1`,
		fmt.Sprintf("burstlet_approver_waiting_requests %d", len(forged)),
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("metrics lack %s:\n%s", line, page)
		}
	}
}

// mayRequest lets a ServiceAccount request certificates.
func (s *stage) mayRequest(namespace, account string) {
	s.t.Helper()
	rbac := s.admin.RbacV1()
	_, err := rbac.ClusterRoleBindings().Create(s.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "requests"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: namespace}},
	}, metav1.CreateOptions{})
	s.must(err)
}

// A node may write any address into its own status. The pod that burstlet runs in
// says which is true.
func TestRealApproverWaitsForThePodThatHasTheAddress(t *testing.T) {
	s := newStage(t)
	const name = "housed"
	port := ports.Free(t)
	s.approver(
		approveFlags{
			nodes: []string{name}, podSelector: "app=housed", podNamespace: "burstlet", podServiceAccount: "default",
		},
	)
	s.run(s.configure(fmt.Sprintf(approvedServer, name, s.nodeKubeconfig(name), t.TempDir(), port)))
	s.ready(name)
	early := s.request(s.node(name), name, own)

	no := false
	pods := s.admin.CoreV1().Pods("burstlet")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "burstlet-0", Labels: map[string]string{"app": "housed"}},
		Spec: corev1.PodSpec{
			NodeName: "real", AutomountServiceAccountToken: &no,
			Containers: []corev1.Container{{Name: "c", Image: "burstlet"}},
		},
	}
	wait.For(t, patience, "make the pod", func() (err error) { // once the ServiceAccount is there
		if err = s.issued(early); !errors.Is(err, errNotYet) {
			t.Fatalf("the request without a pod: %v", err)
		}
		pod, err = pods.Create(t.Context(), pod, metav1.CreateOptions{})
		return err
	})
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "127.0.0.1", PodIPs: []corev1.PodIP{{IP: "127.0.0.1"}}}
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, patience, "the API has a certificate of the cluster", func() error { return s.certified(name, port) })
	wait.For(t, patience, "the early request is approved too", func() error { return s.issued(early) })
}

// The approver's rights end where its work does.
func TestRealApproverRights(t *testing.T) {
	s := newStage(t)
	s.approver(approveFlags{nodes: []string{"any"}, networks: []string{"127.0.0.0/8"}})
	const csrs, serving = "certificatesigningrequests", "kubernetes.io/kubelet-serving"
	for _, tc := range []struct {
		group, resource, name, namespace string
		yes, no                          string // verbs
	}{
		{group: "certificates.k8s.io", resource: csrs, yes: "get list watch", no: "create update patch delete"},
		{group: "certificates.k8s.io", resource: csrs + "/approval", yes: "update", no: "patch"},
		{group: "certificates.k8s.io", resource: csrs + "/status", no: "update patch"},
		{group: "certificates.k8s.io", resource: "signers", name: serving, yes: "approve", no: "sign"},
		{
			group: "certificates.k8s.io", resource: "signers", name: "kubernetes.io/kube-apiserver-client-kubelet",
			no: "approve sign",
		},
		{group: "certificates.k8s.io", resource: "signers", name: "kubernetes.io/kube-apiserver-client", no: "approve sign"},
		{resource: "nodes", yes: "get list watch", no: "create update patch delete"},
		{resource: "pods", namespace: "burstlet", yes: "get list watch", no: "create update patch delete"},
		{resource: "pods", namespace: "default", no: "get list watch"},
		{resource: "secrets", namespace: "burstlet", no: "get list watch"},
	} {
		resource, subresource, _ := strings.Cut(tc.resource, "/")
		allowed := func(verb string) bool {
			asked := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: approverAccount, Groups: []string{"system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Group: tc.group, Resource: resource, Subresource: subresource,
					Name: tc.name, Namespace: tc.namespace, Verb: verb,
				},
			}}
			reviews := s.admin.AuthorizationV1().SubjectAccessReviews()
			review, err := reviews.Create(t.Context(), asked, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return review.Status.Allowed
		}
		for verb := range strings.FieldsSeq(tc.yes) {
			wait.For(t, patience, fmt.Sprintf("%+v: %s", tc, verb), func() error {
				if !allowed(verb) {
					return errNotYet
				}
				return nil
			})
		}
		for verb := range strings.FieldsSeq(tc.no) {
			if allowed(verb) {
				t.Errorf("%+v: %s is allowed", tc, verb)
			}
		}
	}
}

func TestApproveFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no word for addresses": {nil, "flag --allowed-ips or --pod-selector is required"},
		"no network":            {[]string{"--allowed-ips", "10.0.0.1"}, `"10.0.0.1" is not a network`},
		"no nodes":              {[]string{"--allowed-ips", "10.0.0.0/8"}, "flag --nodes is required"},
		"a selector without account": {
			[]string{"--nodes", "n", "--pod-selector", "a=b"}, "flag --pod-service-account is required",
		},
		"a selector without namespace": {
			[]string{"--nodes", "n", "--pod-selector", "a=b", "--pod-service-account", "b"}, "flag --pod-namespace is required",
		},
		"a selector that is none": {
			[]string{"--nodes", "n", "--pod-selector", "a in", "--pod-namespace", "x", "--pod-service-account", "b"},
			"selector of pods",
		},
		"a format that is none": {[]string{"--log-format", "xml"}, `format "xml" is not text or json`},
	} {
		t.Run(name, func(t *testing.T) {
			file := t.TempDir() + "/kubeconfig"
			if err := os.WriteFile(file, []byte(nowhere), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := newRootCommand()
			cmd.SetArgs(append([]string{"approve-certificates", "--kubeconfig", file}, tc.args...))
			cmd.SetOut(io.Discard)
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
	flag := newApproveCommand().Flag("healthz-bind-address")
	if defaults := config.Default(); flag.DefValue != defaults.HealthzBindAddress {
		t.Error("the health port has another default than that of run")
	}
}

// nowhere is a kubeconfig of a cluster that is not there.
const nowhere = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`

// Who holds a bootstrap token becomes the nodes that the approver lists, and none else:
// that of the control plane, say.
func TestRealBootstrapTokenIsForListedNodesAlone(t *testing.T) {
	s := newStage(t)
	const name, group = "bootstrapped", "system:bootstrappers:burstlet"
	s.approver(approveFlags{nodes: []string{name}, networks: []string{"127.0.0.0/8"}, bootstrapGroups: []string{group}})
	s.apply("bootstrap.yaml")
	t.Cleanup(func() { // the cluster is that of other tests, too
		if err := s.admin.RbacV1().ClusterRoleBindings().Delete(
			context.Background(), "burstlet:bootstrap-approval", metav1.DeleteOptions{},
		); err != nil {
			t.Error(err)
		}
	})
	token := rest.CopyConfig(s.cp.AdminConfig())
	token.Impersonate = rest.ImpersonationConfig{
		UserName: "system:bootstrap:abcdef", Groups: []string{group, "system:bootstrappers", "system:authenticated"},
	}
	ask := func(node string) string {
		return s.request(token, node, func(r *x509.CertificateRequest, spec *certificatesv1.CertificateSigningRequestSpec) {
			r.Subject.CommonName, r.DNSNames, r.IPAddresses = "system:node:"+node, nil, nil
			spec.SignerName, spec.Usages[1] = certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.UsageClientAuth
		})
	}
	others, own := ask("control-plane-1"), ask(name)
	wait.For(t, patience, "the node has its certificate", func() error { return s.issued(own) })
	// Whatever approves by itself has had the time for the other, which came first.
	if err := s.issued(others); !errors.Is(err, errNotYet) {
		t.Errorf("a node of the cluster's that is not burstlet's: want it Pending, got %v", err)
	}
}
