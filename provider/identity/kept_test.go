package identity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Who only looks finds what the store keeps, an expired certificate too, and makes
// nothing.
func TestKeptCertificatesAreThoseOfTheStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if cert, file, err := KeptClient(dir, "n1"); cert != nil || err != nil ||
		file != filepath.Join(dir, "burstlet-client-current.pem") {
		t.Errorf("%v %s %v", cert, file, err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory was made: %v", err)
	}
	s, _ := openTestStore(t, dir)
	must(s.Update(newAuthority(t).pair(subject("n1"), time.Now().Add(-time.Minute))))(t)
	if cert, _, err := KeptClient(dir, "n1"); err != nil || cert == nil ||
		cert.Leaf.Subject.CommonName != "system:node:n1" {
		t.Errorf("%v %v", cert, err)
	}
	if cert, _, err := KeptServing(dir, "n1"); err != nil || cert != nil {
		t.Errorf("%v %v", cert, err)
	}
	if _, _, err := KeptClient(dir, "n2"); err == nil ||
		!strings.Contains(err.Error(), `of "system:node:n1", not of "system:node:n2"`) {
		t.Errorf("another's: %v", err)
	}
	if err := os.WriteFile(keptIn(dir, clientFile), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := KeptClient(dir, "n1"); err == nil {
		t.Error("a damaged file is taken")
	}
}
