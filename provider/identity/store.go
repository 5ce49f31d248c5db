package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/util/certificate"
)

// store keeps the certificate in use and its key in one file, which is replaced
// in one step. Without a path it keeps nothing: the manager has the certificate
// in memory.
//
// It stands in for client-go's file store, which leaves every former certificate
// behind, is without a current one for a moment while it replaces it, and gives
// up on a damaged file.
type store struct {
	path     string
	user     string // whose certificates these are, the common name
	narrator *narrator
	// updated is told of each new certificate, after it was kept.
	updated func(*tls.Certificate)

	mu     sync.Mutex // held while a certificate is taken
	closed bool
}

var _ certificate.Store = (*store)(nil)

// openStore makes the directory, and fails where that cannot be written to. An
// empty directory: nothing is kept.
func openStore(dir, prefix, user string, n *narrator) (*store, error) {
	s := &store{user: user, narrator: n}
	if dir == "" {
		return s, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory for certificates (%s): %w", SettingCertDirectory, err)
	}
	s.path = keptIn(dir, prefix)
	// A half-written file of a process that was killed shows, too, that we may write.
	if err := os.WriteFile(s.temp(), nil, 0o600); err != nil {
		return nil, fmt.Errorf("write to the directory for certificates (%s): %w", SettingCertDirectory, err)
	}
	if err := os.Remove(s.temp()); err != nil {
		return nil, fmt.Errorf("write to the directory for certificates (%s): %w", SettingCertDirectory, err)
	}
	return s, nil
}

func (s *store) temp() string { return s.path + ".tmp" }

// Current returns the certificate in the file. A damaged file counts as none.
// The certificate of another node is an error: two nodes would take it from each
// other in turn.
func (s *store) Current() (*tls.Certificate, error) {
	if s.path == "" {
		return nil, noCertificate("certificates are kept in memory")
	}
	data, err := os.ReadFile(s.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, noCertificate("there is no " + s.path)
	case err != nil:
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	cert, err := tls.X509KeyPair(data, data)
	if err != nil {
		s.narrator.entry.WithError(err).WithField("file", s.path).Warn("certificate on disk is damaged; another is requested")
		return nil, noCertificate(s.path + " is damaged")
	}
	if user := cert.Leaf.Subject.CommonName; user != s.user {
		return nil, fmt.Errorf("%s holds a certificate of %q, not of %q: give each node a directory of its own (%s), or "+
			"remove the file",
			s.path, user, s.user, SettingCertDirectory)
	}
	return &cert, nil
}

func noCertificate(why string) error {
	err := certificate.NoCertKeyError(why)
	return &err
}

// close waits until a certificate that is being taken was, and lets no other be.
// The manager's Stop does not wait for its goroutines, which would write to the
// directory after whoever ran them believes them gone.
func (s *store) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

var errClosed = errors.New("certificates are no longer managed")

// Update takes a new certificate. One that was issued is used even if it cannot
// be kept. After close it fails, and changes nothing.
func (s *store) Update(certPEM, keyPEM []byte) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("use the certificate that was issued: %w", err)
	}
	// The manager would request another at once, for ever.
	if err := covers(cert.Leaf, s.narrator.asked()); err != nil {
		return nil, fmt.Errorf("use the certificate that was issued: %w", err)
	}
	if s.path != "" {
		if err := s.write(slices.Concat(certPEM, []byte("\n"), keyPEM)); err != nil {
			s.narrator.entry.WithError(err).Warn("certificate not kept on disk; after a restart another is requested")
		}
	}
	s.updated(&cert)
	s.narrator.issued(cert.Leaf.NotAfter)
	return &cert, nil
}

func (s *store) write(data []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(s.temp(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(s.temp(), s.path)
}

// covers says what a certificate lacks of what was requested.
func covers(leaf *x509.Certificate, want *x509.CertificateRequest) error {
	if want == nil {
		return nil
	}
	if leaf.Subject.CommonName != want.Subject.CommonName {
		return fmt.Errorf("the signer gave it the common name %q, not %q", leaf.Subject.CommonName, want.Subject.CommonName)
	}
	var lacks []string
	for _, org := range want.Subject.Organization {
		if !slices.Contains(leaf.Subject.Organization, org) {
			lacks = append(lacks, "organization "+org)
		}
	}
	for _, name := range want.DNSNames {
		if !slices.Contains(leaf.DNSNames, name) {
			lacks = append(lacks, "DNS name "+name)
		}
	}
	for _, ip := range want.IPAddresses {
		if !slices.ContainsFunc(leaf.IPAddresses, func(have net.IP) bool { return have.Equal(ip) }) {
			lacks = append(lacks, "IP address "+ip.String())
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("the signer left out %s", strings.Join(lacks, ", "))
	}
	return nil
}
