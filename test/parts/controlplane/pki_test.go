package controlplane

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"testing"
)

func TestIssue(t *testing.T) {
	ca, err := newAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	other, err := newAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		leaf  leaf
		usage x509.ExtKeyUsage
		wrong x509.ExtKeyUsage
	}{
		"client": {
			leaf:  leaf{cn: "system:node:a", orgs: []string{"system:nodes"}},
			usage: x509.ExtKeyUsageClientAuth, wrong: x509.ExtKeyUsageServerAuth,
		},
		"server": {
			leaf:  leaf{cn: "node-a", hosts: []string{"node-a", "127.0.0.1"}},
			usage: x509.ExtKeyUsageServerAuth, wrong: x509.ExtKeyUsageClientAuth,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pair, err := ca.issue(tc.leaf)
			if err != nil {
				t.Fatal(err)
			}
			cert, err := tls.X509KeyPair(pair.cert, pair.key)
			if err != nil {
				t.Fatal(err)
			}
			verify := func(by *authority, usage x509.ExtKeyUsage) error {
				roots := x509.NewCertPool()
				roots.AddCert(by.cert)
				_, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}})
				return err
			}
			if err := verify(ca, tc.usage); err != nil {
				t.Error(err)
			}
			if verify(ca, tc.wrong) == nil {
				t.Error("is good for the other usage too")
			}
			if verify(other, tc.usage) == nil {
				t.Error("another authority of the same name verifies it")
			}
			if got := cert.Leaf.Subject; got.CommonName != tc.leaf.cn || !slices.Equal(got.Organization, tc.leaf.orgs) {
				t.Errorf("subject is %v", got)
			}
			for _, host := range tc.leaf.hosts {
				if err := cert.Leaf.VerifyHostname(host); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
