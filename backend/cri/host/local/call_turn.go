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
	// earlierPoll is how often it looks: the kernel wakes nobody who waits with a bound.
	earlierPoll = 20 * time.Millisecond
)

// turns are locks between processes, one for each owner of calls that are under way:
// bytes of one file, which the kernel frees with the process.
type turns struct {
	mu   sync.Mutex
	file *os.File
	open map[string]*turn
}

// turn is one owner's lock, which all calls of this process share.
type turn struct {
	calls int
	// taken is closed when the lock is held, or err says why it is not.
	taken chan struct{}
	err   error
}

// begin notes that a call for an owner begins, after those of other processes.
// Errors: ctx ended, or the lock cannot be taken.
func (h *Host) begin(ctx context.Context, owner string) error {
	if owner == "" {
		return nil
	}
	t, first, err := h.join(owner)
	if err != nil {
		return err
	}
	if first {
		t.err = h.take(ctx, owner)
		close(t.taken)
	}
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
func (h *Host) join(owner string) (t *turn, first bool, err error) {
	h.turns.mu.Lock()
	defer h.turns.mu.Unlock()
	if h.turns.file == nil {
		if h.turns.file, err = openLocks(h.opts.RunRoot); err != nil {
			return nil, false, err
		}
		h.turns.open = map[string]*turn{}
	}
	t = h.turns.open[owner]
	if t == nil {
		t, first = &turn{taken: make(chan struct{})}, true
		h.turns.open[owner] = t
	}
	t.calls++
	return t, first, nil
}

// finish notes that a call has ended.
func (h *Host) finish(owner string) {
	if owner == "" {
		return
	}
	h.turns.mu.Lock()
	defer h.turns.mu.Unlock()
	t := h.turns.open[owner]
	if t.calls--; t.calls > 0 {
		return
	}
	delete(h.turns.open, owner)
	// Giving up a lock fails for a closed file alone, and this one is never closed.
	_ = h.lock(owner, unix.F_UNLCK)
}

// take waits for the lock, a minute at most: what still runs then is met at the
// runtime, which refuses a second call for one name.
func (h *Host) take(ctx context.Context, owner string) error {
	bound := time.NewTimer(earlierCalls)
	defer bound.Stop()
	poll := time.NewTicker(earlierPoll)
	defer poll.Stop()
	for {
		err := h.lock(owner, unix.F_WRLCK)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return err
		}
		select {
		case <-poll.C:
		case <-bound.C:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("wait for calls of an earlier process: %w", context.Cause(ctx))
		}
	}
}

// lock changes the lock of an owner, which is of the open file (F_OFD_SETLK).
func (h *Host) lock(owner string, kind int16) error {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(owner)) // it never fails
	where := unix.Flock_t{Type: kind, Start: int64(hash.Sum64() & (math.MaxInt64 >> 1)), Len: 1}
	if err := unix.FcntlFlock(h.turns.file.Fd(), unix.F_OFD_SETLK, &where); err != nil {
		return fmt.Errorf("lock calls of one owner: %w", err)
	}
	return nil
}

// openLocks opens the file of locks. Where /run cannot be written, as in a container
// without rights, it is a file of this process alone, and processes do not wait for
// each other.
func openLocks(run string) (*os.File, error) {
	dir := filepath.Join(run, "burstlet")
	err := os.MkdirAll(dir, 0o700)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return memoryFile()
	}
	if err != nil {
		return nil, fmt.Errorf("make the directory of locks: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "calls.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the locks of calls: %w", err)
	}
	return file, nil
}

func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("calls.lock", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make the locks of calls: %w", err)
	}
	return os.NewFile(uintptr(fd), "calls.lock"), nil
}
