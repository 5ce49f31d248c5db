package local

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Whoever sees to a node's pods attends to it: a lock that many may share, of a file below
// /run, which the kernel frees with the process. While it is held no keeper evicts a pod, so
// what was read of evictions stays true: also where the session before has not ended yet,
// and leaves a keeper when it does.

// attendFile is where the lock of a node stands.
func (h *Host) attendFile(root, node string) string {
	hash := fnv.New64a()
	_, _ = io.WriteString(hash, root+"\x00"+node) // it never fails
	return filepath.Join(h.opts.RunRoot, fmt.Sprintf("burstlet-attend-%016x.lock", hash.Sum64()))
}

// attend holds the node's lock until [Host.Leave]. It waits for a keeper that records an
// eviction. Where /run cannot be written there is no lock, and no keeper evicts.
func (h *Host) attend(ctx context.Context, root, node string) error {
	path := h.attendFile(root, node)
	h.keepMu.Lock()
	held := h.attended[path] != nil
	h.keepMu.Unlock()
	if held {
		return nil
	}
	for {
		f, err := openAttend(path)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("lock the node's pods: %w", err)
		}
		if err := lock(ctx, f, unix.LOCK_SH); err != nil {
			return err
		}
		err = stillThere(f)
		if err == nil {
			return h.keepAttending(path, f)
		}
		if err = errors.Join(f.Close(), ignoreMissing(err)); err != nil {
			return fmt.Errorf("lock the node's pods: %w", err)
		}
	}
}

func openAttend(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
}

// keepAttending remembers a lock, of which one is enough.
func (h *Host) keepAttending(path string, f *os.File) error {
	h.keepMu.Lock()
	defer h.keepMu.Unlock()
	if h.attended[path] != nil {
		return f.Close()
	}
	if h.attended == nil {
		h.attended = map[string]*os.File{}
	}
	h.attended[path] = f
	return nil
}

// Leave ends the attendance to all nodes: from then on keepers may evict.
func (h *Host) Leave() error {
	h.keepMu.Lock()
	defer h.keepMu.Unlock()
	var errs []error
	for _, f := range h.attended {
		errs = append(errs, leaveLock(f))
	}
	h.attended = nil
	return errors.Join(errs...)
}

// alone takes the node's lock if no other process holds it, and returns nil otherwise.
func (h *Host) alone(root, node string) (*os.File, error) {
	f, err := openAttend(h.attendFile(root, node))
	if err != nil {
		return nil, fmt.Errorf("lock the node's pods: %w", err)
	}
	err = flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = stillThere(f)
	}
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, fs.ErrNotExist):
		return nil, f.Close()
	default:
		return nil, errors.Join(fmt.Errorf("lock the node's pods: %w", err), f.Close())
	}
}

// leaveLock releases a lock, and removes its file unless another process holds the lock:
// burstlet leaves nothing behind on a host.
func leaveLock(f *os.File) error {
	var err error
	if flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && stillThere(f) == nil {
		err = ignoreMissing(os.Remove(f.Name()))
	}
	return errors.Join(err, f.Close())
}
