package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/test/kit/wait"
)

// remainder is what is left of the certificates of an outdated node, which were
// good for an hour.
const remainder = 5 * time.Minute

// outdatedNode is a node whose certificates are about to expire: both were
// issued by the cluster and stand where the node keeps them.
func outdatedNode(t *testing.T, c *cluster) *node {
	t.Helper()
	n := newNode(t, c, "cis-renewed", "  type: sim\n")
	dir := n.certDirectory()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	subject := pkix.Name{CommonName: "system:node:" + n.name, Organization: []string{"system:nodes"}}
	for file, template := range map[string]*x509.Certificate{
		clientFile: {Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
		servingFile: {
			Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			DNSNames: []string{n.name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), c.expiring(t, template), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// As kubeadm binds it: nodes may renew their own certificates.
	if _, err := c.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "nodes-renew-certificates"},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
		},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:nodes"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.kubeconfig(func(r *rest.Config) { // one that may not do anything
		nobody, err := c.Credential("system:bootstrap:burst1", "system:bootstrappers")
		if err != nil {
			t.Fatal(err)
		}
		*r = *nobody
	})
	n.edit("\nkubeconfig: ", "\ncertDirectory: "+dir+"\nbootstrapKubeconfig: ")
	n.edit("selfSigned: true", "serverTLSBootstrap: true")
	n.start()
	return n
}

// The names of the files in the node's certDirectory.
const (
	clientFile  = "burstlet-client-current.pem"
	servingFile = "burstlet-server-current.pem"
)

func (n *node) certDirectory() string { return filepath.Join(filepath.Dir(n.config), "pki") }

// expiring signs a certificate that has only its last minutes, with its key.
func (c *cluster) expiring(t *testing.T, template *x509.Certificate) []byte {
	t.Helper()
	ca, err := tls.LoadX509KeyPair(c.CAFile(), filepath.Join(filepath.Dir(c.CAFile()), "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.KeyUsage = big.NewInt(time.Now().UnixNano()), x509.KeyUsageDigitalSignature
	template.NotAfter = time.Now().Add(remainder)
	template.NotBefore = template.NotAfter.Add(-time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}))
}

// rotatesClientCertificate: the node has its credential renewed by itself, and
// goes on under the new one.
func rotatesClientCertificate(h *hardened) {
	file := filepath.Join(h.renewed.certDirectory(), clientFile)
	wait.For(h.T, patience, "another client certificate", func() error {
		pair, err := tls.LoadX509KeyPair(file, file)
		if err != nil {
			return err
		}
		if left := time.Until(pair.Leaf.NotAfter); left < 2*remainder {
			return fmt.Errorf("it expires in %s", left)
		}
		_, err = pair.Leaf.Verify(x509.VerifyOptions{
			Roots: h.c.caPool(h.T), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
		return err
	})
	node := &life{T: h.T, c: h.c, n: h.renewed, namespace: h.c.namespace(h.T, "cis-renewed")}
	h.renewed.ready()
	node.create(node.pod(forever))
	node.until("a pod of the node runs", isReady)
}

// rotatesServingCertificate: the node asks for another serving certificate, and
// serves it once somebody has approved it.
func rotatesServingCertificate(h *hardened) {
	requests := h.c.client.CertificatesV1().CertificateSigningRequests()
	wait.For(h.T, patience, "a request for a serving certificate", func() error {
		list, err := requests.List(
			h.Context(), metav1.ListOptions{FieldSelector: "spec.signerName=" + certificatesv1.KubeletServingSignerName},
		)
		if err != nil {
			return err
		}
		for _, csr := range list.Items {
			if csr.Spec.Username != "system:node:"+h.renewed.name {
				continue
			}
			csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
			})
			_, err := requests.UpdateApproval(h.Context(), csr.Name, &csr, metav1.UpdateOptions{})
			return err
		}
		return fmt.Errorf("there are %d, none of the node", len(list.Items))
	})
	wait.For(h.T, patience, "it serves the new certificate", func() error {
		leaf, err := h.renewed.served(&tls.Config{RootCAs: h.c.caPool(h.T), ServerName: "127.0.0.1"})
		if err == nil && time.Until(leaf.NotAfter) < 2*remainder {
			err = fmt.Errorf("it serves one until %s", leaf.NotAfter)
		}
		return err
	})
	says := (&life{T: h.T, c: h.c, n: h.renewed}).configz()
	if !says.ServerTLSBootstrap || !says.RotateCertificates {
		h.Errorf("configz: serverTLSBootstrap is %t, rotateCertificates %t", says.ServerTLSBootstrap, says.RotateCertificates)
	}
}
