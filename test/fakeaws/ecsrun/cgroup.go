package ecsrun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// cgroups makes one cgroup for each task below one of this runner. In version 1
// they are in every hierarchy, made by the runtime but for that of memory.
type cgroups struct {
	roots  []string // of the hierarchies
	memory string   // that which bounds memory
	limit  string   // the file that does
	parent string   // of this runner's tasks, from a root
}

// cgroupsOf holds those of all runners, named after their process and their number
// in it. It stays, empty: others may be about to use it.
const cgroupsOf = "burstlet-ecs"

var runners atomic.Uint64 // numbers them, for the kernel keeps names by process

// newCgroups makes those below a root, and removes what processes that were killed
// left there, too.
func newCgroups(root string) (cgroups, error) {
	c := cgroups{parent: filepath.Join(cgroupsOf, fmt.Sprintf("%d-%d", os.Getpid(), runners.Add(1)))}
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		c.roots, c.memory, c.limit = []string{root}, root, "memory.max"
	} else {
		entries, err := os.ReadDir(root)
		if err != nil {
			return cgroups{}, fmt.Errorf("list cgroup hierarchies: %w", err)
		}
		for _, e := range entries {
			if e.IsDir() {
				c.roots = append(c.roots, filepath.Join(root, e.Name()))
			}
		}
		c.memory, c.limit = filepath.Join(root, "memory"), "memory.limit_in_bytes"
	}
	return c, c.sweep()
}

// sweep removes the cgroups of processes that are gone.
func (c cgroups) sweep() error {
	var errs []error
	for _, root := range c.roots {
		entries, err := os.ReadDir(filepath.Join(root, cgroupsOf))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list cgroups of tasks: %w", err)
		}
		for _, e := range entries {
			pid, _, ok := strings.Cut(e.Name(), "-")
			if _, err := os.Stat(filepath.Join("/proc", pid)); !ok || err == nil {
				continue
			}
			dir := filepath.Join(root, cgroupsOf, e.Name())
			tasks, err := os.ReadDir(dir)
			errs = append(errs, err)
			for _, t := range tasks {
				if t.IsDir() {
					errs = append(errs, removeCgroup(filepath.Join(dir, t.Name())))
				}
			}
			errs = append(errs, removeCgroup(dir))
		}
	}
	return errors.Join(errs...)
}

// path is a task's cgroup for CRI.
func (c cgroups) path(task string) string { return "/" + filepath.Join(c.parent, task) }

// make bounds the memory of a task.
func (c cgroups) make(task string, memoryMiB int) error {
	dir := filepath.Join(c.memory, c.path(task))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	if c.limit == "memory.max" { // version 2 wants the controller enabled on the way
		for _, at := range []string{c.memory, filepath.Join(c.memory, cgroupsOf), filepath.Join(c.memory, c.parent)} {
			if err := os.WriteFile(filepath.Join(at, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
				return fmt.Errorf("enable memory controller: %w", err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, c.limit), []byte(strconv.Itoa(memoryMiB<<20)), 0); err != nil {
		return fmt.Errorf("bound memory of task: %w", err)
	}
	return nil
}

// remove removes a task's cgroups, which are empty or about to be.
func (c cgroups) remove(ctx context.Context, task string) error {
	var errs []error
	for _, root := range c.roots {
		dir := filepath.Join(root, c.path(task))
		errs = append(errs, retry(ctx, func() error { return removeCgroup(dir) }))
	}
	return errors.Join(errs...)
}

// close removes that of this runner.
func (c cgroups) close() error {
	var errs []error
	for _, root := range c.roots {
		errs = append(errs, removeCgroup(filepath.Join(root, c.parent)))
	}
	return errors.Join(errs...)
}

func removeCgroup(dir string) error {
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove cgroup: %w", err)
	}
	return nil
}

// retryInterval is how often something is tried that waits for the kernel or for
// containerd, which tell nobody.
const retryInterval = 20 * time.Millisecond

// retry calls f until it succeeds or ctx ends.
func retry(ctx context.Context, f func() error) error {
	ticker := time.NewTicker(retryInterval)
	defer ticker.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}
