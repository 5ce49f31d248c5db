package sshlink

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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/burstlet/burstlet/backend"
)

func TestRefusedConnectionsAreExplained(t *testing.T) {
	_, user := newKey(t, 'u')
	_, other := newKey(t, 'o')
	fingerprint := func(s ssh.Signer) string { return ssh.FingerprintSHA256(s.PublicKey()) }
	for name, tc := range map[string]struct {
		change func(*testing.T, *world)
		class  error
		want   []string
	}{
		"wrong key": {
			func(t *testing.T, w *world) { w.cfg.KeyFiles = []string{keyFile(t, 'o'), keyFile(t, 'p')} },
			backend.ErrDenied,
			[]string{"log in as burst@" + target, fingerprint(other), "id)", "authorized_keys"},
		},
		"wrong user": {
			func(_ *testing.T, w *world) { w.cfg.User = "root" },
			backend.ErrDenied,
			[]string{"log in as root@" + target, fingerprint(user), "PermitRootLogin"},
		},
		"unknown host key": {
			func(t *testing.T, w *world) { w.cfg.KnownHostsFile = writeFile(t, "known_hosts", 0o600, nil) },
			backend.ErrUnavailable,
			[]string{"host key is unknown", "ssh-ed25519 " + fingerprint(w0(t)), "ssh-keyscan 192.0.2.1 >> "},
		},
		"changed host key": {
			func(t *testing.T, w *world) {
				line := knownhosts.Line([]string{target}, other.PublicKey())
				w.cfg.KnownHostsFile = writeFile(t, "known_hosts", 0o600, []byte("# mine\n"+line+"\n"))
			},
			backend.ErrUnavailable,
			[]string{
				"host key has changed", fingerprint(w0(t)), "known_hosts:2 has ssh-ed25519 " + fingerprint(other),
				"ssh-keygen -R '192.0.2.1' -f ",
			},
		},
		"changed host key of another kind": {
			func(t *testing.T, w *world) { w.cfg.KnownHostsFile = writeFile(t, "known_hosts", 0o600, ecdsaLine) },
			backend.ErrUnavailable,
			[]string{"host key has changed", "known_hosts:1 has ecdsa-sha2-nistp256 SHA256:"},
		},
		"revoked host key": {
			func(t *testing.T, w *world) {
				line := knownhosts.Line([]string{target}, w.server.hostKey.PublicKey())
				w.cfg.KnownHostsFile = writeFile(t, "known_hosts", 0o600, []byte(line+"\n@revoked "+line+"\n"))
			},
			backend.ErrUnavailable,
			[]string{"is revoked by ", "known_hosts:2"},
		},
		"no known hosts": {
			func(t *testing.T, w *world) { w.cfg.KnownHostsFile = filepath.Join(t.TempDir(), "absent") },
			backend.ErrUnavailable,
			[]string{"ssh.knownHostsFile", "no such file", "ssh-keyscan 192.0.2.1 >> "},
		},
		"broken known hosts": {
			func(t *testing.T, w *world) {
				w.cfg.KnownHostsFile = writeFile(t, "known_hosts", 0o600, []byte("\nhost ssh-ed25519 !!\n"))
			},
			backend.ErrUnavailable,
			[]string{"ssh.knownHostsFile", "known_hosts:2"},
		},
		"key file gone": {
			func(_ *testing.T, w *world) { w.cfg.KeyFiles = []string{"/absent/id"} },
			backend.ErrDenied,
			[]string{"ssh.keyFiles /absent/id: no such file or directory"},
		},
		"agent gone": {
			func(_ *testing.T, w *world) { w.cfg.KeyFiles, w.cfg.Agent = nil, "/absent/agent" },
			backend.ErrDenied,
			[]string{"ssh.agent /absent/agent: connect: no such file or directory"},
		},
		"host down": {
			func(_ *testing.T, w *world) { w.network.interrupt() },
			backend.ErrUnavailable,
			[]string{"connect to " + target, "no answer: is the host up"},
		},
		"not an sshd": {
			func(_ *testing.T, w *world) { w.network.listen(target, dropAtOnce) },
			backend.ErrUnavailable,
			[]string{"is it an sshd", "MaxStartups"},
		},
		"silent": {
			func(_ *testing.T, w *world) { w.network.listen(target, silent) },
			backend.ErrUnavailable,
			[]string{"no sshd answered in time"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				tc.change(t, w)
				l := w.link(t)
				time.Sleep(20 * time.Second)
				err := l.control.err()
				if !errors.Is(err, tc.class) {
					t.Errorf("class %s of %v", backend.Class(err), err)
				}
				for _, want := range tc.want {
					if !strings.Contains(fmt.Sprint(err), want) {
						t.Errorf("error %v, want %s", err, want)
					}
				}
				if strings.Contains(fmt.Sprint(err), "PRIVATE") {
					t.Errorf("error shows a key: %v", err)
				}
			})
		})
	}
}

