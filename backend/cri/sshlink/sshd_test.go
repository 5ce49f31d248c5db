package sshlink

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/host/helper/binary"
	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/need"
	"github.com/burstlet/burstlet/test/kit/sshkeys"
)

// scriptHelper speaks the line protocol of the tests, as a program that the host
// can run.
const scriptHelper = `#!/bin/sh
[ "$1" = --keep-dir ] || [ "$1" = --remove-dir ] && [ "$0" = "$2/burstlet-helper" ] || exit 9
trap 'rm -rf "$2"' EXIT
while read -r line; do
	case $line in
	facts) date +%s%N ;;
	die) echo "panic: out of cheese" >&2; exit 2 ;;
	esac
done
`

// helperOf packs scriptHelper for one test: each removes its directory at its end, and those of
// tests that run in parallel would have the same one if they were the same program.
func helperOf(t testing.TB) []byte { return pack(scriptHelper + "# " + t.Name() + "\n") }

// sshd is a real one on loopback.
type sshd struct {
	address string
	file    string
	process *exec.Cmd
	log     bytes.Buffer
}

// startSSHD needs root and OpenSSH's server.
func startSSHD(t testing.TB, options ...string) (*sshd, Config) {
	t.Helper()
	path, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		need.Missing(t, "sshd is needed: %v", err)
	}
	need.Root(t)
	// It insists on this directory.
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := &sshd{address: ownAddress(t), file: filepath.Join(dir, "sshd_config")}
	ip, port, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	hostKey, userKey := realKey(t, dir, "host"), realKey(t, dir, "user")
	files := map[string]string{
		"authorized_keys": string(ssh.MarshalAuthorizedKey(userKey)),
		"known_hosts":     knownhosts.Line([]string{s.address}, hostKey) + "\n",
		"sshd_config": strings.Join(append(options,
			"ListenAddress "+ip, "Port "+port, "HostKey "+filepath.Join(dir, "host"), "PidFile none",
			"AuthorizedKeysFile "+filepath.Join(dir, "authorized_keys"), "StrictModes no", "UsePAM no",
			"PermitRootLogin prohibit-password", "PasswordAuthentication no"), "\n") + "\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.start(t, path)
	t.Cleanup(func() { s.stop(t) })
	return s, Config{
		User: me.Username, Address: s.address, KeyFiles: []string{filepath.Join(dir, "user")},
		KnownHostsFile: filepath.Join(dir, "known_hosts"),
		Helper:         func(string) ([]byte, error) { return helperOf(t), nil },
		NewClient:      newFakeClient(host.Facts{}),
	}
}

// ownAddress is one of loopback's many, with a port that nothing listens on. The
// kernel gives neither to a connection, so that both are still free when sshd starts,
// and starts again.
func ownAddress(t testing.TB) string {
	t.Helper()
	var last error
	for range 100 {
		// Below 32768, where the kernel's own choice begins.
		address := fmt.Sprintf("127.%d.%d.%d:%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250), 20000+rand.IntN(10000))
		l, err := net.Listen("tcp", address)
		if err != nil {
			last = err
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return address
	}
	t.Fatalf("no free address was found: %v", last)
	return ""
}

func realKey(t testing.TB, dir, name string) ssh.PublicKey {
	t.Helper()
	private, signer := sshkeys.New(t, name[0])
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return signer.PublicKey()
}

func (s *sshd) start(t testing.TB, path string) {
	t.Helper()
	s.process = exec.Command(path, "-D", "-e", "-f", s.file)
	s.process.Stderr = &s.log
	// Its children are in its group, to be ended with it.
	s.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", s.address)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			s.stop(t)
			t.Fatalf("sshd does not listen: %v\n%s", err, s.log.String())
		}
	}
}

// stop ends sshd and its sessions.
func (s *sshd) stop(t testing.TB) {
	t.Helper()
	if s.process == nil {
		return
	}
	pid := s.process.Process.Pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Logf("find sshd's children: %v", err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	for _, child := range strings.Fields(string(children)) {
		var pid int
		if _, err := fmt.Sscan(child, &pid); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
	_ = s.process.Wait() // killed
	s.process = nil
}

func runLink(t testing.TB, cfg Config) *Link {
	t.Helper()
	l, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, l.Run)
	waitReal(t, l)
	return l
}

func waitReal(t testing.TB, l *Link) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := l.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

// echoSocket is a socket of the host that answers with what it gets.
func echoSocket(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "echo.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				echoBack(conn)
				conn.Close()
			}()
		}
	}()
	return path
}

