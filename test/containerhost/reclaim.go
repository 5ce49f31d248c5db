package containerhost

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// dirPrefix starts the names of state directories that Start chose.
const dirPrefix = "blhost-"

// lockDir marks a state directory as in use for as long as its owner lives.
// It fails with EWOULDBLOCK while another owner lives.
func lockDir(dir string) (*os.File, error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock state directory: %w", err), file.Close())
	}
	return file, nil
}

// shareMounts makes what is mounted below dir from now on visible to mount
// namespaces that are made from now on.
func shareMounts(dir string) error {
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind state directory: %w", err)
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share state directory: %w", err)
	}
	return nil
}

// sweep reclaims the state directories in parent whose owner was killed. Their
// processes are gone already.
func sweep(parent string) error {
	dirs, err := filepath.Glob(filepath.Join(parent, dirPrefix+"*"))
	if err != nil {
		return fmt.Errorf("list state directories: %w", err)
	}
	var errs []error
	for _, dir := range dirs {
		l := layout{dir: dir}
		// An owner locks before it marks, so an unlocked mark has no owner.
		if _, err := os.Stat(l.marker()); err != nil {
			continue
		}
		lock, err := lockDir(dir)
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, reclaim(l), lock.Close())
	}
	return errors.Join(errs...)
}

// reclaim removes what is left of a host whose processes are gone.
func reclaim(l layout) error {
	return errors.Join(removeCgroups(l), unmountBelow(l.dir), removeDir(l.dir))
}

func removeDir(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove state directory: %w", err)
	}
	return nil
}

// mount is what a line of /proc/self/mountinfo says (proc(5)).
type mount struct{ point, fsType string }

func mounts() ([]mount, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("open list of mounts: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var found []mount
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(rest) == 0 {
			return nil, fmt.Errorf("parse list of mounts: unexpected line %q", lines.Text())
		}
		found = append(found, mount{point: unescape.Replace(fields[4]), fsType: rest[0]})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read list of mounts: %w", err)
	}
	return found, nil
}

// unmountBelow unmounts dir and all below it, what was mounted last first.
func unmountBelow(dir string) error {
	all, err := mounts()
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range slices.Backward(all) {
		if m.point != dir && !strings.HasPrefix(m.point, dir+"/") {
			continue
		}
		// Detached: a reader's open file below must not keep the mount.
		if err := unix.Unmount(m.point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", m.point, err))
		}
	}
	return errors.Join(errs...)
}

// removeCgroups removes the cgroups of containers that the runtime was not
// alive to remove, in every hierarchy, found by the containers' ids.
func removeCgroups(l layout) error {
	ids := map[string]bool{}
	for _, kind := range []string{"sandboxes", "containers"} {
		// The CRI plugin keeps a directory for each until it is removed.
		dirs, err := filepath.Glob(filepath.Join(l.root(), "io.containerd.grpc.v1.cri", kind, "*"))
		if err != nil {
			return fmt.Errorf("list %s: %w", kind, err)
		}
		for _, dir := range dirs {
			ids[filepath.Base(dir)] = true
		}
	}
	if len(ids) == 0 {
		return nil
	}
	all, err := mounts()
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range all {
		if m.fsType == "cgroup" || m.fsType == "cgroup2" {
			errs = append(errs, removeNamed(m.point, ids))
		}
	}
	return errors.Join(errs...)
}

// removeNamed removes the cgroups below root whose name is a key of names.
func removeNamed(root string, names map[string]bool) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // others' cgroups come and go
		}
		if err != nil {
			return fmt.Errorf("walk cgroups: %w", err)
		}
		if !entry.IsDir() || !names[entry.Name()] {
			return nil
		}
		if err := unix.Rmdir(path); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove cgroup %s: %w", path, err)
		}
		return fs.SkipDir
	})
}
