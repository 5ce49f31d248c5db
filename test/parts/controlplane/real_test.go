package controlplane_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// patience bounds each step, on a machine that builds other packages meanwhile.
const patience = 3 * time.Minute

var plane cptest.Shared

func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }

func client(t *testing.T, cfg *rest.Config) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func nodeClient(t *testing.T, cp *controlplane.ControlPlane, node string) kubernetes.Interface {
	t.Helper()
	cfg, err := cp.NodeCredential(node)
	if err != nil {
		t.Fatal(err)
	}
	return client(t, cfg)
}

// must fails the test on an error and returns the value otherwise.
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// newNamespace makes a namespace that pods can be created in.
func newNamespace(t *testing.T, admin kubernetes.Interface) string {
	t.Helper()
	ns := must(admin.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{}))(t)
	wait.For(t, patience, "the default service account of "+ns.Name, func() error {
		_, err := admin.CoreV1().ServiceAccounts(ns.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	return ns.Name
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.test/image"}}},
	}
}

func TestPodWithoutNodeStaysPending(t *testing.T) {
	admin := client(t, plane.Get(t).AdminConfig())
	ns := newNamespace(t, admin)
	must(admin.CoreV1().Pods(ns).Create(t.Context(), pod("homeless"), metav1.CreateOptions{}))(t)
	wait.Pod(t, admin, ns, "homeless", patience, "found to have no node", func(got *corev1.Pod) error {
		for _, c := range got.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable &&
				got.Status.Phase == corev1.PodPending {
				return nil
			}
		}
		return errors.New("the scheduler has not looked at the pod")
	})
}

func TestNodeIsHeldToItself(t *testing.T) {
	cp := plane.Get(t)
	admin := client(t, cp.AdminConfig())
	ns := newNamespace(t, admin)
	ctx := t.Context()
	for _, name := range []string{"bound", "other"} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
		must(admin.CoreV1().Secrets(ns).Create(ctx, secret, metav1.CreateOptions{}))(t)
	}
	a := nodeClient(t, cp, "node-a")
	for _, name := range []string{"node-a", "node-b"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		must(nodeClient(t, cp, name).CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}))(t)
		t.Cleanup(func() {
			if err := admin.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	p := pod("bound")
	p.Spec.NodeName = "node-a"
	p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "bound"},
	}}}
	must(admin.CoreV1().Pods(ns).Create(ctx, p, metav1.CreateOptions{}))(t)

	getSecret := func(ctx context.Context, name string) error {
		_, err := a.CoreV1().Secrets(ns).Get(ctx, name, metav1.GetOptions{})
		return err
	}
	patch := []byte(`{"metadata":{"annotations":{"x":"y"}}}`)
	patchNode := func(name string) error {
		_, err := a.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	labelNode := func(label string) error {
		body := []byte(`{"metadata":{"labels":{"` + label + `":"x"}}}`)
		_, err := a.CoreV1().Nodes().Patch(ctx, "node-a", types.MergePatchType, body, metav1.PatchOptions{})
		return err
	}
	// The authorizer learns of the binding a moment later.
	wait.For(t, patience, "the Secret", func() error { return getSecret(t.Context(), "bound") })
	for what, err := range map[string]error{
		"patch its own node": patchNode("node-a"),
		"set a plain label":  labelNode("example.test/x"),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range map[string]error{
		"read a secret no pod of its node uses": getSecret(ctx, "other"),
		"patch another node":                    patchNode("node-b"),
		"set a label of the isolation prefix":   labelNode("node-restriction.kubernetes.io/x"),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: got %v, want forbidden", what, err)
		}
	}
}

func TestServiceAccountTokenIsAccepted(t *testing.T) {
	cp := plane.Get(t)
	admin := client(t, cp.AdminConfig())
	ns := newNamespace(t, admin)
	token := must(admin.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{}))(t)
	cfg := rest.AnonymousClientConfig(cp.AdminConfig())
	cfg.BearerToken = token.Status.Token
	who := must(client(t, cfg).AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}))(t)
	if got, want := who.Status.UserInfo.Username, "system:serviceaccount:"+ns+":default"; got != want {
		t.Errorf("got user %q, want %q", got, want)
	}
}

