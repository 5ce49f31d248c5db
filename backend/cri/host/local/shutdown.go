package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/class"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/pause"
)

// logind on the system bus (org.freedesktop.login1(5)), and the manager that reloads it.
const (
	logindName     = "org.freedesktop.login1"
	logindPath     = dbus.ObjectPath("/org/freedesktop/login1")
	logindManager  = "org.freedesktop.login1.Manager"
	prepareSignal  = "PrepareForShutdown"
	systemdName    = "org.freedesktop.systemd1"
	systemdPath    = dbus.ObjectPath("/org/freedesktop/systemd1")
	systemdManager = "org.freedesktop.systemd1.Manager"
)

const (
	// delayFile is gone with the next boot; a kubelet's, in /etc, stays.
	delayFile = "systemd/logind.conf.d/99-burstlet.conf"
	// delayFormat is what stands there, with the seconds.
	delayFormat = "# burstlet\n[Login]\nInhibitDelayMaxSec=%d\n"
	// reloadTries is how often logind is asked whether it has read delayFile, each time
	// after twice as long as before.
	reloadTries = 6
	reloadFirst = 50 * time.Millisecond

	inhibitTimeout = 10 * time.Second
)

// shutdownLock is an inhibitor lock of logind's.
type shutdownLock struct {
	mu sync.Mutex
	fd int
	is bool
}

// take keeps a lock in the place of the one before.
func (l *shutdownLock) take(fd int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.let()
	l.fd, l.is = fd, true
	return err
}

// release lets the host go on.
func (l *shutdownLock) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.let()
}

func (l *shutdownLock) let() error {
	if !l.is {
		return nil
	}
	l.is = false
	if err := unix.Close(l.fd); err != nil {
		return fmt.Errorf("let the lock that delays shutdowns go: %w", err)
	}
	return nil
}

// logind is a connection to it.
type logind struct {
	bus *dbus.Conn
	dbus.BusObject
}

// AwaitShutdown implements [host.Host].
func (h *Host) AwaitShutdown(ctx context.Context, r host.ShutdownRequest) (is bool, err error) {
	l, err := h.logind()
	if err != nil {
		return r.Was, err
	}
	defer func() { err = errors.Join(err, l.bus.Close()) }()
	signals := make(chan *dbus.Signal, 16)
	l.bus.Signal(signals)
	if err := l.bus.AddMatchSignalContext(ctx, dbus.WithMatchInterface(logindManager),
		dbus.WithMatchMember(prepareSignal), dbus.WithMatchObjectPath(logindPath)); err != nil {
		return r.Was, fmt.Errorf("watch systemd-logind: %w", err)
	}
	if r.Was {
		if err := h.delay.release(); err != nil {
			return r.Was, err
		}
	}
	is, err = l.preparing(ctx)
	if !r.Was && err == nil && !is {
		if err = h.delayShutdown(ctx, l, r.Delay); err == nil {
			is, err = l.preparing(ctx) // it may have begun before there was a lock
		}
	}
	if err == nil && is == r.Was {
		is, err = awaitSignal(ctx, signals, r.Was)
	}
	if err != nil && !r.Was {
		return r.Was, errors.Join(err, h.delay.release())
	}
	return is, err
}

// awaitSignal returns once logind says otherwise.
func awaitSignal(ctx context.Context, signals <-chan *dbus.Signal, was bool) (bool, error) {
	for {
		select {
		case <-ctx.Done():
			return was, fmt.Errorf("await the host's shutdown: %w", context.Cause(ctx))
		case s, ok := <-signals:
			if !ok {
				return was, class.Errorf(class.ErrUnavailable, "the connection to the host's D-Bus ended")
			}
			if len(s.Body) != 1 || s.Name != logindManager+"."+prepareSignal {
				continue
			}
			if is, ok := s.Body[0].(bool); ok && is != was {
				return is, nil
			}
		}
	}
}

// logind connects to the system bus.
func (h *Host) logind() (*logind, error) {
	socket := filepath.Join(h.opts.RunRoot, "dbus/system_bus_socket")
	bus, err := dbus.Connect("unix:path=" + dbus.EscapeBusAddressValue(socket))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, class.Errorf(
			class.ErrUnsupported, "no D-Bus at %s, over which systemd-logind tells of shutdowns: %w", socket, err,
		)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the host's D-Bus: %w", err)
	}
	return &logind{bus, bus.Object(logindName, logindPath)}, nil
}

