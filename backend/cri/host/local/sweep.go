package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// sweepAge is how old what is removed must be: younger ones may belong to a pod
// that the caller has just begun to make.
const sweepAge = time.Minute

// Sweep implements [host.Host].
func (h *Host) Sweep(ctx context.Context, s host.Sweep) error {
	if err := h.led(ctx); err != nil {
		return err
	}
	before := time.Now().Add(-sweepAge)
	return errors.Join(h.sweepLogs(ctx, s, before), sweepLinks(ctx, s, before))
}

// sweepLogs removes the log directories of pods of this node that are not kept, and
// the cgroups that were made with them.
func (h *Host) sweepLogs(ctx context.Context, s host.Sweep, before time.Time) error {
	entries, err := readDir(s.PodLogs)
	if err != nil {
		return fmt.Errorf("sweep logs: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		dir := filepath.Join(s.PodLogs, e.Name())
		uid, ok := podLogUID(e.Name())
		if !ok || !e.IsDir() || slices.Contains(s.KeepUIDs, uid) || !olderThan(e, before) {
			continue
		}
		mark := markOf(dir)
		if s.Node == "" || mark.Node != s.Node {
			continue
		}
		var err error
		if cgroup := mark.PodCgroup(); cgroup != nil {
			err = h.removeCgroup(ctx, *cgroup, spared)
		}
		if err == nil {
			err = removeLogDir(dir)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep logs: %w", err))
		}
	}
	return errors.Join(errs...)
}

// readDir is empty for a directory that is not there.
func readDir(dir string) ([]os.DirEntry, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// podLogUID takes namespace_name_uid apart.
func podLogUID(name string) (string, bool) {
	parts := strings.Split(name, "_")
	if len(parts) != 3 || slices.Contains(parts, "") {
		return "", false
	}
	return parts[2], true
}

// olderThan is false for what has gone.
func olderThan(e os.DirEntry, before time.Time) bool {
	info, err := e.Info()
	return err == nil && info.ModTime().Before(before)
}

// markOf is the owner of a directory; empty without a mark that can be read.
func markOf(dir string) host.Ownership {
	mark, err := readMark(dir)
	if err != nil {
		return host.Ownership{}
	}
	return mark
}

// removeLogDir removes the mark last, so that a crash leaves what the next sweep
// knows.
func removeLogDir(dir string) error {
	entries, err := readDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == host.LogMark {
			continue
		}
		// It follows no links.
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(dir, host.LogMark)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Remove(dir)
}

// sweepLinks removes the links to logs that are gone.
func sweepLinks(ctx context.Context, s host.Sweep, before time.Time) error {
	entries, err := readDir(s.Links)
	if err != nil {
		return fmt.Errorf("sweep links to logs: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		link := filepath.Join(s.Links, e.Name())
		if e.Type()&fs.ModeSymlink == 0 || !olderThan(e, before) || !leadsNowhere(link, s.PodLogs) {
			continue
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("sweep links to logs: %w", err))
		}
	}
	return errors.Join(errs...)
}

// leadsNowhere is true of a link to a log below root that is gone. One that has
// rotated files is between two of them (kubelet: evictPodLogsDirectories keeps those
// of running containers).
func leadsNowhere(link, root string) bool {
	target, err := os.Readlink(link)
	if err != nil || root == "" || !strings.HasPrefix(filepath.Clean(target), filepath.Clean(root)+"/") {
		return false
	}
	if _, err := os.Stat(target); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	siblings, err := readDir(filepath.Dir(target))
	return err == nil &&
		!slices.ContainsFunc(siblings, func(e os.DirEntry) bool { return isRotated(e, filepath.Base(target)) })
}
