package local

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// earlierCalls bounds how long a call waits for those that an earlier process left.
	earlierCalls = time.Minute
	// earlierPoll is how often the lock is tried: flock cannot wait with a timeout.
	earlierPoll = 20 * time.Millisecond
	// locksFile, below /run, is there while calls are under way.
	locksFile = "burstlet-calls.lock"
)

// turns are locks between processes, one for each owner of calls that are under way:
// bytes of one file, which the kernel frees with the process.
type turns struct {
	mu   sync.Mutex
	open map[string]*turn
}

// turn is one owner's lock, which all calls of this process share.
type turn struct {
	calls int
	// taken is closed when file is the lock that is held, or nil where there is none,
	// or when err says why it is not held.
	taken chan struct{}
	file  *os.File
	err   error
}

// begin notes that a call for an owner begins, after those of other processes.
// Errors: ctx ended, or the lock cannot be taken.
func (h *Host) begin(ctx context.Context, owner string) error {
	if owner == "" {
		return nil
	}
	t, first := h.join(owner)
	if first {
		t.file, t.err = h.take(ctx, owner)
		close(t.taken)
	}
	var err error
	select {
	case <-t.taken:
		err = t.err
	case <-ctx.Done():
		err = fmt.Errorf("wait for calls of an earlier process: %w", context.Cause(ctx))
	}
	if err != nil {
		h.finish(owner)
	}
	return err
}

// join counts one more call, and says whether it is the first, which takes the lock.
func (h *Host) join(owner string) (t *turn, first bool) {
	h.turns.mu.Lock()
	defer h.turns.mu.Unlock()
	if h.turns.open == nil {
		h.turns.open = map[string]*turn{}
	}
	t = h.turns.open[owner]
	if t == nil {
		t, first = &turn{taken: make(chan struct{})}, true
		h.turns.open[owner] = t
	}
	t.calls++
	return t, first
}

// finish notes that a call has ended.
func (h *Host) finish(owner string) {
	if owner == "" {
		return
	}
	h.turns.mu.Lock()
	t := h.turns.open[owner]
	t.calls--
	last := t.calls == 0
	if last {
		delete(h.turns.open, owner)
	}
	h.turns.mu.Unlock()
	if last {
		<-t.taken
		h.release(t.file)
	}
}

// take waits for the lock, a minute at most: what still runs then is met at the
// runtime, which refuses a second call for one name. Where /run cannot be written, as in
// a container without rights, there is no lock.
func (h *Host) take(ctx context.Context, owner string) (*os.File, error) {
	bound := time.NewTimer(earlierCalls)
	defer bound.Stop()
	poll := time.NewTicker(earlierPoll)
	defer poll.Stop()
	for {
		file, err := h.tryLock(owner)
		switch {
		case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
			return nil, nil //nolint:nilnil // the caller knows a file from none
		case err != nil:
			return nil, fmt.Errorf("lock the calls of one owner: %w", err)
		case file != nil:
			return file, nil
		}
		select {
		case <-poll.C:
		case <-bound.C:
			return nil, nil //nolint:nilnil // as above
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for calls of an earlier process: %w", context.Cause(ctx))
		}
	}
}

// tryLock is nil without an error where another process holds the lock, or has just
// removed the file.
func (h *Host) tryLock(owner string) (*os.File, error) {
	path := filepath.Join(h.opts.RunRoot, locksFile)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(owner)) // it never fails
	err = lockRange(file, int64(hash.Sum64()&(math.MaxInt64>>1)), 1)
	if err == nil {
		var held, there os.FileInfo
		if held, err = file.Stat(); err == nil {
			there, err = os.Lstat(path)
		}
		if err == nil && os.SameFile(held, there) {
			return file, nil
		}
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) || errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return nil, errors.Join(err, file.Close())
}

// lockRange locks bytes of a file for whoever has it open (F_OFD_SETLK); none are from the
// first to the end of all files.
func lockRange(file *os.File, start, bytes int64) error {
	return setRange(file, unix.F_WRLCK, start, bytes)
}

func setRange(file *os.File, kind int16, start, bytes int64) error {
	where := unix.Flock_t{Type: kind, Start: start, Len: bytes}
	return unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &where)
}

// release releases a lock, and removes the file unless another lock on it is held:
// burstlet leaves nothing behind on a host. If that fails, an empty file stays in /run.
func (h *Host) release(file *os.File) {
	if file == nil {
		return
	}
	// Its own lock first: of two that are released at once, each would see the other's.
	if setRange(file, unix.F_UNLCK, 0, 0) == nil && lockRange(file, 0, 0) == nil {
		_ = os.Remove(filepath.Join(h.opts.RunRoot, locksFile))
	}
	_ = file.Close()
}
