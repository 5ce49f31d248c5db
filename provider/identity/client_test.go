package identity

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// bootstrap runs NewClient; the results come when it has returned.
func bootstrap(ctx context.Context, cfg ClientConfig) (<-chan *Client, <-chan error) {
	clients, errs := make(chan *Client, 1), make(chan error, 1)
	go func() {
		c, err := NewClient(ctx, cfg)
		clients <- c
		errs <- err
	}()
	return clients, errs
}

// running runs a client until the test ends.
func running(t *testing.T, c *Client) *Client {
	t.Helper()
	t.Cleanup(c.transport.CloseIdleConnections)
	background.Run(t, c.Run)
	return c
}

func callAs(t *testing.T, cfg *rest.Config) error {
	t.Helper()
	client := must(kubernetes.NewForConfig(cfg))(t)
	_, err := client.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	return err
}

func TestNodeGetsItsCredentialByBootstrap(t *testing.T) {
	t.Parallel()
	api := newRequestAPI(t)
	dir := filepath.Join(t.TempDir(), "pki")
	reg := prometheus.NewRegistry()
	cfg := ClientConfig{NodeName: "n1", BootstrapKubeconfig: api.kubeconfig("boot"), CertDirectory: dir, Registerer: reg}
	entry, hook := recorded()
	clients, errs := bootstrap(log.WithLogger(t.Context(), entry), cfg)

	csr := api.await(1)
	const want = "kubernetes.io/kube-apiserver-client-kubelet [digital signature client auth] " +
		"CN=system:node:n1,O=system:nodes [] []"
	if got := asked(t, csr); got != want {
		t.Errorf("requested %s", got)
	}
	api.decide(csr.Name, certificatesv1.CertificateApproved, time.Now().Add(time.Hour))
	c := running(t, <-clients)
	if err := <-errs; err != nil {
		t.Fatal(err)
	}
	if err := callAs(t, c.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	if got := api.callers(); !slices.Equal(got, []string{"boot", "system:node:n1"}) {
		t.Errorf("calls by %q", got)
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP kubelet_certificate_manager_client_expiration_renew_errors Counter of certificate renewal errors.
# TYPE kubelet_certificate_manager_client_expiration_renew_errors counter
kubelet_certificate_manager_client_expiration_renew_errors 0
`), "kubelet_certificate_manager_client_expiration_renew_errors"); err != nil {
		t.Error(err)
	}
	if n := testutil.ToFloat64(clientTTL(c.current)); n < 3000 || n > 3600 {
		t.Errorf("%v seconds are left", n)
	}
	if got := lines(hook, logrus.WarnLevel); len(got) != 0 {
		t.Errorf("warnings: %q", got)
	}

	// A restart takes the one on disk and asks nobody.
	cfg.Registerer = nil
	again := running(t, must(NewClient(t.Context(), cfg))(t))
	if again.current().Leaf.SerialNumber.Cmp(c.current().Leaf.SerialNumber) != 0 || len(api.requests) != 1 {
		t.Error("another certificate after a restart")
	}
}

func TestExpiredCredentialIsBootstrappedAgain(t *testing.T) {
	t.Parallel()
	api := newRequestAPI(t)
	dir := t.TempDir()
	cert, key := api.pair(subject("n1"), time.Now().Add(-time.Minute))
	if err := os.WriteFile(filepath.Join(dir, "burstlet-client-current.pem"), append(cert, key...), 0o600); err != nil {
		t.Fatal(err)
	}
	clients, errs := bootstrap(
		t.Context(), ClientConfig{NodeName: "n1", BootstrapKubeconfig: api.kubeconfig("boot"), CertDirectory: dir},
	)
	api.decide(api.await(1).Name, certificatesv1.CertificateApproved, time.Now().Add(time.Hour))
	running(t, <-clients)
	if err := <-errs; err != nil {
		t.Fatal(err)
	}
	if got := api.callers(); !slices.Equal(got, []string{"boot"}) {
		t.Errorf("calls by %q", got)
	}
}

func TestDeniedRequestIsMadeAgain(t *testing.T) {
	t.Parallel()
	api := newRequestAPI(t)
	entry, hook := recorded()
	clients, errs := bootstrap(
		log.WithLogger(t.Context(), entry), ClientConfig{NodeName: "n1", BootstrapKubeconfig: api.kubeconfig("boot")},
	)
	denied := api.await(1).Name
	api.decide(denied, certificatesv1.CertificateDenied, time.Time{})
	next := api.await(2).Name
	api.decide(next, certificatesv1.CertificateApproved, time.Now().Add(time.Hour))
	running(t, <-clients)
	if err := <-errs; err != nil {
		t.Fatal(err)
	}
	if got := lines(hook, logrus.ErrorLevel); len(got) != 1 || !strings.Contains(got[0], "denied") ||
		!strings.Contains(got[0], denied) {
		t.Errorf("errors: %q", got)
	}
}

func TestRotationUsesTheNodesOwnCredentialAndTheBootstrapWhenThatExpired(t *testing.T) {
	t.Parallel()
	api := newRequestAPI(t)
	for user, until := range map[string]time.Time{
		"system:node:n1": time.Now().Add(time.Hour), "boot": time.Now().Add(-time.Minute),
	} {
		api.mu.Lock()
		api.users = nil
		api.mu.Unlock()
		c := &Client{cfg: ClientConfig{BootstrapKubeconfig: api.kubeconfig("old")}}
		server := must(readBootstrap(c.cfg.BootstrapKubeconfig))(t)
		c.server = rest.AnonymousClientConfig(server)
		c.transport = must(newRotating(server))(t)
		c.transport.use(api.tls(subject("n1"), until))
		c.cfg.BootstrapKubeconfig = api.kubeconfig("boot") // read again for each use
		if err := callAs(t, c.config(fallback{own: c.transport, bootstrap: c.bootstrapTransport})); err != nil {
			t.Errorf("%s: %v", user, err)
		}
		if got := api.callers(); !slices.Equal(got, []string{user}) {
			t.Errorf("certificate until %v: calls by %q", until, got)
		}
		c.transport.CloseIdleConnections()
	}
}

func TestBootstrapErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	api := newRequestAPI(t)
	file := api.kubeconfig("boot")
	other := t.TempDir()
	cert, key := api.pair(subject("n2"), time.Now().Add(time.Hour))
	if err := os.WriteFile(filepath.Join(other, "burstlet-client-current.pem"), append(cert, key...), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		cfg  ClientConfig
		want string
	}{
		"no node name":  {ClientConfig{BootstrapKubeconfig: file}, "node name"},
		"no kubeconfig": {ClientConfig{NodeName: "n1"}, SettingBootstrapKubeconfig},
		"no such kubeconfig": {
			ClientConfig{NodeName: "n1", BootstrapKubeconfig: "/nonexistent"}, SettingBootstrapKubeconfig,
		},
		"another node's": {
			ClientConfig{NodeName: "n1", BootstrapKubeconfig: file, CertDirectory: other}, "system:node:n2",
		},
		"a file for a directory": {
			ClientConfig{NodeName: "n1", BootstrapKubeconfig: file, CertDirectory: file}, SettingCertDirectory,
		},
	} {
		if _, err := NewClient(t.Context(), tc.cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestInterruptedBootstrapNamesTheRequest(t *testing.T) {
	t.Parallel()
	api := newRequestAPI(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, errs := bootstrap(ctx, ClientConfig{NodeName: "n1", BootstrapKubeconfig: api.kubeconfig("boot")})
	name := api.await(1).Name
	wait.For(t, patience, "the request is waited for", func() error {
		api.mu.Lock()
		defer api.mu.Unlock()
		if len(api.users) < 2 {
			return fmt.Errorf("users %q", api.users)
		}
		return nil
	})
	cancel()
	if err := <-errs; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), name) {
		t.Errorf("got %v", err)
	}
}

func TestTTLOfNoCertificateIsInfinite(t *testing.T) {
	if n := testutil.ToFloat64(serverTTL(func() *tls.Certificate { return nil })); n < 1e300 {
		t.Errorf("got %v", n)
	}
}
