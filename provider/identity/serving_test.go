package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// serving is a Serving that runs until the test ends.
func serving(t *testing.T, api *requestAPI, change func(*ServingConfig)) (*Serving, *logtest.Hook) {
	t.Helper()
	client := must(kubernetes.NewForConfig(&rest.Config{
		Host: api.server.URL, BearerToken: "node",
		TLSClientConfig: rest.TLSClientConfig{CAData: api.pem(), ServerName: "api.test"},
	}))(t)
	cfg := ServingConfig{NodeName: "n1", Client: client, Addresses: func() []corev1.NodeAddress {
		return []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeHostName, Address: "n1"},
		}
	}}
	if change != nil {
		change(&cfg)
	}
	entry, hook := recorded()
	s := must(NewServing(log.WithLogger(t.Context(), entry), cfg))(t)
	background.Run(t, s.Run)
	return s, hook
}

// now is the certificate that there is, without a wait for one.
func now(s *Serving) *tls.Certificate {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return s.Certificate(ctx)
}

// issued waits for a certificate that satisfies a condition.
func issued(t *testing.T, s *Serving, ok func(*x509.Certificate) bool) *x509.Certificate {
	t.Helper()
	var leaf *x509.Certificate
	wait.For(t, patience, "such a certificate", func() error {
		cert := now(s)
		if cert == nil || ok != nil && !ok(cert.Leaf) {
			return errors.New("there is none")
		}
		leaf = cert.Leaf
		return nil
	})
	return leaf
}

func TestServingCertificateIsRequestedForTheNodesAddresses(t *testing.T) {
	t.Parallel()
	api := newRequestAPI(t)
	dir := t.TempDir()
	addresses := atomic.Pointer[[]corev1.NodeAddress]{}
	addresses.Store(&[]corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n1"}})
	reg := prometheus.NewRegistry()
	s, _ := serving(t, api, func(c *ServingConfig) {
		c.Addresses = func() []corev1.NodeAddress { return *addresses.Load() }
		c.CertDirectory, c.Registerer = dir, reg
	})
	if now(s) != nil || s.template() != nil {
		t.Error("a certificate from nowhere, or a request without an IP address")
	}
	addresses.Store(&[]corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "n1"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.1"},
	})
	csr := api.await(1)
	const want = "kubernetes.io/kubelet-serving [digital signature server auth] CN=system:node:n1,O=system:nodes [n1] " +
		"[10.0.0.1]"
	if got := asked(t, csr); got != want {
		t.Errorf("requested %s", got)
	}
	waiting := make(chan *tls.Certificate, 1)
	go func() { waiting <- s.Certificate(t.Context()) }()
	api.decide(csr.Name, certificatesv1.CertificateApproved, time.Now().Add(time.Hour))
	first := issued(t, s, nil)
	if got := <-waiting; got == nil || got.Leaf.SerialNumber.Cmp(first.SerialNumber) != 0 {
		t.Error("who waited for the first certificate did not get it")
	}

	addresses.Store(&[]corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "n1"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.2"},
	})
	next := api.await(2).Name
	if got := issued(t, s, nil); got.SerialNumber.Cmp(first.SerialNumber) != 0 {
		t.Error("the former certificate is not served while the next one waits")
	}
	api.decide(next, certificatesv1.CertificateApproved, time.Now().Add(time.Hour))
	second := issued(t, s, func(c *x509.Certificate) bool { return c.SerialNumber.Cmp(first.SerialNumber) != 0 })
	if err := second.VerifyHostname("10.0.0.2"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(reg, "kubelet_certificate_manager_server_ttl_seconds",
		"kubelet_certificate_manager_server_rotation_seconds", "kubelet_server_expiration_renew_errors"); n != 3 ||
		err != nil {
		t.Errorf("%d metrics: %v", n, err)
	}

	again := must(NewServing(t.Context(), ServingConfig{
		NodeName: "n1", Client: fake.NewClientset(), CertDirectory: dir,
		Addresses: func() []corev1.NodeAddress { return nil },
	}))(t)
	if got := now(again); got == nil || got.Leaf.SerialNumber.Cmp(second.SerialNumber) != 0 {
		t.Error("another certificate after a restart")
	}
}

func TestSignerIsConfigurableAndHeldToTheRequest(t *testing.T) {
	t.Parallel()
	api := newRequestAPI(t)
	s, hook := serving(t, api, func(c *ServingConfig) { c.SignerName = "example.com/kubelet" })
	csr := api.await(1)
	if csr.Spec.SignerName != "example.com/kubelet" {
		t.Errorf("asked %s", csr.Spec.SignerName)
	}
	api.mu.Lock()
	bad := parsed(t, csr)
	bad.IPAddresses = []net.IP{net.ParseIP("10.9.9.9")}
	stored := api.requests[csr.Name]
	stored.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: "True",
	}}
	stored.Status.Certificate = api.sign(bad, time.Now().Add(time.Hour))
	api.publish("MODIFIED", stored)
	api.mu.Unlock()

	api.decide(api.await(2).Name, certificatesv1.CertificateApproved, time.Now().Add(time.Hour))
	if err := issued(t, s, nil).VerifyHostname("10.0.0.1"); err != nil {
		t.Error(err)
	}
	said := false
	for _, e := range hook.AllEntries() {
		err, _ := e.Data[logrus.ErrorKey].(error)
		said = said ||
			e.Level == logrus.WarnLevel && err != nil && strings.Contains(err.Error(), "left out IP address 10.0.0.1")
	}
	if !said {
		t.Error("the log does not say what the signer left out")
	}
}

func TestNamesOfACertificateAreTheNodesAddresses(t *testing.T) {
	address := func(kind corev1.NodeAddressType, a string) corev1.NodeAddress {
		return corev1.NodeAddress{Type: kind, Address: a}
	}
	for name, tc := range map[string]struct {
		in   []corev1.NodeAddress
		want string
	}{
		"none": {nil, "[] []"},
		"each once, in order": {[]corev1.NodeAddress{
			address(corev1.NodeInternalIP, "10.0.0.2"), address(corev1.NodeExternalIP, "10.0.0.1"),
			address(corev1.NodeInternalIP, "10.0.0.2"),
			address(corev1.NodeInternalDNS, "b"), address(corev1.NodeExternalDNS, "a"), address(corev1.NodeHostName, "b"),
		}, "[a b] [10.0.0.1 10.0.0.2]"},
		"a host name that is an IP address": {[]corev1.NodeAddress{address(corev1.NodeHostName, "::1")}, "[] [::1]"},
		"what is no address": {[]corev1.NodeAddress{
			address(corev1.NodeInternalIP, "x"), address(corev1.NodeHostName, ""), address(corev1.NodeInternalDNS, ""),
			address("Other", "o"),
		}, "[] []"},
	} {
		if names, ips := hostnamesAndIPs(tc.in); fmt.Sprint(names, ips) != tc.want {
			t.Errorf("%s: got %v %v", name, names, ips)
		}
	}
}

func TestServingConfigIsChecked(t *testing.T) {
	if _, err := NewServing(t.Context(), ServingConfig{NodeName: "n1"}); err == nil {
		t.Error("accepted without client and addresses")
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(serverRenewErrors())
	if _, err := NewServing(t.Context(), ServingConfig{
		NodeName: "n1", Client: fake.NewClientset(), Addresses: func() []corev1.NodeAddress { return nil }, Registerer: reg,
	}); err == nil {
		t.Error("metrics registered twice")
	}
}
