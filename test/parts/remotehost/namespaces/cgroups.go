package namespaces

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CgroupRoots are the mount points of every cgroup hierarchy, of version 1 or 2.
func CgroupRoots() ([]string, error) {
	all, err := Mounts()
	if err != nil {
		return nil, err
	}
	var roots []string
	for _, m := range all {
		if m.FSType == "cgroup" || m.FSType == "cgroup2" {
			roots = append(roots, m.Point)
		}
	}
	return roots, nil
}

// MakeCgroups makes a cgroup at the top of every hierarchy, ready for processes.
func MakeCgroups(name string) error {
	roots, err := CgroupRoots()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := delegate(root); err != nil {
			return err
		}
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("make cgroup: %w", err)
		}
		if err := copyCpuset(root, dir); err != nil {
			return err
		}
	}
	return nil
}

// delegate lets the cgroups of a machine with version 2 alone have every
// controller, as runc does where it sees the machine's root.
func delegate(root string) error {
	if root != "/sys/fs/cgroup" {
		return nil
	}
	controllers, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("list controllers: %w", err)
	}
	for _, controller := range strings.Fields(string(controllers)) {
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+controller), 0o644); err != nil {
			return fmt.Errorf("enable controller %s: %w", controller, err)
		}
	}
	return nil
}

// copyCpuset lets processes into a cgroup of version 1: a new cpuset allows
// nothing.
func copyCpuset(parent, dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		allowed, err := os.ReadFile(filepath.Join(parent, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), allowed, 0o644)
		}
		if err != nil {
			return fmt.Errorf("set up cpuset: %w", err)
		}
	}
	return nil
}

// emptyTimeout is how long the processes of a killed owner may take to end.
const emptyTimeout = time.Minute

// pollInterval is how often that is looked at.
const pollInterval = 10 * time.Millisecond

// RemoveCgroupTrees removes what MakeCgroups made with all that came to be
// below it. Processes there must be gone or ending.
func RemoveCgroupTrees(name string) error {
	roots, err := CgroupRoots()
	errs := []error{err}
	for _, root := range roots {
		var dirs []string
		walkErr := filepath.WalkDir(filepath.Join(root, name), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		if walkErr != nil && !errors.Is(walkErr, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("walk cgroups: %w", walkErr))
		}
		for _, dir := range slices.Backward(dirs) {
			errs = append(errs, removeCgroup(dir))
		}
	}
	return errors.Join(errs...)
}

// removeCgroup waits for processes that are ending.
func removeCgroup(dir string) error {
	deadline := time.Now().Add(emptyTimeout)
	for {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		}
		time.Sleep(pollInterval)
	}
}
