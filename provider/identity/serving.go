package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/certificate"
)

// ServingConfig is what a Serving is made of.
type ServingConfig struct {
	NodeName string
	// Client requests certificates; its user is the one that approvers see.
	Client kubernetes.Interface
	// Addresses are the node's, as its status shows them. They are asked for once
	// a second; when one is new, another certificate is requested. Without an IP
	// address none is.
	Addresses func() []corev1.NodeAddress
	// SignerName is the signer that is asked; empty: kubernetes.io/kubelet-serving.
	// Another must issue for the same subject and names.
	SignerName string
	// CertDirectory keeps the certificate and its key, in
	// burstlet-server-current.pem. It is this node's alone. Empty: they are kept in
	// memory, and each start requests, and has somebody approve, another.
	CertDirectory string
	// Registerer takes the metrics. May be nil.
	Registerer prometheus.Registerer
}

// Serving is the serving certificate of a node's kubelet API, issued by the
// cluster and rotated.
type Serving struct {
	cfg      ServingConfig
	narrator *narrator
	last     atomic.Pointer[tls.Certificate] // expired or not
	first    chan struct{}                   // closed when there is a last
	store    *store
	manager  certificate.Manager
}

// NewServing returns a serving certificate: the one in the directory, if it is
// valid. Another is not requested before Run. The context is for its logger. It
// fails where the directory cannot be used or holds another node's certificate.
func NewServing(ctx context.Context, cfg ServingConfig) (*Serving, error) {
	if cfg.NodeName == "" || cfg.Client == nil || cfg.Addresses == nil {
		return nil, errors.New("manage the serving certificate: node name, client and addresses are required")
	}
	if cfg.SignerName == "" {
		cfg.SignerName = certificatesv1.KubeletServingSignerName
	}
	ctx = log.WithLogger(ctx, log.G(ctx).WithFields(log.Fields{"node": cfg.NodeName, "certificate": "serving"}))
	s := &Serving{cfg: cfg, narrator: &narrator{entry: log.G(ctx)}, first: make(chan struct{})}
	store, err := openStore(cfg.CertDirectory, servingFile, subject(cfg.NodeName).CommonName, s.narrator)
	if err != nil {
		return nil, err
	}
	store.updated = s.updated
	s.store = store
	failures, age := serverRenewErrors(), serverRotationAge()
	if err := register(cfg.Registerer, failures, age, serverTTL(s.last.Load)); err != nil {
		return nil, err
	}
	managerCtx := withManagerLogger(ctx)
	s.manager, err = certificate.NewManager(&certificate.Config{
		ClientsetFn: func(*tls.Certificate) (kubernetes.Interface, error) {
			return narrated{cfg.Client, s.narrator}, nil
		},
		GetTemplate:             s.template,
		SignerName:              cfg.SignerName,
		GetUsages:               certificate.DefaultKubeletServingGetUsages,
		CertificateStore:        store,
		CertificateRotation:     age,
		CertificateRenewFailure: failures,
		Ctx:                     &managerCtx,
	})
	if err != nil {
		return nil, fmt.Errorf("manage the serving certificate: %w", err)
	}
	if cert := s.manager.Current(); cert != nil {
		s.updated(cert)
	}
	return s, nil
}

// updated takes another certificate. It is not called by two at once.
func (s *Serving) updated(cert *tls.Certificate) {
	if s.last.Swap(cert) == nil {
		close(s.first)
	}
}

// Certificate returns the certificate to serve with; nil when the last has expired. Before
// the first was issued it waits for that, and is nil when the context ends.
func (s *Serving) Certificate(ctx context.Context) *tls.Certificate {
	select {
	case <-s.first:
	case <-ctx.Done():
	}
	cert := s.last.Load()
	if cert == nil || time.Now().After(cert.Leaf.NotAfter) {
		return nil
	}
	return cert
}

// Run requests and rotates the certificate until the context ends, and then
// returns nil. It is called once.
func (s *Serving) Run(ctx context.Context) error {
	s.manager.Start()
	<-ctx.Done()
	s.manager.Stop()
	s.store.close()
	s.narrator.stop()
	return nil
}

// template is what to request now; nil: nothing, because the node has no IP
// address yet.
func (s *Serving) template() *x509.CertificateRequest {
	names, ips := hostnamesAndIPs(s.cfg.Addresses())
	if len(ips) == 0 {
		return nil
	}
	return &x509.CertificateRequest{Subject: subject(s.cfg.NodeName), DNSNames: names, IPAddresses: ips}
}

// hostnamesAndIPs are the names of a certificate for addresses, each once, in a
// stable order. A host name may be an IP address.
func hostnamesAndIPs(addresses []corev1.NodeAddress) (names []string, ips []net.IP) {
	for _, a := range addresses {
		ip := net.ParseIP(a.Address)
		switch a.Type {
		case corev1.NodeHostName:
			if ip != nil {
				ips = append(ips, ip)
			} else if a.Address != "" {
				names = append(names, a.Address)
			}
		case corev1.NodeInternalIP, corev1.NodeExternalIP:
			if ip != nil {
				ips = append(ips, ip)
			}
		case corev1.NodeInternalDNS, corev1.NodeExternalDNS:
			if a.Address != "" {
				names = append(names, a.Address)
			}
		}
	}
	slices.Sort(names)
	slices.SortFunc(ips, func(a, b net.IP) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(names), slices.CompactFunc(ips, net.IP.Equal)
}
