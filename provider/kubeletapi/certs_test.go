package kubeletapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestServingCertificateIsReadAgain(t *testing.T) {
	authority := newCA(t)
	dir := t.TempDir()
	write := func(cn string) {
		_, cert, key := authority.issue(t, cn, x509.ExtKeyUsageServerAuth)
		for name, data := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	f := &fileCert{certFile: filepath.Join(dir, "tls.crt"), keyFile: filepath.Join(dir, "tls.key")}
	now := time.Now()
	name := func() string {
		t.Helper()
		cert, err := f.get(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		return cert.Leaf.Subject.CommonName
	}
	if _, err := f.get(t.Context(), now); err == nil || !strings.Contains(err.Error(), SettingCertFile) {
		t.Fatalf("without files: %v", err)
	}
	write("first")
	if got := name(); got != "first" {
		t.Fatalf("got %s", got)
	}
	write("second-and-longer")
	if got := name(); got != "first" {
		t.Errorf("looked at the files again at once: %s", got)
	}
	now = now.Add(2 * time.Second)
	if got := name(); got != "second-and-longer" {
		t.Errorf("after a change: %s", got)
	}
	if err := os.WriteFile(f.keyFile, []byte("half a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Second)
	if got := name(); got != "second-and-longer" {
		t.Errorf("with broken files: %s", got)
	}
}

func TestSelfSigned(t *testing.T) {
	s := &selfSigned{name: "n1", ips: []net.IP{net.ParseIP("10.1.2.3")}}
	now := time.Now()
	first, err := s.get(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(first.Leaf)
	for _, host := range []string{"n1", "10.1.2.3"} {
		if _, err := first.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if again, err := s.get(t.Context(), now.Add(300*24*time.Hour)); err != nil || again != first {
		t.Errorf("made again too early (%v)", err)
	}
	if again, err := s.get(t.Context(), now.Add(350*24*time.Hour)); err != nil || again == first {
		t.Errorf("not made again before its end (%v)", err)
	}
}

func noCertificate(context.Context) *tls.Certificate { return nil }

// trusting dials a server by a name that an authority vouches for.
func (s *served) trusting(authority *ca, name string) func() error {
	roots := x509.NewCertPool()
	roots.AddCert(authority.cert)
	return func() error {
		conn, err := tls.Dial("tcp", s.server.listener.Addr().String(), &tls.Config{RootCAs: roots, ServerName: name})
		if err == nil {
			conn.Close()
		}
		return err
	}
}

func TestClientsAreTurnedAwayUntilTheClusterHasIssuedACertificate(t *testing.T) {
	var current atomic.Pointer[tls.Certificate]
	s := serve(t, &fakeEngine{}, &reviews{}, func(c *Config) {
		c.SelfSigned, c.Certificate = false, func(context.Context) *tls.Certificate { return current.Load() }
	})
	authority := newCA(t)
	dial := s.trusting(authority, "n1")
	if err := dial(); err == nil {
		t.Fatal("served without a certificate")
	}
	for range 2 { // the first and one that replaces it
		cert, _, _ := authority.issue(t, "n1", x509.ExtKeyUsageServerAuth)
		current.Store(&cert)
		if err := dial(); err != nil {
			t.Errorf("with a certificate: %v", err)
		}
	}
	current.Store(nil)
	if err := dial(); err == nil {
		t.Error("served with an expired certificate")
	}
}

// A node's address stands in the API before its certificate can be approved: who calls in
// between is answered a moment later, and not turned away.
func TestClientsWaitForTheFirstCertificate(t *testing.T) {
	asked, issued := make(chan struct{}), make(chan *tls.Certificate, 1)
	s := serve(t, &fakeEngine{}, &reviews{}, func(c *Config) {
		c.SelfSigned, c.Certificate = false, func(ctx context.Context) *tls.Certificate {
			close(asked)
			select {
			case cert := <-issued:
				return cert
			case <-ctx.Done():
				return nil
			}
		}
	})
	authority := newCA(t)
	cert, _, _ := authority.issue(t, "n1", x509.ExtKeyUsageServerAuth)
	answered := make(chan error, 1)
	go func() { answered <- s.trusting(authority, "n1")() }()
	<-asked
	issued <- &cert
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// A certificate that nobody approves is waited for once: each client after that is told at
// once, until there was one again.
func TestNoClientWaitsAgainForACertificateThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var have *tls.Certificate
		g := &givenCert{certificate: func(ctx context.Context) *tls.Certificate {
			if have == nil {
				<-ctx.Done()
			}
			return have
		}}
		for i, step := range []struct {
			cert *tls.Certificate
			wait time.Duration
		}{
			{nil, firstCertificate}, {nil, 0}, {nil, 0}, {&tls.Certificate{}, 0}, {nil, firstCertificate}, {nil, 0},
		} {
			have = step.cert
			started := time.Now()
			got, err := g.get(t.Context(), started)
			if waited := time.Since(started); waited != step.wait || got != have || (err == nil) != (have != nil) {
				t.Errorf("client %d waited %v, want %v: got %v, %v", i, waited, step.wait, got, err)
			}
		}
	})
}

// The end of the server is no reason to tell later clients that nobody approves.
func TestAHandshakeEndsWithTheServer(t *testing.T) {
	g := &givenCert{certificate: func(ctx context.Context) *tls.Certificate { <-ctx.Done(); return nil }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.get(ctx, time.Now()); !errors.Is(err, context.Canceled) || g.missing.Load() {
		t.Errorf("got %v, missing %v", err, g.missing.Load())
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	s := serve(t, &fakeEngine{}, &reviews{}, nil)
	dial := func(cfg *tls.Config) error {
		cfg.InsecureSkipVerify = true
		conn, err := tls.Dial("tcp", s.server.listener.Addr().String(), cfg)
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err := dial(&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
	if err := dial(&tls.Config{
		MaxVersion:   tls.VersionTLS12,
		CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA},
	}); err == nil {
		t.Error("a CBC cipher was accepted")
	}
	if err := dial(&tls.Config{MaxVersion: tls.VersionTLS12}); err != nil {
		t.Errorf("TLS 1.2: %v", err)
	}
}

func TestPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s, err := New(Config{
		Options:  Options{Address: taken.Addr().String(), SelfSigned: true},
		NodeName: "n1", Client: fake.NewClientset(), Engine: &fakeEngine{},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Listen(t.Context())
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) || !strings.Contains(err.Error(), SettingPort) {
		t.Errorf("got %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, tc := range []struct {
		opts Options
		want string
	}{
		{Options{}, "no serving certificate"},
		{Options{SelfSigned: true, CertFile: "a", KeyFile: "b"}, SettingSelfSigned},
		{Options{CertFile: "a"}, SettingKeyFile},
		{Options{SelfSigned: true, Address: "10250"}, SettingAddress},
		{Options{SelfSigned: true, Certificate: noCertificate}, SettingSelfSigned},
		{Options{CertFile: "a", KeyFile: "b", Certificate: noCertificate}, SettingCertFile},
		{Options{SelfSigned: true}, ""},
		{Options{Certificate: noCertificate}, ""},
	} {
		_, err := New(Config{Options: tc.opts, NodeName: "n", Client: fake.NewClientset(), Engine: &fakeEngine{}})
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%+v: got %v, want %q", tc.opts, err, tc.want)
		}
	}
}

func TestClientCAOfTheCluster(t *testing.T) {
	authority := newCA(t)
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: clusterCANamespace, Name: clusterCAName},
		Data:       map[string]string{clusterCAKey: string(authority.pem)},
	}
	ca := newClientCA("", fake.NewClientset(cm))
	if _, ok := ca.VerifyOptions(); ok {
		t.Error("options before the CA was read")
	}
	if err := ca.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	opts, ok := ca.VerifyOptions()
	cert, _, _ := authority.issue(t, "u", x509.ExtKeyUsageClientAuth)
	if _, err := cert.Leaf.Verify(opts); !ok || err != nil {
		t.Errorf("verify: %v", err)
	}
	if string(ca.CurrentCABundleContent()) != string(authority.pem) {
		t.Error("other content")
	}
}

// mayNotRead is a client whose user may not read the cluster's client CA.
func mayNotRead() *fake.Clientset {
	forbidden := fake.NewClientset()
	forbidden.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(
			schema.GroupResource{Resource: "configmaps"}, clusterCAName, errors.New("no"),
		)
	})
	return forbidden
}

// Of the node and of whom it runs in, whoever may reads the CA.
func TestClientCAByWhoeverMay(t *testing.T) {
	may := fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: clusterCANamespace, Name: clusterCAName},
		Data:       map[string]string{clusterCAKey: string(newCA(t).pem)},
	})
	for name, cfg := range map[string]Config{
		"the pod":             {Client: mayNotRead(), Options: Options{ClientCAReader: may}},
		"the node's user":     {Client: may, Options: Options{ClientCAReader: mayNotRead()}},
		"the node's user too": {Client: may},
	} {
		if err := newClientCA("", cfg.caReaders()...).load(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := newClientCA("", fake.NewClientset(), may).load(t.Context()); err == nil {
		t.Error("a cluster without the CA is asked again as another user")
	}
}

func TestClientCAErrorsSayWhatToDo(t *testing.T) {
	for name, ca := range map[string]*clientCA{
		"a node may not read the ConfigMap": newClientCA("", mayNotRead(), mayNotRead()),
		"no ConfigMap":                      newClientCA("", fake.NewClientset()),
		"no file":                           newClientCA("/nonexistent/ca.crt", nil),
	} {
		if err := ca.load(t.Context()); err == nil || !strings.Contains(err.Error(), SettingClientCAFile) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := newClientCA(writeFile(t, "ca.crt", []byte("nonsense")), nil).load(t.Context()); err == nil {
		t.Error("nonsense was taken for a CA")
	}
}

func TestRunFailsWithoutClientCA(t *testing.T) {
	s, err := New(Config{
		Options:  Options{Address: "127.0.0.1:0", SelfSigned: true, ClientCAFile: "/nonexistent"},
		NodeName: "n1", Client: fake.NewClientset(), Engine: &fakeEngine{},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	addr := s.listener.Addr().String()
	if err := s.Run(context.Background()); err == nil {
		t.Fatal("no error")
	}
	again, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatalf("the port stays taken: %v", err)
	}
	again.Close()
}
