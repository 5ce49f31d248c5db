package intask

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// link puts the part of a volume where it is mounted: a link, because mounting is
// not possible in a task.
func (s SubPath) link(env []string) error {
	path := s.Path
	if s.Expand {
		var err error
		if path, err = expand(path, env); err != nil {
			return fmt.Errorf("subPathExpr of %s: %w", s.MountPath, err)
		}
	}
	target, err := s.find(path)
	if err != nil {
		return err
	}
	at, err := place(s.MountPath)
	if err != nil {
		return fmt.Errorf("mount subPath %s: %w", path, err)
	}
	if now, err := os.Readlink(at); err == nil && now == target {
		return nil // it ran before
	}
	if err := hide(at); err != nil {
		return err
	}
	if err := os.Symlink(target, at); err != nil {
		return fmt.Errorf("mount subPath %s: %w", path, err)
	}
	return nil
}

// give makes the group the owner of what is made in the volumes (kubelet:
// SetVolumeOwnership).
func (m InMemory) give() error {
	for _, path := range m.Paths {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("fsGroup of %s: %w", path, err)
		}
		if err := os.Chown(path, -1, int(m.Group)); err != nil {
			return fmt.Errorf("fsGroup of %s: %w", path, err)
		}
		if err := os.Chmod(path, info.Mode()|fs.ModeSetgid|0o070); err != nil {
			return fmt.Errorf("fsGroup of %s: %w", path, err)
		}
	}
	return nil
}

// place makes the directory above a mount path, and returns where that is without
// links, as the mounts of the container are told.
func place(mountPath string) (string, error) {
	dir, name := filepath.Split(filepath.Clean(mountPath))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(dir)
	return filepath.Join(dir, name), err
}

// find is where the path is in the volume, in the kubelet's words where it cannot
// be (subpath_linux.go). What is missing is made, with the volume's mode.
func (s SubPath) find(path string) (string, error) {
	if filepath.IsAbs(path) {
		return "", fmt.Errorf("error SubPath `%s` must not be an absolute path", path)
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == ".." {
			return "", fmt.Errorf("unable to provision SubPath `%s`: must not contain '..'", path)
		}
	}
	root, err := os.OpenRoot(s.Volume)
	if err != nil {
		return "", fmt.Errorf("failed to prepare subPath for volumeMount %q: %w", s.MountPath, err)
	}
	_, err = root.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && !s.ReadOnly {
		err = makeIn(root, path)
	}
	if err := errors.Join(err, root.Close()); err != nil {
		return "", fmt.Errorf("failed to prepare subPath for volumeMount %q: %w", s.MountPath, err)
	}
	return filepath.Join(s.Volume, path), nil
}

// makeIn makes a directory and those above it, as open to others as the volume.
func makeIn(root *os.Root, path string) error {
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	mode := info.Mode() & (fs.ModePerm | fs.ModeSetgid | fs.ModeSticky)
	at := ""
	for part := range strings.SplitSeq(filepath.Clean(path), "/") {
		at = filepath.Join(at, part)
		if err := root.Mkdir(at, mode.Perm()); errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return err
		}
		if err := root.Chmod(at, mode); err != nil { // whatever the umask
			return err
		}
	}
	return nil
}

// hide removes from the container's own layer what a mount would have hidden.
// Whatever is mounted there, or below, is not the container's: it stays.
func hide(path string) error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("read the mounts: %w", err)
	}
	if at := mountWithin(table, path); at != "" {
		return fmt.Errorf("mount a subPath at %s: %s is a mount of the container: use another mountPath", path, at)
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("mount a subPath at %s: %w", path, err)
	}
	return nil
}

// mountWithin is a mount point at or below a path; empty for none (proc(5),
// /proc/pid/mountinfo: the fifth field).
func mountWithin(table []byte, path string) string {
	path = filepath.Clean(path)
	for line := range bytes.Lines(table) {
		fields := strings.Fields(string(line))
		if len(fields) < 5 {
			continue
		}
		at := unescapeMount.Replace(fields[4])
		if at == path || strings.HasPrefix(at, strings.TrimSuffix(path, "/")+"/") {
			return at
		}
	}
	return ""
}

// unescapeMount undoes the kernel's way of writing such characters.
var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
