package install

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/world/basecluster"
)

// installWithCertificates: nodes with credentials of their own, got with a
// bootstrap token, and serving certificates that the chart's approver lets pass; and
// an upgrade that takes a node away.
func installWithCertificates(t *testing.T, w *world) {
	i, host := newSSH(t, w, "certificates", "edge-2")
	before := hostState(t, host)
	const second = "demo-1"
	v := sshValues(t, i.node, host)
	v["identity"] = values{"mode": "bootstrap", "bootstrap": values{"token": values{
		"create": true, "expiration": time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339),
	}}}
	v["servingCertificate"] = values{"mode": "csr"}
	nodes := v["nodes"].(values)
	nodes[second] = values{"backend": values{"type": "sim"}}
	i.helm.run(t, "install", append(withValues(t, v), "--create-namespace")...)
	i.awaitNode(i.node)
	i.awaitNode(second)
	i.helm.run(t, "test", "--logs")
	i.begin()
	i.use(i.pods()[0])
	i.servesWithCertificate(i.node)

	delete(nodes, second)
	i.upgradeWithout(v, second)
	i.servesWithCertificate(i.node)
	i.helm.run(t, "uninstall")
	i.endsClean()
	nothingOnHost(t, host, before)
}

// servesWithCertificate: the kubelet API of a node has a certificate of the cluster's.
func (i *installed) servesWithCertificate(name string) {
	i.Helper()
	pem, err := os.ReadFile(i.c.CAFile())
	if err != nil {
		i.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		i.Fatal("the cluster's CA is no certificate")
	}
	basecluster.Await(i, "a certificate of node "+name, func(ctx context.Context) error {
		node, err := i.c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		address, port := internalIP(node), strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port))
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: address, MinVersion: tls.VersionTLS12}}
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address, port))
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

func internalIP(node *corev1.Node) string {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// upgradeWithout takes a node away: it is gone when Helm is done, and the other node's
// pods are as they were.
func (i *installed) upgradeWithout(v values, gone string) {
	i.Helper()
	i.upgrade(v)
	if _, err := i.c.Client.CoreV1().Nodes().Get(i.Context(), gone, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		i.Errorf("node %s was taken out of the values: %v", gone, err)
	}
	_, err := i.c.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(i.Context(), gone, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		i.Errorf("the lease of node %s: %v", gone, err)
	}
}