// w0 is the host key of every world.
func w0(t *testing.T) ssh.Signer {
	_, key := newKey(t, 'h')
	return key
}

// ecdsaLine is a key of another kind for the target.
var ecdsaLine = []byte(
	"192.0.2.1 ecdsa-sha2-nistp256 " +
		"AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg=\n",
)

func TestKeysAreReadAgainForEachConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		good := keyFile(t, 'u')
		w.cfg.KeyFiles = []string{keyFile(t, 'o')}
		l := w.link(t)
		time.Sleep(5 * time.Minute)
		if err := l.Err(); !errors.Is(err, backend.ErrDenied) {
			t.Fatalf("with the wrong key: %v", err)
		}
		data, err := os.ReadFile(good)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(w.cfg.KeyFiles[0], data, 0o600); err != nil {
			t.Fatal(err)
		}
		waitUp(t, l)
	})
}

func TestDeniedLoginsAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.cfg.KeyFiles = []string{keyFile(t, 'o')}
		var logins atomic.Int64
		w.network.listen(target, func(c net.Conn) {
			logins.Add(1)
			w.server.serve(c)
		})
		w.link(t)
		time.Sleep(time.Hour)
		tries := logins.Load()
		// Two connections: 5 s of punishment each must have passed before the next.
		if most := int64(2 * 3600 / 16); tries > most+20 || tries < 200 {
			t.Errorf("%d logins in an hour, want fewer than %d", tries, most)
		}
	})
}

func TestUnusableKeyBesideAGoodOneDoesNotMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.cfg.KeyFiles = append([]string{"/absent/id"}, w.cfg.KeyFiles...)
		w.up(t)
	})
}

func TestInsecureIgnoreHostKeyTalksToAnyone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.cfg.KnownHostsFile, w.cfg.InsecureIgnoreHostKey = "", true
		w.up(t)
	})
}

func TestJumpHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		gate := newServer(t, w.network, jump, 'j', 'u')
		w.cfg.Jumps = []Hop{{User: "burst", Address: jump}}
		w.cfg.KnownHostsFile = w.server.knownHosts(t, gate)
		l := w.up(t)
		conn, err := l.Control().DialContext(t.Context(), "tcp", "10.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, conn, "through")
		if logins, _ := gate.count(); logins != 2 {
			t.Errorf("%d logins at the jump host, want 2", logins)
		}
		for _, command := range gate.ran() {
			if command != "first=true pty=true exec cat" {
				t.Errorf("on the jump host: %s", command)
			}
		}
		w.network.interrupt()
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("read through a cut: %v", err)
		}
		w.network.mend()
		waitUp(t, l)
	})
}

func TestJumpHostFailuresNameTheHop(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world, gate *sshServer)
		want   string
	}{
		"its key": {
			func(w *world, _ *sshServer) { w.cfg.KnownHostsFile = w.server.knownHosts(t) },
			"connect to " + jump + ": host key is unknown",
		},
		"its login": {
			func(w *world, _ *sshServer) { w.cfg.Jumps[0].User = "x" }, "connect to " + jump + ": log in as x@" + jump,
		},
		"its forwarding": {
			func(_ *world, gate *sshServer) { gate.noTCP = true },
			"connect to " + target + ": dial tcp " + target + ": the host's sshd does not forward to " + target,
		},
		"the next hop": {
			func(w *world, _ *sshServer) { w.network.close(target) },
			"connect to " + target + ": dial tcp " + target + ": connect: connection refused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				gate := newServer(t, w.network, jump, 'j', 'u')
				w.cfg.Jumps = []Hop{{User: "burst", Address: jump}}
				w.cfg.KnownHostsFile = w.server.knownHosts(t, gate)
				tc.change(w, gate)
				l := w.link(t)
				time.Sleep(time.Second)
				if err := l.control.err(); !strings.Contains(fmt.Sprint(err), tc.want) {
					t.Errorf("error %v, want %s", err, tc.want)
				}
			})
		})
	}
}

