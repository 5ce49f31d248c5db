package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"path/filepath"
	"sync"
	"testing"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// kubectl runs kubectl as an administrator.
func (s *removalStage) kubectl(args ...string) (string, error) {
	out, err := s.cp.Command(s.t.Context(), args...).CombinedOutput()
	return string(out), err
}

// granting is held by who applies the removal's rights, which are the same for all.
var granting sync.Mutex

// grantRemoval gives the removal its rights.
func (s *removalStage) grantRemoval() {
	s.t.Helper()
	granting.Lock()
	defer granting.Unlock()
	if out, err := s.kubectl("apply", "-f", filepath.Join("..", "..", "deploy", "rbac", "remove-nodes.yaml")); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
}

// configureFile loads the stage's file once more.
func (s *removalStage) configureFile() config.Configuration {
	s.t.Helper()
	cfg, err := config.Load(config.Sources{File: s.file})
	s.must(err)
	return cfg
}

// servingRequest is a request for a node's serving certificate.
func servingRequest(t *testing.T, node string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
		DNSNames: []string{node},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}