// property reads one of logind's.
func property[T any](ctx context.Context, l *logind, name string) (T, error) {
	var value T
	err := l.CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, logindManager, name).Store(&value)
	if e, ok := errors.AsType[dbus.Error](err); ok && e.Name == "org.freedesktop.DBus.Error.ServiceUnknown" {
		return value, class.Errorf(
			class.ErrUnsupported, "systemd-logind, which tells of shutdowns, does not run on the host: %w", err,
		)
	}
	if err != nil {
		return value, fmt.Errorf("ask systemd-logind for %s: %w", name, err)
	}
	return value, nil
}

func (l *logind) preparing(ctx context.Context) (bool, error) {
	return property[bool](ctx, l, "PreparingForShutdown")
}

// delayShutdown takes the lock, once logind allows it to last as long as is wanted.
func (h *Host) delayShutdown(ctx context.Context, l *logind, delay time.Duration) error {
	if err := h.allowDelay(ctx, l, delay); err != nil {
		return err
	}
	var fd dbus.UnixFD
	// If the call ended with its caller, a lock that arrives later would never be released.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), inhibitTimeout)
	defer cancel()
	err := l.CallWithContext(ctx, logindManager+".Inhibit", 0,
		"shutdown", "burstlet", "burstlet ends its pods before the host goes down", "delay").Store(&fd)
	if err != nil {
		return fmt.Errorf("take a lock of systemd-logind: %w", err)
	}
	unix.CloseOnExec(int(fd)) // programs that are started here must not hold it
	return h.delay.take(int(fd))
}

// allowDelay makes logind's InhibitDelayMaxSec as long as is wanted, as a kubelet does.
func (h *Host) allowDelay(ctx context.Context, l *logind, delay time.Duration) error {
	most, err := l.mostDelay(ctx)
	if err != nil || most >= delay {
		return err
	}
	path := filepath.Join(h.opts.RunRoot, delayFile)
	seconds := (delay + time.Second - 1) / time.Second
	if _, err := h.Prepare(ctx, host.Preparation{
		Dirs:   []string{filepath.Dir(path)},
		Writes: []host.Write{{Path: path, Data: fmt.Appendf(nil, delayFormat, seconds), Mode: 0o644}},
	}); err != nil {
		return fmt.Errorf("let shutdowns wait for %s: %w", delay, err)
	}
	if err := l.bus.Object(systemdName, systemdPath).CallWithContext(ctx, systemdManager+".KillUnit", 0,
		"systemd-logind.service", "all", int32(unix.SIGHUP)).Err; err != nil {
		return fmt.Errorf("reload systemd-logind: %w", err)
	}
	wait := reloadFirst
	for range reloadTries {
		if most, err = l.mostDelay(ctx); err != nil || most >= delay {
			return err
		}
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
		wait *= 2
	}
	return fmt.Errorf(
		"systemd-logind lets shutdowns wait for %s at most, not for %s: set InhibitDelayMaxSec=%d in logind.conf(5)", most,
		delay, seconds,
	)
}

// ShutdownDelay implements [host.Host].
func (h *Host) ShutdownDelay(ctx context.Context) (delay host.ShutdownDelay, err error) {
	l, err := h.logind()
	if err != nil {
		return host.ShutdownDelay{}, err
	}
	defer func() { err = errors.Join(err, l.bus.Close()) }()
	if delay.Most, err = l.mostDelay(ctx); err != nil {
		return host.ShutdownDelay{}, err
	}
	data, err := os.ReadFile(filepath.Join(h.opts.RunRoot, delayFile))
	if errors.Is(err, fs.ErrNotExist) {
		return delay, nil
	}
	var seconds int64
	if err == nil {
		_, err = fmt.Sscanf(string(data), delayFormat, &seconds)
	}
	if err != nil {
		return host.ShutdownDelay{}, fmt.Errorf("read what shutdowns were to wait: %w", err)
	}
	delay.Asked = time.Duration(seconds) * time.Second
	return delay, nil
}

func (l *logind) mostDelay(ctx context.Context) (time.Duration, error) {
	microseconds, err := property[uint64](ctx, l, "InhibitDelayMaxUSec")
	return time.Duration(microseconds) * time.Microsecond, err //nolint:gosec // 292,000 years
}
