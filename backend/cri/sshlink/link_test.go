package sshlink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/sshkeys"
)

const (
	target = "192.0.2.1:22"
	jump   = "198.51.100.7:2222"
)

// echo answers with what it gets.
func echoBack(rw io.ReadWriteCloser) { _, _ = io.Copy(rw, rw) }

// world is a host with its server, in virtual time.
type world struct {
	network *network
	server  *sshServer
	cfg     Config
}

func newWorld(t *testing.T) *world {
	t.Helper()
	n := newNetwork(t)
	s := newServer(t, n, target, 'h', 'u')
	s.endpoints["/run/runtime.sock"] = echoBack
	s.endpoints["10.0.0.1:80"] = echoBack
	return &world{network: n, server: s, cfg: Config{
		User: "burst", Address: target, KeyFiles: []string{sshkeys.File(t, 'u')}, KnownHostsFile: s.knownHosts(t),
		Helper:    func(arch string) ([]byte, error) { return pack("binary for " + arch), nil },
		NewClient: newFakeClient(host.Facts{}),
	}}
}

// link runs a link until the test ends.
func (w *world) link(t *testing.T) *Link {
	t.Helper()
	if err := w.cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	l := newLink(w.cfg.withDefaults(), w.network.DialContext)
	background.Run(t, l.Run)
	return l
}

func (w *world) up(t *testing.T) *Link {
	t.Helper()
	l := w.link(t)
	waitUp(t, l)
	return l
}

func waitUp(t *testing.T, l *Link) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := l.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

func roundTrip(t *testing.T, rw io.ReadWriter, text string) {
	t.Helper()
	if _, err := io.WriteString(rw, text); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(rw, got); err != nil {
		t.Fatal(err)
	}
	if string(got) != text {
		t.Fatalf("got %q back, want %q", got, text)
	}
}

func TestLinkLendsSocketsAndPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.up(t)
		for _, dialer := range []host.Dialer{l.Control(), l.Streams()} {
			for network, address := range map[string]string{"unix": "/run/runtime.sock", "tcp": "10.0.0.1:80"} {
				conn, err := dialer.DialContext(t.Context(), network, address)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				roundTrip(t, conn, "hello")
				if got := conn.RemoteAddr().String(); got != address {
					t.Errorf("remote address %s, want %s", got, address)
				}
			}
		}
		if _, err := l.Host().Facts(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if logins, uploads := w.server.count(); logins != 2 || uploads != 1 {
			t.Errorf("%d logins and %d uploads, want 2 and 1: the helper of logs comes with the first", logins, uploads)
		}
	})
}

func TestFirstSessionOfAConnectionHasThePTY(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.up(t)
		first := 0
		for _, command := range w.server.ran() {
			if strings.HasPrefix(command, "first=true") {
				first++
				if command != "first=true pty=true exec cat" {
					t.Errorf("first session: %s", command)
				}
			} else if strings.Contains(command, "pty=true") {
				t.Errorf("another pty: %s", command)
			}
		}
		if first != 2 {
			t.Errorf("%d first sessions, want 2", first)
		}
	})
}

func TestLinkGoesWithoutAPTY(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.server.noPTY = true
		w.up(t)
	})
}

func TestDeadLinkIsNoticedWithin15To20Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.up(t)
		conn, err := l.Control().DialContext(t.Context(), "tcp", "10.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		time.Sleep(time.Hour)
		if l.Err() != nil {
			t.Fatalf("an idle link is down: %v", l.Err())
		}
		time.Sleep(3 * time.Second)
		w.network.interrupt()
		cut := time.Now()
		_, err = conn.Read(make([]byte, 1))
		took := time.Since(cut)
		if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "no answer for 15s") {
			t.Errorf("read: %v", err)
		}
		if took < 15*time.Second || took > 20*time.Second {
			t.Errorf("noticed after %v, want 15 to 20 s", took)
		}
		synctest.Wait()
		if _, err = l.Control().DialContext(t.Context(), "tcp", "10.0.0.1:80"); !errors.Is(err, backend.ErrUnavailable) ||
			!strings.Contains(err.Error(), "no answer for 15s") {
			t.Errorf("dial while down: %v", err)
		}
		if _, err = conn.Write([]byte("x")); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("write: %v", err)
		}
		if _, err := l.Host().Facts(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("facts: %v", err)
		}
		time.Sleep(10 * time.Minute)
		w.network.mend()
		mended := time.Now()
		waitUp(t, l)
		if took := time.Since(mended); took > 20*time.Second {
			t.Errorf("up %v after the link was mended", took)
		}
	})
}

