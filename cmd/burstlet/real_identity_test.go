package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// A node without a credential has its client certificate and that of its API
// issued by the cluster.
func TestRealCertificatesFromTheCluster(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const name = "certified"
	port := ports.Free(t)
	s.run(s.configure(fmt.Sprintf(`
node: {name: %s, internalIP: 127.0.0.1}
bootstrapKubeconfig: %s
certDirectory: %s
backend: {type: sim, sim: {socket: "%%SOCKET%%"}}
kubeletAPI: {address: 127.0.0.1, port: %d, serverTLSBootstrap: true, clientCAFile: %%CA%%}
`, name, s.cp.KubeconfigPath(), t.TempDir(), port)))
	s.approve("system:node:"+name, certificatesv1.KubeAPIServerClientKubeletSignerName)
	s.ready(name)
	s.approve("system:node:"+name, certificatesv1.KubeletServingSignerName)
	ca, err := os.ReadFile(s.cp.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	wait.For(t, patience, "the API has a certificate of the cluster", func() error {
		conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{RootCAs: pool})
		if err != nil {
			return err
		}
		defer conn.Close()
		if cn := conn.ConnectionState().PeerCertificates[0].Subject.CommonName; cn != "system:node:"+name {
			return fmt.Errorf("it is %s's", cn)
		}
		return nil
	})
}

// subjectOf is the user whom a request's certificate is to name.
func subjectOf(t *testing.T, csr *certificatesv1.CertificateSigningRequest) string {
	t.Helper()
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil {
		t.Fatalf("request %s is no PEM", csr.Name)
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return request.Subject.CommonName
}

// approve approves the request for a certificate of a user, as an administrator
// does, unless the cluster did it by itself.
func (s *stage) approve(user, signer string) {
	s.t.Helper()
	requests := s.admin.CertificatesV1().CertificateSigningRequests()
	wait.For(s.t, patience, "a request to "+signer, func() error {
		list, err := requests.List(s.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			csr := &list.Items[i]
			if csr.Spec.SignerName != signer || subjectOf(s.t, csr) != user {
				continue
			}
			for _, c := range csr.Status.Conditions {
				if c.Type == certificatesv1.CertificateApproved {
					return nil
				}
			}
			csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", Message: "for " + user,
			})
			_, err := requests.UpdateApproval(s.t.Context(), csr.Name, csr, metav1.UpdateOptions{})
			return err
		}
		return errNotYet
	})
}
