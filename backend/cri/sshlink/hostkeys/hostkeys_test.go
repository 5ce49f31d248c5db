package hostkeys

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/burstlet/burstlet/test/kit/sshkeys"
)

func TestHostKeyAlgorithms(t *testing.T) {
	_, key := sshkeys.New(t, 'h')
	line := knownhosts.Line([]string{"*.example.com"}, key.PublicKey())
	for name, tc := range map[string]struct {
		lines, address string
		first          string
		certificates   bool
	}{
		"known key first":      {line, "a.example.com:22", ssh.KeyAlgoED25519, false},
		"of another host":      {line, "b.example.org:22", "", false},
		"authority":            {"@cert-authority " + line, "a.example.com:22", ssh.CertAlgoRSASHA256v01, true},
		"authority for others": {"@cert-authority " + line + "\n", "b.example.org:22", "", false},
		"hashed": {
			knownhosts.Line([]string{knownhosts.HashHostname("10.0.0.1")}, key.PublicKey()), "10.0.0.1:22", ssh.KeyAlgoED25519,
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := Load(sshkeys.Write(t, "known_hosts", 0o600, []byte(tc.lines)), tc.address)
			if err != nil {
				t.Fatal(err)
			}
			if tc.first != "" && h.Algorithms[0] != tc.first {
				t.Errorf("first of %v, want %s", h.Algorithms, tc.first)
			}
			if got := strings.Contains(fmt.Sprint(h.Algorithms), "-cert-"); got != tc.certificates {
				t.Errorf("certificates %t, want %t: %v", got, tc.certificates, h.Algorithms)
			}
			if len(h.Algorithms) < 6 {
				t.Errorf("only %v: a changed key would not be seen", h.Algorithms)
			}
		})
	}
}

// No key that signs with SHA-1 is asked for.
func TestNoHostKeyUsesSHA1(t *testing.T) {
	for _, insecure := range []bool{true, false} {
		h, err := AcceptAny(), error(nil)
		if !insecure {
			h, err = Load(sshkeys.Write(t, "known_hosts", 0o600, nil), "10.0.0.1:22")
		}
		if err != nil || len(h.Algorithms) == 0 || slices.Contains(h.Algorithms, ssh.KeyAlgoRSA) {
			t.Errorf("host keys %v, %v", h.Algorithms, err)
		}
	}
}