func TestFiveSecondsCutAreSurvived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.up(t)
		conn, err := l.Streams().DialContext(t.Context(), "tcp", "10.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		time.Sleep(4900 * time.Millisecond)
		w.network.interrupt()
		time.Sleep(5 * time.Second)
		w.network.mend()
		roundTrip(t, conn, "still there")
		time.Sleep(time.Minute)
		if logins, _ := w.server.count(); logins != 2 {
			t.Errorf("%d logins, want the first 2", logins)
		}
	})
}

func TestSeveredLinkComesBackWithinMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.up(t)
		time.Sleep(time.Minute)
		conn, err := l.Control().DialContext(t.Context(), "unix", "/run/runtime.sock")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		before, _ := l.control.current()
		w.network.sever()
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, backend.ErrUnavailable) ||
			errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "lost") {
			t.Errorf("read: %v, want the loss of the connection", err)
		}
		synctest.Wait()
		severed := time.Now()
		waitUp(t, l)
		if took := time.Since(severed); took > 200*time.Millisecond {
			t.Errorf("up after %v", took)
		}
		if after, _ := l.control.current(); after == before {
			t.Error("the connection was not replaced")
		}
	})
}

func TestCallsWhileDownFailAtOnceWithTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.network.close(target)
		l := w.link(t)
		time.Sleep(time.Minute)
		began := time.Now()
		_, err := l.Control().DialContext(t.Context(), "unix", "/run/runtime.sock")
		_, hostErr := l.Host().Volumes(t.Context(), "/", "n")
		for _, err := range []error{err, hostErr, l.Err()} {
			if !errors.Is(err, backend.ErrUnavailable) ||
				!strings.Contains(err.Error(), "connection refused (nothing listens there") {
				t.Errorf("error %v", err)
			}
		}
		if time.Since(began) > 0 {
			t.Errorf("took %v", time.Since(began))
		}
		w.network.listen(target, w.server.serve)
		waitUp(t, l)
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("up after %v, want at most the longest pause", took)
		}
	})
}

func TestCancelledWaitTellsTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.network.interrupt()
		l := w.link(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := l.Wait(ctx); !errors.Is(err, backend.ErrUnavailable) ||
			!strings.Contains(err.Error(), "no answer: is the host up") {
			t.Errorf("Wait: %v", err)
		}
	})
}

func TestHelperIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.up(t)
		time.Sleep(time.Minute)
		if err := l.Host().Sweep(t.Context(), host.Sweep{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		err := l.Err()
		if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "exit status 2: panic: out of cheese") {
			t.Errorf("while it is gone: %v", err)
		}
		if _, err := l.Host().Facts(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("facts: %v", err)
		}
		if _, err := l.Control().DialContext(t.Context(), "unix", "/run/runtime.sock"); err != nil {
			t.Errorf("the connection is gone as well: %v", err)
		}
		waitUp(t, l)
		if logins, uploads := w.server.count(); logins != 2 || uploads != 1 {
			t.Errorf("%d logins and %d uploads, want 2 and 1: it is there still", logins, uploads)
		}
	})
}

