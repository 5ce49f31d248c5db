package identity

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// rotating sends each call with the certificate of the moment. Calls under way
// end on the connection they began on: the kubelet closes its connections when
// it gets a new certificate, which breaks them. What is still open when a
// certificate expires is closed; those are watches, which are resumed.
type rotating struct {
	tls   *tls.Config // without a certificate
	proxy func(*http.Request) (*url.URL, error)

	current atomic.Pointer[generation]
	mu      sync.Mutex    // guards retired
	retired []*generation // may have calls under way
	// changed is signalled when there is a new generation.
	changed chan struct{}
}

// generation is everything that was opened with one certificate.
type generation struct {
	cert      *tls.Certificate
	transport *http.Transport
	dialer    *connrotation.Dialer
}

// newRotating returns a transport to the server of a configuration, whose own
// credential it does not use.
func newRotating(cfg *rest.Config) (*rotating, error) {
	conf, err := rest.TLSConfigFor(rest.AnonymousClientConfig(cfg))
	if err != nil {
		return nil, fmt.Errorf("configure TLS to the API server: %w", err)
	}
	if conf == nil {
		conf = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	proxy := cfg.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	return &rotating{tls: conf, proxy: proxy, changed: make(chan struct{}, 1)}, nil
}

// RoundTrip sends one call.
func (r *rotating) RoundTrip(req *http.Request) (*http.Response, error) {
	return r.current.Load().transport.RoundTrip(req)
}

// CloseIdleConnections closes connections that no call uses.
func (r *rotating) CloseIdleConnections() {
	if g := r.current.Load(); g != nil {
		g.transport.CloseIdleConnections()
	}
}

// valid says whether there is a certificate that has not expired.
func (r *rotating) valid(now time.Time) bool {
	g := r.current.Load()
	return g != nil && now.Before(g.cert.Leaf.NotAfter)
}

// use sends later calls with a certificate.
func (r *rotating) use(cert *tls.Certificate) {
	conf := r.tls.Clone()
	conf.Certificates = nil
	conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	dialer := connrotation.NewDialer((&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext)
	next := &generation{cert: cert, dialer: dialer, transport: utilnet.SetTransportDefaults(&http.Transport{
		Proxy:               r.proxy,
		TLSHandshakeTimeout: 10 * time.Second,
		TLSClientConfig:     conf,
		MaxIdleConnsPerHost: 25,
		DialContext:         dialer.DialContext,
	})}
	before := r.current.Swap(next)
	if before != nil {
		r.mu.Lock()
		r.retired = append(r.retired, before)
		r.mu.Unlock()
		before.transport.CloseIdleConnections()
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// expire closes what was opened with certificates that have expired since. It
// returns how long until the next one does; false: there is none.
func (r *rotating) expire(now time.Time) (next time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retired = slices.DeleteFunc(r.retired, func(g *generation) bool {
		left := g.cert.Leaf.NotAfter.Sub(now)
		if left <= 0 {
			g.dialer.CloseAll()
			return true
		}
		if !ok || left < next {
			next, ok = left, true
		}
		return false
	})
	return next, ok
}

// fallback sends calls with the node's certificate while that is valid, else
// with the credential of the bootstrap.
type fallback struct {
	own       *rotating
	bootstrap func() (http.RoundTripper, error)
}

// RoundTrip sends one call.
func (f fallback) RoundTrip(req *http.Request) (*http.Response, error) {
	if f.own.valid(time.Now()) {
		return f.own.RoundTrip(req)
	}
	transport, err := f.bootstrap()
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as a RoundTripper must
		}
		return nil, err
	}
	return transport.RoundTrip(req)
}
