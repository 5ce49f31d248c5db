package binaries

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockPoll is how often a held lock is tried again. flock cannot be cancelled,
// so it is polled instead of waited for.
const lockPoll = 200 * time.Millisecond

// lock takes the cache's lock, which the kernel frees when its holder dies.
func (c *Cache) lock(ctx context.Context) (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(c.dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	timer := time.NewTicker(lockPoll)
	defer timer.Stop()
	for waiting := false; ; waiting = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f.Close, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
		}
		if !waiting {
			c.printf("waiting for another build in %s", c.dir)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), ctx.Err()), f.Close())
		case <-timer.C:
		}
	}
}
