package kubeletapi

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

// Where a cluster publishes the CA of its clients for servers that delegate
// authentication to it.
const (
	clusterCANamespace = metav1.NamespaceSystem
	clusterCAName      = "extension-apiserver-authentication"
	clusterCAKey       = "client-ca-file"
)

// caRefresh is how often the CA is read again, and caTimeout how long that may
// take.
const (
	caRefresh = time.Minute
	caTimeout = 10 * time.Second
)

// clientCA is the CA of client certificates, read again as time goes by.
type clientCA struct {
	name  string
	read  func(context.Context) ([]byte, error)
	value atomic.Pointer[caBundle]
}

type caBundle struct {
	pem  []byte
	pool *x509.CertPool
}

var _ dynamiccertificates.CAContentProvider = (*clientCA)(nil)

// newClientCA reads a file; without one the cluster's ConfigMap, with the first of the
// clients that may.
func newClientCA(file string, clients ...kubernetes.Interface) *clientCA {
	if file != "" {
		return &clientCA{name: file, read: func(context.Context) ([]byte, error) { return os.ReadFile(file) }}
	}
	name := "ConfigMap " + clusterCANamespace + "/" + clusterCAName
	return &clientCA{name: name, read: func(ctx context.Context) (pem []byte, err error) {
		for _, client := range clients {
			var cm *corev1.ConfigMap
			cm, err = client.CoreV1().ConfigMaps(clusterCANamespace).Get(ctx, clusterCAName, metav1.GetOptions{})
			if err == nil {
				return []byte(cm.Data[clusterCAKey]), nil
			}
			if !apierrors.IsForbidden(err) {
				break
			}
		}
		return nil, err
	}}
}

// load reads the CA once.
func (c *clientCA) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, caTimeout)
	defer cancel()
	pem, err := c.read(ctx)
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("read client CA from %s: this credential may not (a node's credential never may): "+
			"set %s to a file with the CA that signed the API server's kubelet client certificate: %w",
			c.name, SettingClientCAFile, err)
	case err != nil:
		return fmt.Errorf("read client CA from %s (%s chooses a file): %w", c.name, SettingClientCAFile, err)
	}
	if old := c.value.Load(); old != nil && bytes.Equal(old.pem, pem) {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("read client CA from %s: %w", c.name, errors.New("no certificate in PEM found"))
	}
	c.value.Store(&caBundle{pem, pool})
	return nil
}

// run reads the CA again now and then; what cannot be read leaves the old one.
func (c *clientCA) run(ctx context.Context) {
	ticker := time.NewTicker(caRefresh)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := c.load(ctx); err != nil && ctx.Err() == nil {
			log.G(ctx).WithError(err).Warn("client CA not refreshed; the former one stays in use")
		}
	}
}

// Name says where the CA comes from.
func (c *clientCA) Name() string { return c.name }

// CurrentCABundleContent returns the CA in PEM.
func (c *clientCA) CurrentCABundleContent() []byte {
	if b := c.value.Load(); b != nil {
		return b.pem
	}
	return nil
}

// VerifyOptions returns how client certificates are verified; false while there
// is no CA.
func (c *clientCA) VerifyOptions() (x509.VerifyOptions, bool) {
	b := c.value.Load()
	if b == nil {
		return x509.VerifyOptions{}, false
	}
	return x509.VerifyOptions{Roots: b.pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, true
}

// AddListener does nothing: every request asks for the present CA.
func (c *clientCA) AddListener(dynamiccertificates.Listener) {}
