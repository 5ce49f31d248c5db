package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// unmountPatience is how long a plain unmount may take before stronger means: a
// file server that has gone holds it forever. A kubelet waits a minute.
const unmountPatience = 10 * time.Second

// unmountBelow unmounts everything at and below a path, deepest first.
func (h *Host) unmountBelow(ctx context.Context, path string) error {
	left := -1
	for {
		table, err := h.mounts()
		if err != nil {
			return err
		}
		below := table.below(path)
		if len(below) == 0 {
			return nil
		}
		// One that hides others shows them once it is gone; when nothing goes any
		// more, the last round's errors are those that count.
		var errs []error
		if err := below.part(ctx); err != nil {
			return err
		}
		stuck := left >= 0 && len(below) >= left
		left = len(below)
		for _, m := range below {
			if err := unmount(ctx, m); err != nil {
				errs = append(errs, err)
			}
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("unmount %s: %w", path, errors.Join(append(errs, err)...))
		}
		if stuck && len(errs) > 0 {
			return errors.Join(errs...)
		}
	}
}

// part keeps what is unmounted below these to them: a bind mount shares what is
// mounted below it with its source, which is the host's.
func (t mountTable) part(ctx context.Context) error {
	for _, m := range t {
		if !m.shared || !slices.ContainsFunc(t, func(other mountPoint) bool { return other.parent == m.id }) {
			continue
		}
		err := patiently(ctx, "make a slave of mount "+m.path, func() error {
			return unix.Mount("", m.path, "", unix.MS_SLAVE, "")
		})
		// One that is hidden comes in a later round. One whose server is gone cannot be
		// reached, nor can what is below it: it is taken out of sight as a whole.
		switch {
		case err == nil, errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		default:
			return fmt.Errorf("make a slave of mount %s: %w", m.path, err)
		}
	}
	return nil
}

// unmount unmounts one: first as usual, then by force where that means something,
// then by taking it out of sight, for the kernel to end it with its last user.
func unmount(ctx context.Context, m mountPoint) error {
	err := umount2(ctx, m.path, 0)
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return err
	}
	if m.nfs() {
		if umount2(ctx, m.path, unix.MNT_FORCE) == nil {
			return nil
		}
	}
	return umount2(ctx, m.path, unix.MNT_DETACH)
}

func umount2(ctx context.Context, path string, flags int) error {
	return patiently(ctx, "unmount "+path, func() error {
		if err := unix.Unmount(path, flags|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
		return nil
	})
}

// patiently takes at most a share of what ctx leaves, so that stronger means get
// theirs.
func patiently(ctx context.Context, what string, step func() error) error {
	patience := unmountPatience
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline)/3)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return bounded(ctx, what, step)
}