// realWorld is a real sshd and what uses it.
type realWorld struct {
	sshd   *sshd
	cfg    Config
	link   *Link
	socket string
	helper []byte
}

func TestRealSSHD(t *testing.T) {
	t.Parallel()
	w := &realWorld{}
	w.helper = helperOf(t)
	t.Cleanup(func() { // when link and sshd have ended
		for deadline := time.Now().Add(3 * time.Minute); len(keptHelpers(w.helper)) > 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("left on the host: %s", keptHelpers(w.helper))
			}
		}
	})
	w.sshd, w.cfg = startSSHD(t)
	w.socket = echoSocket(t)
	w.link = runLink(t, w.cfg)
	t.Run("forwards sockets and ports", w.realForwards)
	t.Run("fails as the host does", w.realFailures)
	t.Run("runs the helper, which is there once", w.realHelper)
	t.Run("finds nothing wrong", w.realDiagnosis)
	t.Run("comes back when sshd does", w.realRestart)
	t.Run("refuses a wrong key", w.realWrongKey)
}

func (w *realWorld) realForwards(t *testing.T) {
	conn, err := w.link.Control().DialContext(t.Context(), "unix", w.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	roundTrip(t, conn, "hello")
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !isTimeout(err) {
		t.Error(err)
	}
	tcp, err := w.link.Streams().DialContext(t.Context(), "tcp", w.sshd.address)
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	greeting := make([]byte, 8)
	if _, err := io.ReadFull(tcp, greeting); string(greeting) != "SSH-2.0-" {
		t.Errorf("%q, %v", greeting, err)
	}
}

func (w *realWorld) realFailures(t *testing.T) {
	for address, want := range map[string]error{
		"tcp 127.0.0.1:1": syscall.ECONNREFUSED, "unix /absent/x.sock": fs.ErrNotExist,
		"unix /dev/null": syscall.ECONNREFUSED,
	} {
		network, address, _ := strings.Cut(address, " ")
		if _, err := w.link.Control().DialContext(t.Context(), network, address); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", address, err, want)
		}
	}
	var dns *net.DNSError
	if _, err := w.link.Control().DialContext(t.Context(), "tcp", "nowhere.invalid:80"); !errors.As(err, &dns) {
		t.Errorf("unknown name: %v", err)
	}
}

func (w *realWorld) realHelper(t *testing.T) {
	facts, err := w.link.Host().Facts(t.Context())
	if err != nil || time.Since(facts.Now).Abs() > time.Minute {
		t.Errorf("%v, %v", facts.Now, err)
	}
	// The other helper may be on its way.
	w.link.reader.want()
	waitFor(t, w.link, func(error) bool { return w.link.reader.err() == nil })
	if kept := keptHelpers(w.helper); len(kept) != 1 {
		t.Errorf("on the host: %s, want one helper for all connections", kept)
	}
	if err := w.link.Host().Sweep(t.Context(), host.Sweep{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, w.link, func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "exit status 2: panic: out of cheese")
	})
	waitReal(t, w.link)
}

func (w *realWorld) realDiagnosis(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "runtime.sock")
	stop, err := fakecri.New().Serve(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, f := range w.link.Diagnose(t.Context(), socket) {
		if !f.OK {
			t.Errorf("%+v", f)
		}
	}
}

