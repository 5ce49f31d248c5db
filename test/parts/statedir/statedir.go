// Package statedir gives a part of the tests, such as a host, a directory that belongs to
// it, and finds those whose owner was killed.
package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Dir is a directory that this process owns.
type Dir struct {
	Path string

	lock    *os.File
	reclaim func(path string) error
}

// Take makes a directory whose name begins with prefix in the directory for temporary
// files, locks it and marks it with an empty file. reclaim removes such a directory, and
// whatever else its owner left; nobody uses it any more. On an error, too, a directory
// that is not nil is to be removed.
func Take(prefix, mark string, reclaim func(path string) error) (*Dir, error) {
	path, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	// Mounts are listed by their real path.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, fmt.Errorf("resolve state directory: %w", err)
	}
	d := &Dir{Path: path, reclaim: reclaim}
	if d.lock, err = lock(path); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(path, mark), nil, 0o644); err != nil {
		return d, fmt.Errorf("mark state directory: %w", err)
	}
	// Users other than root reach what stands there.
	if err := os.Chmod(path, 0o755); err != nil {
		return d, fmt.Errorf("open state directory: %w", err)
	}
	return d, nil
}

// Remove removes the directory and what else belongs to it; processes of its owner must
// be gone.
func (d *Dir) Remove() error {
	return errors.Join(d.reclaim(d.Path), d.lock.Close())
}

// Sweep reclaims the directories in parent whose owner was killed. The owners' processes
// must end with them.
func Sweep(parent, prefix, mark string, reclaim func(path string) error) error {
	dirs, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return fmt.Errorf("list state directories: %w", err)
	}
	var errs []error
	for _, dir := range dirs {
		// An owner locks before it marks, so an unlocked mark has no owner.
		if _, err := os.Stat(filepath.Join(dir, mark)); err != nil {
			continue
		}
		held, err := lock(dir)
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, reclaim(dir), held.Close())
	}
	return errors.Join(errs...)
}

// lock marks a directory as in use for as long as its owner lives. It fails with
// EWOULDBLOCK while another owner lives.
func lock(dir string) (*os.File, error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock state directory: %w", err), file.Close())
	}
	return file, nil
}
