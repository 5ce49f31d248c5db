package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

const (
	// freeing is how long a cgroup may be busy after its last process went.
	freeing = 2 * time.Second
	retry   = 10 * time.Millisecond
)

// inhabitants says what becomes of the processes in a cgroup that is to go. Those
// that are ending get a moment either way.
type inhabitants bool

const (
	spared inhabitants = false // one that stays is an error
	killed inhabitants = true
)

// removeCgroup removes the cgroup of a pod with those below, in every hierarchy.
// Those above stay: other pods come.
func (h *Host) removeCgroup(ctx context.Context, c host.Cgroup, inside inhabitants) error {
	levels, hs, err := h.locate(c)
	if err != nil {
		return err
	}
	if c.Systemd {
		if err := h.stopSlice(ctx, hs, levels, inside); err != nil {
			return fmt.Errorf("remove cgroup %s: %w", c.Parent, err)
		}
	}
	unbounded := ctx
	ctx, cancel := context.WithTimeout(ctx, freeing)
	defer cancel()
	var errs []error
	for _, hi := range hs {
		if err := removeCgroupTree(ctx, hi.at(levels), inside); err != nil {
			errs = append(errs, fmt.Errorf("remove cgroup %s: %w", c.Parent, err))
		}
	}
	if err := h.weighClass(unbounded, hs, levels, c); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// removeLeftovers removes what is left in a pod's cgroup of those that have ended.
func (h *Host) removeLeftovers(ctx context.Context, l host.Leftovers) error {
	_, err := h.removeIn(ctx, l.Cgroup, func(e fs.DirEntry) bool {
		return slices.ContainsFunc(l.IDs, func(id string) bool { return id != "" && strings.Contains(e.Name(), id) })
	})
	return err
}

// containerID is what containerd and CRI-O call containers: in the name of a cgroup it
// stands alone, or within that of a scope.
var containerID = regexp.MustCompile("[0-9a-f]{64}")

// Strays implements [host.Host].
func (h *Host) Strays(ctx context.Context, pods []host.Known) ([]string, error) {
	if err := h.led(ctx); err != nil {
		return nil, err
	}
	before := time.Now().Add(-sweepAge)
	var removed []string
	var errs []error
	for _, pod := range pods {
		if err := ctx.Err(); err != nil {
			return removed, errors.Join(append(errs, err)...)
		}
		names, err := h.removeIn(ctx, pod.Cgroup, func(e fs.DirEntry) bool {
			id := containerID.FindString(e.Name())
			return id != "" && !slices.Contains(pod.IDs, id) && olderThan(e, before)
		})
		removed = append(removed, names...)
		if err != nil {
			errs = append(errs, err)
		}
	}
	return removed, errors.Join(errs...)
}

// removeIn removes cgroups directly below a pod's, in every hierarchy, with what runs there,
// and returns their names.
func (h *Host) removeIn(
	ctx context.Context, pod host.Cgroup, goes func(fs.DirEntry) bool,
) (removed []string, err error) {
	levels, hs, err := h.locate(pod)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, freeing)
	defer cancel()
	var errs []error
	for _, hi := range hs {
		dir := hi.at(levels)
		below, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("look into cgroup %s: %w", pod.Parent, err))
		}
		for _, e := range below {
			if !e.IsDir() || !goes(e) {
				continue
			}
			if err := removeCgroupTree(ctx, filepath.Join(dir, e.Name()), killed); err != nil {
				errs = append(errs, fmt.Errorf("remove cgroup %s of %s: %w", e.Name(), pod.Parent, err))
				continue
			}
			if !slices.Contains(removed, e.Name()) {
				removed = append(removed, e.Name())
			}
		}
	}
	return removed, errors.Join(errs...)
}

// removeCgroupTree removes a cgroup with those below, deepest first, and tries again
// while the kernel holds it.
func removeCgroupTree(ctx context.Context, dir string, inside inhabitants) error {
	tick := time.NewTicker(retry)
	defer tick.Stop()
	for {
		err := removeCgroupDirs(dir)
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		select {
		case <-ctx.Done():
			if pids := processesBelow(dir); len(pids) > 0 {
				return fmt.Errorf("%w: processes %s still stand in it", err, strings.Join(pids, ", "))
			}
			return err
		case <-tick.C:
		}
		if inside == killed {
			kill(processesBelow(dir))
		}
	}
}

// kill sends SIGKILL to processes. Those that have gone need none, and one that
// cannot be killed is reported with the cgroup that it keeps.
func kill(pids []string) {
	for _, pid := range pids {
		// 0 is one that this PID namespace does not have: as a pid it would be ourselves.
		if n, err := strconv.Atoi(pid); err == nil && n > 1 {
			_ = unix.Kill(n, unix.SIGKILL)
		}
	}
}

// removeCgroupDirs removes directories alone: the files of a cgroup are the kernel's
// and go with it.
func removeCgroupDirs(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := removeCgroupDirs(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// processesBelow are those of a cgroup and of all below; one that has gone has
// none.
func processesBelow(dir string) []string {
	pids, err := words(filepath.Join(dir, fileProcs))
	if err != nil {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return pids
	}
	for _, e := range entries {
		if e.IsDir() {
			pids = append(pids, processesBelow(filepath.Join(dir, e.Name()))...)
		}
	}
	return pids
}