func TestAPIServerMayUseKubelets(t *testing.T) {
	admin := client(t, plane.Get(t).AdminConfig())
	for user, want := range map[string]bool{"kube-apiserver-kubelet-client": true, "someone": false} {
		asked := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "create", Resource: "nodes", Subresource: "proxy", Name: "n",
			},
		}}
		reviews := admin.AuthorizationV1().SubjectAccessReviews()
		review := must(reviews.Create(t.Context(), asked, metav1.CreateOptions{}))(t)
		if review.Status.Allowed != want {
			t.Errorf("%s: allowed is %v", user, review.Status.Allowed)
		}
	}
}

func TestApprovedRequestIsSigned(t *testing.T) {
	cp := plane.Get(t)
	admin := client(t, cp.AdminConfig())
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := must(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:csr", Organization: []string{"system:nodes"}},
		DNSNames: []string{"csr"},
	}, key))(t)
	api := admin.CertificatesV1().CertificateSigningRequests()
	csr := must(nodeClient(t, cp, "csr").CertificatesV1().CertificateSigningRequests().Create(t.Context(),
		&certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
				SignerName: certificatesv1.KubeletServingSignerName,
				Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
			},
		}, metav1.CreateOptions{}))(t)
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
	})
	must(api.UpdateApproval(t.Context(), csr.Name, csr, metav1.UpdateOptions{}))(t)
	wait.For(t, patience, "the certificate", func() error {
		got, err := api.Get(t.Context(), csr.Name, metav1.GetOptions{})
		if err == nil && len(got.Status.Certificate) == 0 {
			err = fmt.Errorf("not signed: %+v", got.Status)
		}
		return err
	})
}

func TestKubectl(t *testing.T) {
	cp := plane.Get(t)
	out, err := exec.CommandContext(
		t.Context(), cp.Kubectl(), "--kubeconfig="+cp.KubeconfigPath(), "get", "namespaces", "-o", "name",
	).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "namespace/default") {
		t.Errorf("got %s, %v", out, err)
	}
}

// bare is a control plane that starts fast.
func bare() controlplane.Config {
	return controlplane.Config{WithoutControllerManager: true, WithoutScheduler: true}
}

func TestAPIServerRestartAndStop(t *testing.T) {
	cp := cptest.New(t, bare())
	admin := client(t, cp.AdminConfig())
	ctx := t.Context()
	url, pids := cp.URL(), cp.PIDs()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	must(admin.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}))(t)

	for range 2 { // a second stop does nothing
		if err := cp.StopAPIServer(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.CoreV1().Namespaces().Get(ctx, "kept", metav1.GetOptions{}); err == nil {
		t.Error("a stopped API server answers")
	}
	if err := cp.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	must(admin.CoreV1().Namespaces().Get(ctx, "kept", metav1.GetOptions{}))(t)
	if cp.URL() != url {
		t.Errorf("URL was %s and is %s", url, cp.URL())
	}
	if err := cp.StartAPIServer(ctx); err == nil {
		t.Error("started twice")
	}
	again := cp.PIDs()
	if again["kube-apiserver"] == pids["kube-apiserver"] || again["etcd"] != pids["etcd"] {
		t.Errorf("processes were %v and are %v", pids, again)
	}

	if err := cp.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	for name, pid := range again {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left behind: %v", name, err)
		}
	}
	if _, err := os.Stat(cp.StateDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("state directory is left behind: %v", err)
	}
	if got := cp.PIDs(); len(got) != 0 {
		t.Errorf("PIDs after Stop: %v", got)
	}
	if err := cp.StartAPIServer(ctx); err == nil {
		t.Error("started an API server without etcd")
	}
}

func TestWaitNamesTheProcessThatEnded(t *testing.T) {
	cp := cptest.New(t, bare())
	proc := must(os.FindProcess(cp.PIDs()["kube-apiserver"]))(t)
	if err := proc.Kill(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := cp.Wait(ctx); err == nil ||
		!strings.Contains(err.Error(), "kube-apiserver ended by itself: signal: killed") {
		t.Errorf("got %v", err)
	}
}

func TestFailedStartSaysWhyAndLeavesNothing(t *testing.T) {
	plane.Get(t) // skips when nothing is built
	cfg := bare()
	cfg.StateDir = t.TempDir() + "/s"
	cfg.APIServerArgs = []string{"--no-such-flag"}
	var err error
	if cfg.Binaries, err = controlplane.FindBinaries(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	_, err = controlplane.Start(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "kube-apiserver ended") ||
		!strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("got %v, want the end of the log", err)
	}
	if _, err := os.Stat(cfg.StateDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("state directory is left behind: %v", err)
	}
}
