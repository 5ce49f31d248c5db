package remotehost

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/test/parts/remotehost/namespaces"
)

const (
	dirPrefix = "blremote-"
	// marker is the file that tells a directory that a host owns, or owned.
	marker = "remotehost"
)

// stateDir is a directory that this process owns.
type stateDir struct {
	path string
	lock *os.File
}

// takeDir makes a state directory, locks and marks it. On an error, too, a directory
// that is not nil is to be removed.
func takeDir() (*stateDir, error) {
	path, err := os.MkdirTemp("", dirPrefix)
	if err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	// Mounts are listed by their real path.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, fmt.Errorf("resolve state directory: %w", err)
	}
	d := &stateDir{path: path}
	if d.lock, err = lockDir(path); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(path, marker), nil, 0o644); err != nil {
		return d, fmt.Errorf("mark state directory: %w", err)
	}
	// Users other than root reach what stands there.
	if err := os.Chmod(path, 0o755); err != nil {
		return d, fmt.Errorf("open state directory: %w", err)
	}
	return d, nil
}

// remove removes the directory and what else the host left; its processes must be
// gone.
func (d *stateDir) remove() error {
	return errors.Join(reclaim(d.path), d.lock.Close())
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
		// An owner locks before it marks, so an unlocked mark has no owner.
		if _, err := os.Stat(filepath.Join(dir, marker)); err != nil {
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
		errs = append(errs, reclaim(dir), lock.Close())
	}
	return errors.Join(errs...)
}

func reclaim(dir string) error {
	err := errors.Join(namespaces.RemoveCgroupTrees(layout{dir: dir}.cgroup()), namespaces.UnmountBelow(dir))
	if remove := os.RemoveAll(dir); remove != nil {
		err = errors.Join(err, fmt.Errorf("remove state directory: %w", remove))
	}
	return err
}

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