func TestHelperFailuresAreExplained(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world)
		class  error
		want   string
	}{
		"cannot be executed": {
			func(w *world) { w.server.helperFails = "/run/x: Exec format error" },
			backend.ErrUnavailable, "exit status 126: /run/x: Exec format error",
		},
		"no sudo": {
			func(w *world) { w.server.uid, w.server.noSudo = "1000", true },
			backend.ErrDenied,
			"sudo: a password is required (the host operations need root: log in as root, or add a line to its sudoers: " +
				"burst ALL=(root) NOPASSWD: ALL)",
		},
		"no binary": {
			func(w *world) { w.cfg.Helper = func(string) ([]byte, error) { return nil, errors.New("not built") } },
			backend.ErrUnavailable, "get the helper for amd64: not built",
		},
		"arrives in part": {
			func(w *world) { w.cfg.Helper = func(string) ([]byte, error) { return []byte("half"), nil } },
			backend.ErrUnavailable, "bring the helper to the host: exit status 1: the helper did not arrive whole",
		},
		"no commands": {
			func(w *world) { w.server.noExec, w.server.noPTY = true, true },
			backend.ErrDenied, "the host runs no command for this user",
		},
		"too few sessions": {
			func(w *world) { w.server.maxSessions = 1 },
			backend.ErrUnavailable, "the host opens no session: open failed (MaxSessions",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				tc.change(w)
				l := w.link(t)
				time.Sleep(time.Minute)
				_, err := l.Host().Facts(t.Context())
				if !errors.Is(err, tc.class) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %v, want %s", err, tc.want)
				}
			})
		})
	}
}

func TestHelperIsBroughtOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		// before is how the host is, and then what happens while the connection is down.
		before, then func(*sshServer)
		uploads      int
	}{
		"it is found again":              {func(*sshServer) {}, func(*sshServer) {}, 1},
		"on a host that unpacks nothing": {func(s *sshServer) { s.noGzip = true }, func(*sshServer) {}, 1},
		"it is gone":                     {func(*sshServer) {}, func(s *sshServer) { s.kept = "" }, 2},
		"what is found does not start":   {func(*sshServer) {}, func(s *sshServer) { s.keptFails = true }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				tt.before(w.server)
				l := w.up(t)
				w.network.interrupt()
				time.Sleep(time.Minute)
				w.server.mu.Lock()
				tt.then(w.server)
				w.server.mu.Unlock()
				w.network.mend()
				waitUp(t, l)
				if _, err := l.Host().Facts(t.Context()); err != nil {
					t.Error(err)
				}
				if _, uploads := w.server.count(); uploads != tt.uploads {
					t.Errorf("%d uploads, want %d", uploads, tt.uploads)
				}
			})
		})
	}
}

func TestHelperRunsBySudo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.server.uid = "1000"
		w.cfg.HelperArgs = []string{"--root", "/it's here"}
		w.up(t)
		if got := strings.Join(w.server.ran(), "\n"); !strings.Contains(got, "--root") || !strings.Contains(got, "s here") {
			t.Errorf("no arguments in %s", got)
		}
		for _, command := range w.server.ran() {
			if strings.Contains(command, "mktemp") || strings.Contains(command, "command -v gzip") ||
				strings.Contains(command, "--keep-dir") {
				if !strings.Contains(command, "exec sudo -n /bin/sh -c ") {
					t.Errorf("not as root: %s", command)
				}
			}
		}
	})
}

func TestLargeTransferArrivesWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.up(t)
		conn, err := l.Streams().DialContext(t.Context(), "tcp", "10.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		data := bytes.Repeat([]byte("0123456789abcdef"), 512<<10)
		go func() {
			if n, err := conn.Write(data); n != len(data) || err != nil {
				t.Errorf("wrote %d: %v", n, err)
			}
			if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				t.Error(err)
			}
		}()
		got, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, data) {
			t.Errorf("%d bytes came back changed", len(got))
		}
	})
}

func TestLogsComeOnTheStreamsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.up(t)
		read := func() string {
			t.Helper()
			r, err := l.Host().Log(t.Context(), host.LogRequest{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			return string(got)
		}
		control, _ := l.control.current()
		if got := read(); got != fmt.Sprintf("%p", control) {
			t.Errorf("the first, which brings the helper, on %s", got)
		}
		synctest.Wait()
		if streams, err := l.streams.current(); err != nil || read() != fmt.Sprintf("%p", streams) {
			t.Errorf("the next is not on the streams connection %p, %v", streams, err)
		}
	})
}

func TestPausesAreForgottenOnceTheLinkWasUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.network.close(target)
		l := w.link(t)
		time.Sleep(time.Minute)
		w.network.listen(target, w.server.serve)
		waitUp(t, l)
		time.Sleep(time.Minute)
		w.network.sever()
		synctest.Wait()
		severed := time.Now()
		waitUp(t, l)
		if took := time.Since(severed); took > 200*time.Millisecond {
			t.Errorf("up again after %v", took)
		}
	})
}
