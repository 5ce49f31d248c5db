package identity

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Prefixes of the files in a certificate directory.
const (
	clientFile  = "burstlet-client"
	servingFile = "burstlet-server"
)

func keptIn(dir, prefix string) string { return filepath.Join(dir, prefix+"-current.pem") }

// KeptClient reads the client certificate that a [Client] keeps in a directory,
// for those who only look: nothing is made or changed. It returns the file, which
// holds the key too, and nil where there is none yet. A certificate that has
// expired is returned. It fails for a file that cannot be read, is damaged, or
// holds another node's certificate.
func KeptClient(dir, node string) (*tls.Certificate, string, error) {
	return kept(keptIn(dir, clientFile), node)
}

// KeptServing is [KeptClient] for the certificate of a [Serving].
func KeptServing(dir, node string) (*tls.Certificate, string, error) {
	return kept(keptIn(dir, servingFile), node)
}

func kept(file, node string) (*tls.Certificate, string, error) {
	cert, err := tls.LoadX509KeyPair(file, file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, file, nil
	case err != nil:
		return nil, file, fmt.Errorf("read %s: %w", file, err)
	}
	if user := cert.Leaf.Subject.CommonName; user != subject(node).CommonName {
		return nil, file, fmt.Errorf("%s holds a certificate of %q, not of %q", file, user, subject(node).CommonName)
	}
	return &cert, file, nil
}
