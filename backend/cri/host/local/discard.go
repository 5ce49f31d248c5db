package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// Discard implements [host.Host]. A tree in which something is still mounted keeps
// that, and says so.
func (h *Host) Discard(ctx context.Context, d host.Discard) (done host.Discarded, _ error) {
	if err := h.led(ctx); err != nil {
		return done, err
	}
	var errs []error
	for _, path := range d.Unmount {
		path, err := realPath(path)
		if err == nil {
			err = h.unmountBelow(ctx, path)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	// Before the trees: a mark in them may be its only trace, and stays while the cgroup does.
	discardTree := removeTree
	if d.Cgroup != nil {
		began := time.Now()
		err := h.removeCgroup(ctx, *d.Cgroup, killed)
		if done.Cgroup = time.Since(began); err != nil {
			errs = append(errs, fmt.Errorf("discard: %w", err))
			discardTree = removeAllButMark
		}
	}
	if d.Left != nil {
		if err := h.removeLeftovers(ctx, *d.Left); err != nil {
			errs = append(errs, fmt.Errorf("discard: %w", err))
		}
	}
	for _, path := range d.Trees {
		if err := discardTree(ctx, path); err != nil {
			errs = append(errs, err)
		}
	}
	for _, log := range d.RotatedLogs {
		if err := removeRotated(log); err != nil {
			errs = append(errs, fmt.Errorf("discard rotated files of log %s: %w", log, err))
		}
	}
	return done, errors.Join(errs...)
}

// removeAllButMark removes what a directory of logs has but the mark, by which [Host.Sweep]
// finds the cgroup that was made with it. What has no mark goes whole.
func removeAllButMark(ctx context.Context, path string) error {
	if info, err := os.Lstat(filepath.Join(path, host.LogMark)); err != nil || !info.Mode().IsRegular() {
		return removeTree(ctx, path)
	}
	entries, err := readDir(path)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.Name() == host.LogMark {
			continue
		}
		if err := removeTree(ctx, filepath.Join(path, e.Name())); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func removeRotated(log string) error {
	files, err := rotatedFiles(log)
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
