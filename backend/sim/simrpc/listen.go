package simrpc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// probeTimeout bounds the question whether somebody serves a socket.
const probeTimeout = time.Second

// Listen makes the socket with mode 0600: whoever may open it may do everything
// that the remote can. A socket that a process which is gone left behind is
// replaced; one that is served is not, nor is anything that is no socket. A file
// beside it, path + ".lock", keeps two servers that start at once apart; it
// stays. Closing the listener removes the socket.
func Listen(ctx context.Context, path string) (net.Listener, error) {
	l, err := listen(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return l, nil
}

func listen(ctx context.Context, path string) (net.Listener, error) {
	lock, err := takeLock(path + ".lock")
	if err != nil {
		return nil, err
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	// The mode is set before the socket has a name, so that it is never open to
	// others (Linux: bind takes the inode's mode).
	cfg := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		if err := c.Control(func(fd uintptr) { failed = syscall.Fchmod(int(fd), 0o600) }); err != nil {
			return err
		}
		return failed
	}}
	l, err := cfg.Listen(ctx, "unix", path)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &lockedListener{l, lock}, nil
}

// takeLock holds a file that the kernel lets go of with the process.
func takeLock(path string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("another process serves it")
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// removeStale removes a socket that nobody serves, which only a program that
// does not know the lock could do.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is something else than a socket")
	}
	dialer := net.Dialer{Timeout: probeTimeout}
	conn, err := dialer.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(errors.New("another process serves it"), conn.Close())
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return fmt.Errorf("see whether another process serves it: %w", err)
}

// lockedListener lets go of the lock after the socket.
type lockedListener struct {
	net.Listener
	lock *os.File
}

// Close removes the socket.
func (l *lockedListener) Close() error { return errors.Join(l.Listener.Close(), l.lock.Close()) }
