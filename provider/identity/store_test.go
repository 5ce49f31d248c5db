package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/certificate"
)

func openTestStore(t *testing.T, dir string) (*store, *logtest.Hook) {
	t.Helper()
	entry, hook := recorded()
	s := must(openStore(dir, "burstlet-client", "system:node:n1", &narrator{entry: entry}))(t)
	s.updated = func(*tls.Certificate) {}
	return s, hook
}

func isNone(err error) bool {
	var none *certificate.NoCertKeyError
	return errors.As(err, &none)
}

func TestCertificateIsKeptInOneFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	a := newAuthority(t)
	s, _ := openTestStore(t, dir)
	if _, err := s.Current(); !isNone(err) {
		t.Fatalf("empty directory: %v", err)
	}
	var last []byte
	for range 2 { // the second replaces the first
		cert := must(s.Update(a.pair(subject("n1"), time.Now().Add(time.Hour))))(t)
		last = cert.Certificate[0]
	}
	again, _ := openTestStore(t, dir)
	if cert := must(again.Current())(t); string(cert.Certificate[0]) != string(last) {
		t.Error("another certificate after a restart")
	}
	files := must(os.ReadDir(dir))(t)
	if len(files) != 1 || files[0].Name() != "burstlet-client-current.pem" {
		t.Fatalf("files: %v", files)
	}
	if info := must(files[0].Info())(t); info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

// The manager's goroutines outlive its Stop: one wrote to a directory that was removed.
func TestNoCertificateIsKeptOnceRunHasEnded(t *testing.T) {
	t.Parallel()
	api := newRequestAPI(t)
	dir := t.TempDir()
	cert, key := api.pair(subject("n1"), time.Now().Add(time.Hour))
	if err := os.WriteFile(filepath.Join(dir, "burstlet-client-current.pem"), append(cert, key...), 0o600); err != nil {
		t.Fatal(err)
	}
	client := must(NewClient(
		t.Context(), ClientConfig{NodeName: "n1", BootstrapKubeconfig: api.kubeconfig("boot"), CertDirectory: dir},
	))(t)
	serving := must(NewServing(t.Context(), ServingConfig{
		NodeName: "n1", CertDirectory: dir, Client: must(kubernetes.NewForConfig(client.RESTConfig()))(t),
		Addresses: func() []corev1.NodeAddress { return nil },
	}))(t)
	over, end := context.WithCancel(t.Context())
	end()
	for name, run := range map[string]struct {
		until func(context.Context) error
		into  *store
	}{"client": {client.Run, client.store}, "serving": {serving.Run, serving.store}} {
		if err := run.until(over); err != nil {
			t.Fatal(err)
		}
		if _, err := run.into.Update(api.pair(subject("n1"), time.Now().Add(2*time.Hour))); err == nil {
			t.Errorf("%s: a certificate was taken", name)
		}
	}
	files := must(os.ReadDir(dir))(t)
	if len(files) != 1 ||
		string(must(os.ReadFile(filepath.Join(dir, files[0].Name())))(t)) != string(append(cert, key...)) {
		t.Errorf("files: %v", files)
	}
}

func TestDamagedCertificateIsRequestedAgain(t *testing.T) {
	s, hook := openTestStore(t, t.TempDir())
	if err := os.WriteFile(s.path, []byte("half a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Current(); !isNone(err) {
		t.Errorf("got %v", err)
	}
	if got := lines(hook, logrus.WarnLevel); len(got) != 1 || !strings.Contains(got[0], "damaged") {
		t.Errorf("log: %q", got)
	}
}

func TestCertificateOfAnotherNodeIsNotUsed(t *testing.T) {
	s, _ := openTestStore(t, t.TempDir())
	cert, key := newAuthority(t).pair(subject("n2"), time.Now().Add(time.Hour))
	if err := os.WriteFile(s.path, append(cert, key...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Current(); err == nil || isNone(err) || !strings.Contains(err.Error(), SettingCertDirectory) {
		t.Errorf("got %v", err)
	}
}

func TestLostDirectoryCostsNoCertificate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	s, hook := openTestStore(t, dir)
	if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	used := 0
	s.updated = func(*tls.Certificate) { used++ }
	if _, err := s.Update(newAuthority(t).pair(subject("n1"), time.Now().Add(time.Hour))); err != nil || used != 1 {
		t.Errorf("used %d times: %v", used, err)
	}
	if got := lines(hook, logrus.WarnLevel); len(got) != 1 || !strings.Contains(got[0], "not kept on disk") {
		t.Errorf("log: %q", got)
	}
	if _, err := openStore(dir, "x", "u", nil); err == nil || !strings.Contains(err.Error(), SettingCertDirectory) {
		t.Errorf("a file as directory: %v", err)
	}
}

func TestWithoutDirectoryNothingIsKept(t *testing.T) {
	s, _ := openTestStore(t, "")
	if _, err := s.Update(newAuthority(t).pair(subject("n1"), time.Now().Add(time.Hour))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Current(); !isNone(err) {
		t.Errorf("got %v", err)
	}
}

func TestWhatASignerLeftOutIsNamed(t *testing.T) {
	want := &x509.CertificateRequest{
		Subject: subject("n1"), DNSNames: []string{"n1"}, IPAddresses: []net.IP{net.ParseIP("10.0.0.1")},
	}
	for name, tc := range map[string]struct {
		leaf x509.Certificate
		want string
	}{
		"all there, and more": {x509.Certificate{
			Subject:  pkix.Name{CommonName: "system:node:n1", Organization: []string{"more", "system:nodes"}},
			DNSNames: []string{"more", "n1"}, IPAddresses: []net.IP{{10, 0, 0, 2}, {10, 0, 0, 1}},
		}, ""},
		"another name": {x509.Certificate{Subject: pkix.Name{CommonName: "n1"}}, `"n1"`},
		"only the name": {
			x509.Certificate{Subject: pkix.Name{CommonName: "system:node:n1"}},
			"organization system:nodes, DNS name n1, IP address 10.0.0.1",
		},
	} {
		err := covers(&tc.leaf, want)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := covers(&x509.Certificate{}, nil); err != nil {
		t.Errorf("nothing asked for: %v", err)
	}
}
