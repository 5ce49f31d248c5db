package keyring

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/sshkeys"
)

func TestKeyFiles(t *testing.T) {
	private, _ := sshkeys.New(t, 'u')
	locked, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	_, signer := sshkeys.New(t, 'u')
	good, err := os.ReadFile(sshkeys.File(t, 'u'))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		file string
		want string
	}{
		"good": {sshkeys.Write(t, "id", 0o600, good), ""},
		"encrypted": {
			sshkeys.Write(t, "id", 0o600, pem.EncodeToMemory(locked)),
			"has a passphrase: name the file that holds it in ssh.passphraseFile, or load the key into an agent",
		},
		"open": {sshkeys.Write(t, "id", 0o644, good), "others can read it (mode 0644): chmod 600 it"},
		"public": {
			sshkeys.Write(t, "id", 0o600, ssh.MarshalAuthorizedKey(signer.PublicKey())), "is a public key: name the private one",
		},
		"garbage":   {sshkeys.Write(t, "id", 0o600, []byte("hunter2")), "is not a private key: ssh: no key found"},
		"missing":   {"/absent/id", "no such file or directory"},
		"directory": {t.TempDir(), "is not a file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadKeyFile(tc.file, "")
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !strings.Contains(fmt.Sprint(err), tc.want) || strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
}

func TestAgentSigns(t *testing.T) {
	private, user := sshkeys.New(t, 'u')
	ring := agent.NewKeyring()
	socket := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = agent.ServeAgent(ring, conn) // until the other side closes
		}
	}()
	empty := Load(t.Context(), Config{Reach: time.Second, Use: time.Second, Agent: socket})
	empty.Close()
	if err := empty.Usable(); !strings.Contains(fmt.Sprint(err), "holds no key: add one with ssh-add") {
		t.Errorf("empty agent: %v", err)
	}
	if err := ring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	keys := Load(t.Context(), Config{
		Files: []string{sshkeys.File(t, 'o')}, Agent: socket, Reach: time.Second, Use: time.Second,
	})
	defer keys.Close()
	if len(keys.keys) != 2 || keys.keys[1].source != "agent" {
		t.Fatalf("keys %v, problems %v: want the file's, then the agent's", keys.keys, keys.problems)
	}
	signature, err := keys.keys[1].signer.Sign(nil, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := user.PublicKey().Verify([]byte("x"), signature); err != nil {
		t.Error(err)
	}
}

func TestPassphrases(t *testing.T) {
	lane.RacedFrom(t, lane.All)
	private, user := sshkeys.New(t, 'u')
	block, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	locked := sshkeys.Write(t, "id", 0o600, pem.EncodeToMemory(block))
	for name, tt := range map[string]struct{ file, want string }{
		"right": {sshkeys.Write(t, "passphrase", 0o600, []byte("hunter2\n")), ""},
		"wrong": {
			sshkeys.Write(t, "passphrase", 0o600, []byte("hunter3")), "has another passphrase than that in ssh.passphraseFile ",
		},
		"not there":   {"/absent/passphrase", "has a passphrase; ssh.passphraseFile /absent/passphrase: no such file"},
		"open to all": {sshkeys.Write(t, "passphrase", 0o644, []byte("hunter2")), "others can read it (mode 0644)"},
	} {
		t.Run(name, func(t *testing.T) {
			keys := Load(t.Context(), Config{Files: []string{locked}, PassphraseFile: tt.file})
			defer keys.Close()
			err := errors.Join(keys.problems...)
			if strings.Contains(fmt.Sprint(err), "hunter") || !strings.Contains(fmt.Sprint(err), tt.want) ||
				(err == nil) != (tt.want == "") {
				t.Errorf("error %v, want %s", err, tt.want)
			}
			if tt.want == "" && !bytes.Equal(keys.keys[0].signer.PublicKey().Marshal(), user.PublicKey().Marshal()) {
				t.Error("another key was read")
			}
		})
	}
}

// A certificate is offered before its key while it is valid, and never keeps the key from
// being offered.
func TestCertificateBesideTheKey(t *testing.T) {
	_, authority := sshkeys.New(t, 'c')
	_, user := sshkeys.New(t, 'u')
	now := uint64(time.Now().Unix())
	for name, tt := range map[string]struct {
		from, until uint64
		text        string // instead of a certificate
		want        []string
		problem     string
	}{
		"valid":       {0, ssh.CertTimeInfinity, "", []string{ssh.CertAlgoED25519v01, ssh.KeyAlgoED25519}, ""},
		"for an hour": {now - 60, now + 3600, "", []string{ssh.CertAlgoED25519v01, ssh.KeyAlgoED25519}, ""},
		"expired": {
			0, 1700000000, "", []string{ssh.KeyAlgoED25519}, "-cert.pub: has expired at 2023-11-14T22:13:20Z: renew it",
		},
		"not yet": {
			now + 3600, ssh.CertTimeInfinity, "", []string{ssh.KeyAlgoED25519}, "-cert.pub: is valid only from ",
		},
		"garbage": {0, 0, "garbage", []string{ssh.KeyAlgoED25519}, "-cert.pub: "},
		"a plain key": {
			0, 0, string(ssh.MarshalAuthorizedKey(user.PublicKey())),
			[]string{ssh.KeyAlgoED25519},
			"-cert.pub: is a plain public key",
		},
		"of some time": {0, math.MaxUint64 - 1, "", []string{ssh.CertAlgoED25519v01, ssh.KeyAlgoED25519}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			certificate := &ssh.Certificate{
				Key: user.PublicKey(), CertType: ssh.UserCert, ValidPrincipals: []string{"burst"}, ValidAfter: tt.from,
				ValidBefore: tt.until,
			}
			if err := certificate.SignCert(strings.NewReader(strings.Repeat("x", 1<<10)), authority); err != nil {
				t.Fatal(err)
			}
			text := []byte(tt.text)
			if tt.text == "" {
				text = ssh.MarshalAuthorizedKey(certificate)
			}
			file := sshkeys.File(t, 'u')
			if err := os.WriteFile(file+"-cert.pub", text, 0o600); err != nil {
				t.Fatal(err)
			}
			keys := Load(t.Context(), Config{Files: []string{file}})
			defer keys.Close()
			var got []string
			for _, k := range keys.keys {
				got = append(got, k.signer.PublicKey().Type())
			}
			if err := errors.Join(keys.problems...); !slices.Equal(got, tt.want) ||
				!strings.Contains(fmt.Sprint(err), tt.problem) || (err == nil) != (tt.problem == "") {
				t.Errorf("keys %v, want %v; problems %v, want %q", got, tt.want, err, tt.problem)
			}
		})
	}
}

// An RSA key signs with SHA-2.
func TestRSAKeysDoNotUseSHA1(t *testing.T) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := loadKeyFile(sshkeys.Write(t, "id", 0o600, pem.EncodeToMemory(block)), "")
	if err != nil {
		t.Fatal(err)
	}
	able, ok := signer.(ssh.MultiAlgorithmSigner)
	if !ok || !slices.Equal(able.Algorithms(), []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}) {
		t.Errorf("an RSA key signs as %T", signer)
	}
}
