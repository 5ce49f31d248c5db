package kubeletapi

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/log"
)

// certCheck is how often files are checked, at most.
const certCheck = time.Second

// The life of a self-signed certificate, and how long before its end the next is
// made.
const (
	selfSignedLife  = 365 * 24 * time.Hour
	selfSignedRenew = 30 * 24 * time.Hour
)

// certSource returns the serving certificate of the moment.
type certSource interface {
	get(ctx context.Context, now time.Time) (*tls.Certificate, error)
}

// newCertSource is the source that was chosen.
func newCertSource(cfg Config) certSource {
	switch {
	case cfg.Certificate != nil:
		return &givenCert{certificate: cfg.Certificate}
	case cfg.SelfSigned:
		return &selfSigned{name: cfg.NodeName, ips: cfg.IPs}
	}
	return &fileCert{certFile: cfg.CertFile, keyFile: cfg.KeyFile}
}

// firstCertificate is how long a handshake waits for a certificate that is not issued yet.
// An API server gives the whole of it ten seconds.
const firstCertificate = 8 * time.Second

// errNoCertificate is what a handshake ends with while the cluster has not issued
// a certificate.
var errNoCertificate = errors.New("no serving certificate available for the kubelet")

// givenCert is a certificate that is kept valid elsewhere. The server listens
// without one, as a kubelet does: the node must be there, with its address, for its
// certificate to be approved. Who calls meanwhile waits for it; when that was in vain once,
// nobody else does.
type givenCert struct {
	// certificate waits for the first until the context ends, and is nil without one.
	certificate func(context.Context) *tls.Certificate
	missing     atomic.Bool
}

func (g *givenCert) get(ctx context.Context, _ time.Time) (*tls.Certificate, error) {
	patience := firstCertificate
	if g.missing.Load() {
		patience = 0
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cert := g.certificate(waiting)
	switch {
	case cert != nil:
		g.missing.Store(false)
		return cert, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	if !g.missing.Swap(true) {
		log.G(ctx).Warn("a client of the kubelet API was turned away: there is no serving certificate; " +
			"the log has told which request waits for approval")
	}
	return nil, errNoCertificate
}

// tlsConfig is TLS 1.2 and up, with AEAD ciphers only. Client certificates are
// asked for and verified by the authenticator, which answers 401 where a
// handshake could only break off.
func tlsConfig(certs certSource) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		CipherSuites: []uint16{ // of TLS 1.2; those of 1.3 are fixed
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
		ClientAuth: tls.RequestClientCert,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return certs.get(hello.Context(), time.Now())
		},
	}
}

// fileCert is a certificate in files. It is checked when a client connects, so
// that it needs no goroutine and follows the symlinks of a mounted Secret.
type fileCert struct {
	certFile, keyFile string

	mu      sync.Mutex
	cert    *tls.Certificate
	stamp   fileStamp
	checked time.Time
}

type fileStamp struct {
	certTime, keyTime time.Time
	certSize, keySize int64
}

func (f *fileCert) stat() (fileStamp, error) {
	cert, err := os.Stat(f.certFile)
	if err != nil {
		return fileStamp{}, fmt.Errorf("read serving certificate (%s): %w", SettingCertFile, err)
	}
	key, err := os.Stat(f.keyFile)
	if err != nil {
		return fileStamp{}, fmt.Errorf("read key of serving certificate (%s): %w", SettingKeyFile, err)
	}
	return fileStamp{cert.ModTime(), key.ModTime(), cert.Size(), key.Size()}, nil
}

func (f *fileCert) get(ctx context.Context, now time.Time) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cert != nil && now.Sub(f.checked) < certCheck {
		return f.cert, nil
	}
	f.checked = now
	err := f.reload()
	if err == nil {
		return f.cert, nil
	}
	if f.cert == nil {
		return nil, err
	}
	log.G(ctx).WithError(err).Warn("serving certificate not refreshed; the former one stays in use")
	return f.cert, nil
}

func (f *fileCert) reload() error {
	stamp, err := f.stat()
	if err != nil || stamp == f.stamp {
		return err
	}
	cert, err := tls.LoadX509KeyPair(f.certFile, f.keyFile)
	if err != nil {
		return fmt.Errorf("load serving certificate from %s and %s: %w", f.certFile, f.keyFile, err)
	}
	f.cert, f.stamp = &cert, stamp
	return nil
}

// selfSigned is a certificate in memory, made again before it ends.
type selfSigned struct {
	name string
	ips  []net.IP

	mu   sync.Mutex
	cert *tls.Certificate
}

func (s *selfSigned) get(_ context.Context, now time.Time) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cert != nil && now.Before(s.cert.Leaf.NotAfter.Add(-selfSignedRenew)) {
		return s.cert, nil
	}
	cert, err := s.issue(now)
	if err != nil {
		return nil, fmt.Errorf("make self-signed serving certificate: %w", err)
	}
	s.cert = cert
	return cert, nil
}

func (s *selfSigned) issue(now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: s.name},
		NotBefore:    now.Add(-time.Hour), // clients' clocks differ
		NotAfter:     now.Add(selfSignedLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{s.name},
		IPAddresses:  s.ips,

		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}