func TestKeyFiles(t *testing.T) {
	private, _ := newKey(t, 'u')
	locked, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	_, signer := newKey(t, 'u')
	good, err := os.ReadFile(keyFile(t, 'u'))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		file string
		want string
	}{
		"good": {writeFile(t, "id", 0o600, good), ""},
		"encrypted": {
			writeFile(t, "id", 0o600, pem.EncodeToMemory(locked)),
			"has a passphrase: name the file that holds it in ssh.passphraseFile, or load the key into an agent",
		},
		"open": {writeFile(t, "id", 0o644, good), "others can read it (mode 0644): chmod 600 it"},
		"public": {
			writeFile(t, "id", 0o600, ssh.MarshalAuthorizedKey(signer.PublicKey())), "is a public key: name the private one",
		},
		"garbage":   {writeFile(t, "id", 0o600, []byte("hunter2")), "is not a private key: ssh: no key found"},
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
	private, user := newKey(t, 'u')
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
	empty := loadKeys(t.Context(), Config{Agent: socket})
	empty.close()
	if err := empty.usable(); !strings.Contains(fmt.Sprint(err), "holds no key: add one with ssh-add") {
		t.Errorf("empty agent: %v", err)
	}
	if err := ring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	keys := loadKeys(t.Context(), Config{Agent: socket, KeyFiles: []string{keyFile(t, 'o')}})
	defer keys.close()
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
	private, user := newKey(t, 'u')
	block, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	locked := writeFile(t, "id", 0o600, pem.EncodeToMemory(block))
	for name, tt := range map[string]struct{ file, want string }{
		"right": {writeFile(t, "passphrase", 0o600, []byte("hunter2\n")), ""},
		"wrong": {
			writeFile(t, "passphrase", 0o600, []byte("hunter3")), "has another passphrase than that in ssh.passphraseFile ",
		},
		"not there":   {"/absent/passphrase", "has a passphrase; ssh.passphraseFile /absent/passphrase: no such file"},
		"open to all": {writeFile(t, "passphrase", 0o644, []byte("hunter2")), "others can read it (mode 0644)"},
	} {
		t.Run(name, func(t *testing.T) {
			keys := loadKeys(t.Context(), Config{KeyFiles: []string{locked}, PassphraseFile: tt.file})
			defer keys.close()
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
	_, authority := newKey(t, 'c')
	_, user := newKey(t, 'u')
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
			file := keyFile(t, 'u')
			if err := os.WriteFile(file+"-cert.pub", text, 0o600); err != nil {
				t.Fatal(err)
			}
			keys := loadKeys(t.Context(), Config{KeyFiles: []string{file}})
			defer keys.close()
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

// A jump host with keys of its own is offered those alone, and the host none of them.
func TestJumpHostWithItsOwnKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		gate := newServer(t, w.network, "10.0.0.9:22", 'j', 'g')
		w.cfg.Jumps = []Hop{{User: "burst", Address: "10.0.0.9:22", KeyFiles: []string{keyFile(t, 'g')}}}
		w.cfg.KnownHostsFile = w.server.knownHosts(t, gate)
		w.up(t)
		if logins, _ := gate.count(); logins != 2 {
			t.Errorf("%d logins at the jump host, want 2", logins)
		}
	})
}

// Nothing that builds on SHA-1 is agreed upon, and an RSA key signs with SHA-2.
func TestNothingUsesSHA1(t *testing.T) {
	for name, weaken := range map[string]func(*ssh.ServerConfig){
		"key exchange": func(c *ssh.ServerConfig) { c.KeyExchanges = []string{ssh.InsecureKeyExchangeDH14SHA1} },
		"MAC": func(c *ssh.ServerConfig) {
			c.Ciphers, c.MACs = []string{ssh.CipherAES128CTR}, []string{ssh.HMACSHA1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.server.weaken = weaken
				l := w.link(t)
				time.Sleep(time.Second)
				err := l.control.err()
				if text := fmt.Sprint(err); !strings.Contains(text, "no common algorithm for") ||
					!strings.Contains(text, "too old to be safe") {
					t.Errorf("error %v", err)
				}
			})
		})
	}
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := loadKeyFile(writeFile(t, "id", 0o600, pem.EncodeToMemory(block)), "")
	if err != nil {
		t.Fatal(err)
	}
	able, ok := signer.(ssh.MultiAlgorithmSigner)
	if !ok || !slices.Equal(able.Algorithms(), []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}) {
		t.Errorf("an RSA key signs as %T", signer)
	}
	for _, insecure := range []bool{true, false} {
		cfg := Config{InsecureIgnoreHostKey: insecure}
		if !insecure {
			cfg.KnownHostsFile = writeFile(t, "known_hosts", 0o600, nil)
		}
		h, err := loadHostKeys(cfg, Hop{User: "u", Address: "10.0.0.1:22"})
		if err != nil || len(h.algorithms) == 0 || slices.Contains(h.algorithms, ssh.KeyAlgoRSA) {
			t.Errorf("host keys %v, %v", h.algorithms, err)
		}
	}
}

func TestHostKeyAlgorithms(t *testing.T) {
	_, key := newKey(t, 'h')
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
			h, err := loadHostKeys(
				Config{KnownHostsFile: writeFile(t, "known_hosts", 0o600, []byte(tc.lines))}, Hop{User: "u", Address: tc.address},
			)
			if err != nil {
				t.Fatal(err)
			}
			if tc.first != "" && h.algorithms[0] != tc.first {
				t.Errorf("first of %v, want %s", h.algorithms, tc.first)
			}
			if got := strings.Contains(fmt.Sprint(h.algorithms), "-cert-"); got != tc.certificates {
				t.Errorf("certificates %t, want %t: %v", got, tc.certificates, h.algorithms)
			}
			if len(h.algorithms) < 6 {
				t.Errorf("only %v: a changed key would not be seen", h.algorithms)
			}
		})
	}
}
