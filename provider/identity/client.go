package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/certificate"

	"github.com/burstlet/burstlet/provider/nodeuser"
)

// The names that the settings have in the configuration file, for messages that
// tell what to change.
const (
	SettingBootstrapKubeconfig = "bootstrapKubeconfig"
	SettingCertDirectory       = "certDirectory"
)

// subject is what the signers for kubelets demand.
func subject(node string) pkix.Name {
	return pkix.Name{CommonName: nodeuser.Name(node), Organization: []string{nodeuser.Group}}
}

// ClientConfig is what a Client is made of.
type ClientConfig struct {
	NodeName string
	// BootstrapKubeconfig is a file with the API server's address and CA, and with
	// a credential that may request a node's certificate. It is read again when
	// that credential is needed, so that an expired token can be replaced.
	BootstrapKubeconfig string
	// CertDirectory keeps the certificate and its key, in
	// burstlet-client-current.pem. It is this node's alone. A directory that was
	// lost costs a new request. Empty: they are kept in memory.
	CertDirectory string
	// Registerer takes the metrics. May be nil.
	Registerer prometheus.Registerer
}

func (c ClientConfig) check() error {
	if c.NodeName == "" {
		return errors.New("bootstrap the node's credential: node name is missing")
	}
	if c.BootstrapKubeconfig == "" {
		return fmt.Errorf("bootstrap the node's credential: %s is missing", SettingBootstrapKubeconfig)
	}
	return nil
}

// Client is a node's credential: a client certificate that the cluster issued
// and that is rotated.
type Client struct {
	cfg       ClientConfig
	server    *rest.Config // without credential
	transport *rotating
	manager   certificate.Manager
	store     *store
	narrator  *narrator
}

// NewClient returns the credential in the directory or, where there is none that
// is valid, requests one and waits until it is approved and issued; what it
// waits for is logged. It fails when the context ends first, when the bootstrap
// kubeconfig cannot be read or the directory not be used. The credential is
// renewed from then on; Run must be called, and stops that.
func NewClient(ctx context.Context, cfg ClientConfig) (*Client, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	ctx = log.WithLogger(ctx, log.G(ctx).WithFields(log.Fields{"node": cfg.NodeName, "certificate": "client"}))
	bootstrap, err := readBootstrap(cfg.BootstrapKubeconfig)
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, server: rest.AnonymousClientConfig(bootstrap), narrator: &narrator{entry: log.G(ctx)}}
	if c.transport, err = newRotating(bootstrap); err != nil {
		return nil, err
	}
	if err := c.manage(ctx); err != nil {
		return nil, err
	}
	cert := c.manager.Current()
	if cert != nil {
		c.transport.use(cert)
	}
	c.manager.Start()
	if cert != nil {
		return c, nil
	}
	select {
	case <-c.transport.changed:
		return c, nil
	case <-ctx.Done():
		csr := c.narrator.waitingFor()
		c.stop()
		if csr != "" {
			return nil, fmt.Errorf("wait for the node's certificate: request %s was not approved and signed: %w", csr, ctx.Err())
		}
		return nil, fmt.Errorf("request the node's certificate from the API server at %s: %w", bootstrap.Host, ctx.Err())
	}
}

// manage makes the manager, which is not started.
func (c *Client) manage(ctx context.Context) error {
	template := &x509.CertificateRequest{Subject: subject(c.cfg.NodeName)}
	store, err := openStore(c.cfg.CertDirectory, clientFile, template.Subject.CommonName, c.narrator)
	if err != nil {
		return err
	}
	store.updated = c.transport.use
	c.store = store
	requests := c.config(fallback{own: c.transport, bootstrap: c.bootstrapTransport})
	client, err := kubernetes.NewForConfig(requests)
	if err != nil {
		return fmt.Errorf("make a client for certificate requests: %w", err)
	}
	failures := clientRenewErrors()
	if err := register(c.cfg.Registerer, failures, clientTTL(c.current)); err != nil {
		return err
	}
	managerCtx := withManagerLogger(ctx)
	c.manager, err = certificate.NewManager(&certificate.Config{
		ClientsetFn: func(*tls.Certificate) (kubernetes.Interface, error) {
			return narrated{client, c.narrator}, nil
		},
		Template:                template,
		SignerName:              certificatesv1.KubeAPIServerClientKubeletSignerName,
		GetUsages:               certificate.DefaultKubeletClientGetUsages,
		CertificateStore:        store,
		CertificateRenewFailure: failures,
		Ctx:                     &managerCtx,
	})
	if err != nil {
		return fmt.Errorf("manage the node's certificate: %w", err)
	}
	return nil
}

func readBootstrap(file string) (*rest.Config, error) {
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: file}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read bootstrap kubeconfig (%s): %w", SettingBootstrapKubeconfig, err)
	}
	return cfg, nil
}

func (c *Client) bootstrapTransport() (http.RoundTripper, error) {
	cfg, err := readBootstrap(c.cfg.BootstrapKubeconfig)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("use bootstrap kubeconfig (%s): %w", SettingBootstrapKubeconfig, err)
	}
	return transport, nil
}

// config is the way to the server over a transport, which takes the place of all
// settings of TLS and of proxies.
func (c *Client) config(transport http.RoundTripper) *rest.Config {
	cfg := rest.CopyConfig(c.server)
	cfg.TLSClientConfig, cfg.Proxy = rest.TLSClientConfig{}, nil
	cfg.Transport = transport
	return cfg
}

func (c *Client) current() *tls.Certificate {
	if g := c.transport.current.Load(); g != nil {
		return g.cert
	}
	return nil
}

// RESTConfig returns the way to the API server as this node. Its transport
// presents the certificate of the moment to each new connection; no call fails
// because that changes. Rates and the user agent are for the caller to set.
func (c *Client) RESTConfig() *rest.Config { return c.config(c.transport) }

// Run keeps the credential valid until the context ends, and then returns nil.
// Connections of the certificate in use stay, for last calls. It is called once.
func (c *Client) Run(ctx context.Context) error {
	defer c.stop()
	expiry := time.NewTimer(0) // of the first certificate that is out of use
	defer expiry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.transport.changed:
		case <-expiry.C:
		}
		expiry.Stop()
		if left, ok := c.transport.expire(time.Now()); ok {
			expiry.Reset(left)
		}
	}
}

func (c *Client) stop() {
	c.manager.Stop()
	c.store.close()
	c.narrator.stop()
}
