package sshlink

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/test/kit/sshkeys"
)

func TestRefusedConnectionsAreExplained(t *testing.T) {
	_, user := sshkeys.New(t, 'u')
	_, other := sshkeys.New(t, 'o')
	fingerprint := func(s ssh.Signer) string { return ssh.FingerprintSHA256(s.PublicKey()) }
	for name, tc := range map[string]struct {
		change func(*testing.T, *world)
		class  error
		want   []string
	}{
		"wrong key": {
			func(t *testing.T, w *world) { w.cfg.KeyFiles = []string{sshkeys.File(t, 'o'), sshkeys.File(t, 'p')} },
			backend.ErrDenied,
			[]string{"log in as burst@" + target, fingerprint(other), "id)", "authorized_keys"},
		},
		"wrong user": {
			func(_ *testing.T, w *world) { w.cfg.User = "root" },
			backend.ErrDenied,
			[]string{"log in as root@" + target, fingerprint(user), "PermitRootLogin"},
		},
		"unknown host key": {
			func(t *testing.T, w *world) { w.cfg.KnownHostsFile = sshkeys.Write(t, "known_hosts", 0o600, nil) },
			backend.ErrUnavailable,
			[]string{"host key is unknown", "ssh-ed25519 " + fingerprint(w0(t)), "ssh-keyscan 192.0.2.1 >> "},
		},
		"changed host key": {
			func(t *testing.T, w *world) {
				line := knownhosts.Line([]string{target}, other.PublicKey())
				w.cfg.KnownHostsFile = sshkeys.Write(t, "known_hosts", 0o600, []byte("# mine\n"+line+"\n"))
			},
			backend.ErrUnavailable,
			[]string{
				"host key has changed", fingerprint(w0(t)), "known_hosts:2 has ssh-ed25519 " + fingerprint(other),
				"ssh-keygen -R '192.0.2.1' -f ",
			},
		},
		"changed host key of another kind": {
			func(t *testing.T, w *world) { w.cfg.KnownHostsFile = sshkeys.Write(t, "known_hosts", 0o600, ecdsaLine) },
			backend.ErrUnavailable,
			[]string{"host key has changed", "known_hosts:1 has ecdsa-sha2-nistp256 SHA256:"},
		},
		"revoked host key": {
			func(t *testing.T, w *world) {
				line := knownhosts.Line([]string{target}, w.server.hostKey.PublicKey())
				w.cfg.KnownHostsFile = sshkeys.Write(t, "known_hosts", 0o600, []byte(line+"\n@revoked "+line+"\n"))
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
				w.cfg.KnownHostsFile = sshkeys.Write(t, "known_hosts", 0o600, []byte("\nhost ssh-ed25519 !!\n"))
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
	_, key := sshkeys.New(t, 'h')
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
		good := sshkeys.File(t, 'u')
		w.cfg.KeyFiles = []string{sshkeys.File(t, 'o')}
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
		w.cfg.KeyFiles = []string{sshkeys.File(t, 'o')}
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

// A jump host with keys of its own is offered those alone, and the host none of them.
func TestJumpHostWithItsOwnKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		gate := newServer(t, w.network, "10.0.0.9:22", 'j', 'g')
		w.cfg.Jumps = []Hop{{User: "burst", Address: "10.0.0.9:22", KeyFiles: []string{sshkeys.File(t, 'g')}}}
		w.cfg.KnownHostsFile = w.server.knownHosts(t, gate)
		w.up(t)
		if logins, _ := gate.count(); logins != 2 {
			t.Errorf("%d logins at the jump host, want 2", logins)
		}
	})
}

// Nothing that builds on SHA-1 is agreed upon.
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
}
