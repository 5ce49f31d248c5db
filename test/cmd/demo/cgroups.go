package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	cgroupRoot = "/sys/fs/cgroup"
	// cgroupPrefix is followed by the id of the process whose cgroup it is.
	cgroupPrefix = "burstlet-demo-"
)

// ownCgroup is the name of the cgroup above this process's containers.
func ownCgroup() string { return cgroupPrefix + strconv.Itoa(os.Getpid()) }

// removeCgroups removes the demo's cgroups below root, this process's own and
// those of demos that were killed. Only empty ones can be removed.
func removeCgroups(root string) error {
	var errs []error
	// Version 2 has one hierarchy, at the root; version 1 one below for each
	// controller.
	for _, pattern := range []string{cgroupPrefix + "*", filepath.Join("*", cgroupPrefix+"*")} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return fmt.Errorf("find cgroups: %w", err)
		}
		for _, dir := range found {
			if name := filepath.Base(dir); name == ownCgroup() || isDead(strings.TrimPrefix(name, cgroupPrefix)) {
				errs = append(errs, removeTree(dir))
			}
		}
	}
	return errors.Join(errs...)
}

func isDead(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err == nil && n > 0 && errors.Is(syscall.Kill(n, 0), syscall.ESRCH)
}

// removeTree removes directories from the deepest up; a cgroup's files are the
// kernel's and go with it.
func removeTree(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		dirs = append(dirs, path)
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list cgroup: %w", err)
	}
	for _, d := range slices.Backward(dirs) {
		if err := syscall.Rmdir(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove cgroup %s: %w", d, err)
		}
	}
	return nil
}
