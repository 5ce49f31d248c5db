package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/class"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/test/kit/need"
)

// busConfig is a bus on which everybody may do everything.
const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path=%s</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/><allow user="*"/>
  </policy>
</busconfig>
`

// startBus starts a D-Bus daemon below run, as a host's system bus.
func startBus(t *testing.T, run string) string {
	t.Helper()
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		need.Missing(t, "no D-Bus to test with: %v", err)
	}
	socket := filepath.Join(run, "dbus/system_bus_socket")
	config := filepath.Join(run, "bus.conf")
	if err := errors.Join(os.MkdirAll(filepath.Dir(socket), 0o755),
		os.WriteFile(config, fmt.Appendf(nil, busConfig, socket), 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(daemon, "--config-file="+config, "--nofork", "--nopidfile", "--print-address=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // and it says so
		_ = cmd.Wait()
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the D-Bus daemon does not start: %v", err)
	}
	return "unix:path=" + socket
}

// fakeLogind is systemd-logind, and as much of systemd as reloads it.
type fakeLogind struct {
	run   string
	conn  *dbus.Conn
	props *prop.Properties
	// locks are those that were given.
	locks chan fakeLock
	asked chan [4]string
}

// fakeLock is one that was given: ours goes to who asked, as a copy.
type fakeLock struct{ theirs, ours *os.File }

// held is true while somebody has the copy, for as long as that. The D-Bus daemon has one
// too for a moment after it has passed it on.
func (l fakeLock) held(t *testing.T, patience time.Duration) bool {
	t.Helper()
	_ = l.ours.Close()                                                    // it was sent
	fds := []unix.PollFd{{Fd: int32(l.theirs.Fd()), Events: unix.POLLIN}} //nolint:gosec // a descriptor
	if _, err := unix.Poll(fds, int(patience.Milliseconds())); err != nil {
		t.Fatal(err)
	}
	return fds[0].Revents&unix.POLLHUP == 0
}

// Inhibit gives a lock.
func (f *fakeLogind) Inhibit(what, who, why, mode string) (dbus.UnixFD, *dbus.Error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	fd := dbus.UnixFD(w.Fd()) // whoever receives the lock closes it
	f.asked <- [4]string{what, who, why, mode}
	f.locks <- fakeLock{r, w}
	return fd, nil
}

var delayLine = regexp.MustCompile(`(?m)^\[Login\]\nInhibitDelayMaxSec=(\d+)$`)

// KillUnit reads the configuration.
func (f *fakeLogind) KillUnit(unit, _ string, signal int32) *dbus.Error {
	data, err := os.ReadFile(filepath.Join(f.run, delayFile))
	if err != nil {
		return dbus.MakeFailedError(err)
	}
	m := delayLine.FindSubmatch(data)
	if unit != "systemd-logind.service" || signal != 1 || m == nil {
		return dbus.MakeFailedError(fmt.Errorf("%s, %d, %q", unit, signal, data))
	}
	seconds, err := strconv.Atoi(string(m[1]))
	if err != nil {
		return dbus.MakeFailedError(err)
	}
	f.props.SetMust(logindManager, "InhibitDelayMaxUSec", uint64(seconds)*1_000_000) //nolint:gosec // a test's
	return nil
}

func (f *fakeLogind) prepare(t *testing.T, begun bool) {
	t.Helper()
	f.props.SetMust(logindManager, "PreparingForShutdown", begun)
	if err := f.conn.Emit(logindPath, logindManager+"."+prepareSignal, begun); err != nil {
		t.Fatal(err)
	}
}

func startLogind(t *testing.T, run, address string) *fakeLogind {
	t.Helper()
	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	f := &fakeLogind{run: run, conn: conn, locks: make(chan fakeLock, 4), asked: make(chan [4]string, 4)}
	f.props, err = prop.Export(conn, logindPath, prop.Map{logindManager: {
		"PreparingForShutdown": {Value: false}, "InhibitDelayMaxUSec": {Value: uint64(5_000_000)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		conn.Export(f, logindPath, logindManager), conn.Export(f, systemdPath, systemdManager),
	); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{logindName, systemdName} {
		if reply, err := conn.RequestName(name, dbus.NameFlagDoNotQueue); err != nil ||
			reply != dbus.RequestNameReplyPrimaryOwner {
			t.Fatalf("own %s: %v, %v", name, reply, err)
		}
	}
	return f
}

// awaited is a call of AwaitShutdown that is under way.
type awaited struct {
	is  bool
	err error
}

func await(ctx context.Context, h host.Host, was bool, delay time.Duration) <-chan awaited {
	done := make(chan awaited, 1)
	go func() {
		is, err := h.AwaitShutdown(ctx, host.ShutdownRequest{Was: was, Delay: delay})
		done <- awaited{is, err}
	}()
	return done
}

// TestAwaitShutdown: a lock delays the shutdown until the caller has done what it had to.
func TestAwaitShutdown(t *testing.T) {
	run := t.TempDir()
	f := startLogind(t, run, startBus(t, run))
	h := New(Options{RunRoot: run})

	waits := await(t.Context(), h, false, 40*time.Second)
	if got := <-f.asked; got[0] != "shutdown" || got[1] != "burstlet" || got[3] != "delay" {
		t.Errorf("the lock: %q", got)
	}
	lock := <-f.locks
	if most := f.props.GetMust(logindManager, "InhibitDelayMaxUSec"); most != uint64(40_000_000) {
		t.Errorf("a shutdown can be delayed for %v µs", most)
	}
	f.prepare(t, true)
	if got := <-waits; !got.is || got.err != nil {
		t.Fatalf("the shutdown: %+v", got)
	}
	if !lock.held(t, 0) {
		t.Fatal("the host goes on before the pods have ended")
	}
	waits = await(t.Context(), h, true, 40*time.Second)
	f.prepare(t, false)
	if got := <-waits; got.is || got.err != nil {
		t.Fatalf("the shutdown is off: %+v", got)
	}
	if lock.held(t, time.Minute) {
		t.Error("the host was not let go on")
	}
}

// TestShutdownDelay: what logind allows before and after a shutdown is awaited, and what was
// asked of it where it does not heed that.
func TestShutdownDelay(t *testing.T) {
	run := t.TempDir()
	h := New(Options{RunRoot: run})
	if _, err := h.ShutdownDelay(t.Context()); !errors.Is(err, class.ErrUnsupported) {
		t.Errorf("without D-Bus: %v", err)
	}
	f := startLogind(t, run, startBus(t, run))
	want := func(most, asked time.Duration) {
		t.Helper()
		got, err := h.ShutdownDelay(t.Context())
		if (err != nil || got != host.ShutdownDelay{Most: most, Asked: asked}) {
			t.Errorf("%+v, %v, want %s of %s", got, err, most, asked)
		}
	}
	want(5*time.Second, 0)
	ctx, cancel := context.WithCancel(t.Context())
	waits := await(ctx, h, false, 40*time.Second)
	<-f.asked
	want(40*time.Second, 40*time.Second)
	cancel()
	<-waits
	f.props.SetMust(logindManager, "InhibitDelayMaxUSec", uint64(7_000_000))
	want(7*time.Second, 40*time.Second)
	putFile(t, filepath.Join(run, delayFile), "of somebody else")
	if _, err := h.ShutdownDelay(t.Context()); err == nil {
		t.Error("a file that says nothing is taken for one that does")
	}
}

// TestAwaitShutdownGivenUp: who goes delays nothing; who comes late is told.
func TestAwaitShutdownGivenUp(t *testing.T) {
	run := t.TempDir()
	f := startLogind(t, run, startBus(t, run))
	h := New(Options{RunRoot: run})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := await(ctx, h, false, time.Second)
	<-f.asked
	lock := <-f.locks
	cancel()
	if got := <-waits; got.is || !errors.Is(got.err, context.Canceled) {
		t.Errorf("given up: %+v", got)
	}
	if lock.held(t, time.Minute) {
		t.Error("a caller that has gone delays the host")
	}

	f.prepare(t, true)
	if got := <-await(t.Context(), h, false, time.Second); !got.is || got.err != nil {
		t.Errorf("a shutdown that has begun: %+v", got)
	}
}

// TestAwaitShutdownWithout what tells of it.
func TestAwaitShutdownWithout(t *testing.T) {
	run := t.TempDir()
	h := New(Options{RunRoot: run})
	if got := <-await(t.Context(), h, false, time.Second); !errors.Is(got.err, class.ErrUnsupported) {
		t.Errorf("without D-Bus: %+v", got)
	}
	startBus(t, run)
	if got := <-await(t.Context(), h, false, time.Second); !errors.Is(got.err, class.ErrUnsupported) {
		t.Errorf("without logind: %+v", got)
	}
}