func (w *realWorld) realRestart(t *testing.T) {
	path := w.sshd.process.Path
	w.sshd.stop(t)
	waitFor(t, w.link, func(err error) bool { return errors.Is(err, backend.ErrUnavailable) })
	w.sshd.start(t, path)
	waitReal(t, w.link)
	conn, err := w.link.Control().DialContext(t.Context(), "unix", w.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	roundTrip(t, conn, "again")
}

func (w *realWorld) realWrongKey(t *testing.T) {
	wrong := w.cfg
	wrong.KeyFiles = []string{sshkeys.File(t, 'o')}
	l, err := New(wrong)
	if err != nil {
		t.Fatal(err)
	}
	found := l.Diagnose(t.Context(), w.socket)
	if last := found[len(found)-1]; last.OK || last.What != "login" ||
		!strings.Contains(last.Detail, "refuses the user or every key") {
		t.Errorf("%+v", last)
	}
}

// keptHelpers are the directories of the helper that later connections find.
func keptHelpers(helper []byte) (dirs []string) {
	name := packedHelper(helper).name
	for _, place := range strings.Fields(places) {
		if dir := filepath.Join(place, name); exists(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func waitFor(t *testing.T, l *Link, is func(error) bool) {
	t.Helper()
	deadline := time.After(3 * time.Minute)
	for {
		changed := l.Changed()
		err := l.Err()
		if is(err) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("last: %v", err)
		}
	}
}

func TestRealSSHDThatForbids(t *testing.T) {
	t.Parallel()
	_, cfg := startSSHD(t, "AllowTcpForwarding no", "AllowStreamLocalForwarding no", "PermitTTY no", "MaxSessions 2")
	l := runLink(t, cfg)
	socket := echoSocket(t)
	for address, want := range map[string]string{
		// Without a pty there is room for the question about the socket.
		"tcp 127.0.0.1:1": "AllowTcpForwarding", "unix " + socket: "AllowStreamLocalForwarding",
	} {
		network, address, _ := strings.Cut(address, " ")
		if _, err := l.Control().DialContext(t.Context(), network, address); !errors.Is(err, backend.ErrDenied) ||
			!strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %s", address, err, want)
		}
	}
	got := map[string]bool{}
	for _, f := range l.Diagnose(t.Context(), socket) {
		if !f.OK {
			got[f.What] = true
		}
	}
	for _, want := range []string{"pty", "sessions", "port forwarding", "runtime socket"} {
		if !got[want] {
			t.Errorf("no finding about %s: %v", want, got)
		}
	}
}

// BenchmarkSmallCall is a request of a few bytes and its answer through a real
// sshd: with the pty that turns Nagle's algorithm off there, and without.
func BenchmarkSmallCall(b *testing.B) {
	for name, options := range map[string][]string{"pty": nil, "no pty": {"PermitTTY no"}} {
		b.Run(name, func(b *testing.B) {
			_, cfg := startSSHD(b, options...)
			l := runLink(b, cfg)
			conn, err := l.Control().DialContext(b.Context(), "unix", echoSocket(b))
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			var took []time.Duration
			answer := make([]byte, 64)
			for b.Loop() {
				began := time.Now()
				// Two packets each way, as gRPC sends headers and data.
				for range 2 {
					if _, err := conn.Write([]byte("0123456789")); err != nil {
						b.Fatal(err)
					}
				}
				for n := 0; n < 20; {
					m, err := conn.Read(answer)
					if err != nil {
						b.Fatal(err)
					}
					n += m
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-median")
		})
	}
}

func TestRealHelperOverARealSSHD(t *testing.T) {
	t.Parallel()
	if _, err := binary.For(runtime.GOARCH); err != nil {
		need.Missing(t, "%v", err)
	}
	pods := t.TempDir()
	pod := filepath.Join(pods, "uid-1")
	if err := os.Mkdir(pod, 0o700); err != nil {
		t.Fatal(err)
	}
	server, cfg := startSSHD(t)
	cfg.Helper, cfg.NewClient, cfg.HelperArgs = binary.Packed, nil, []string{"--root", pods}
	l := runLink(t, cfg)
	facts, err := l.Host().Facts(t.Context())
	if err != nil || facts.Arch != runtime.GOARCH || facts.CPUs < 1 {
		t.Errorf("facts %+v, %v", facts, err)
	}
	if _, err := l.Host().ReadFile(t.Context(), "/absent/file", 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read what is not there: %v", err)
	}
	data, err := l.Host().ReadFile(t.Context(), "/proc/self/comm", 100)
	if err != nil || string(data) != "burstlet-helper\n" {
		t.Errorf("comm %q, %v", data, err)
	}
	// The host has a pod: the helper is still there for the next connection, which is so
	// within seconds at 1 Mbit/s.
	before := sent(l)
	path := server.process.Path
	server.stop(t)
	waitFor(t, l, func(err error) bool { return errors.Is(err, backend.ErrUnavailable) })
	server.start(t, path)
	waitReal(t, l)
	if again := sent(l) - before; again == 0 || again > 100<<10 {
		t.Errorf("%d bytes were sent to connect again, and %d before", again, before)
	}
	// Nothing is left when the helper ends on a host without pods.
	if err := os.Remove(pod); err != nil {
		t.Fatal(err)
	}
}

// sent are the bytes that went to the host so far.
func sent(l *Link) (sum uint64) {
	for _, f := range l.Facts() {
		sum += f.Sent
	}
	return sum
}
