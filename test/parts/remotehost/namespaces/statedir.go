package namespaces

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Kind is a kind of host, whose state directories are told from all others.
type Kind struct {
	// Prefix starts the names of directories that were not named by a caller.
	Prefix string
	// Marker is the file that tells a directory that a host owns, or owned.
	Marker string
	// Reclaim removes what is left in the kernel of a host whose processes are
	// gone, before the mounts below its directory and the directory itself.
	Reclaim func(dir string) error
}

// Dir is a state directory that this process owns.
type Dir struct {
	kind Kind
	path string
	lock *os.File
}

// Take makes a state directory, or takes an empty or missing one, locks and
// marks it. On an error, too, a directory that is not nil is to be removed.
func (k Kind) Take(path string) (*Dir, error) {
	var err error
	if path == "" {
		path, err = os.MkdirTemp("", k.Prefix)
	} else {
		err = os.MkdirAll(path, 0o755)
	}
	if err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	// Mounts are listed by their real path.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, fmt.Errorf("resolve state directory: %w", err)
	}
	d := &Dir{kind: k, path: path}
	if d.lock, err = lockDir(path); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(path, k.Marker), nil, 0o644); err != nil {
		return d, fmt.Errorf("mark state directory: %w", err)
	}
	// Users other than root reach what stands there.
	if err := os.Chmod(path, 0o755); err != nil {
		return d, fmt.Errorf("open state directory: %w", err)
	}
	return d, nil
}

// Path is where the directory stands, without symbolic links.
func (d *Dir) Path() string { return d.path }

// Remove removes the directory and what its kind and its mounts left; the
// host's processes must be gone.
func (d *Dir) Remove() error {
	return errors.Join(d.kind.reclaim(d.path), d.lock.Close())
}

// Sweep reclaims the state directories in parent whose owner was killed. Their
// processes are gone already.
func (k Kind) Sweep(parent string) error {
	dirs, err := filepath.Glob(filepath.Join(parent, k.Prefix+"*"))
	if err != nil {
		return fmt.Errorf("list state directories: %w", err)
	}
	var errs []error
	for _, dir := range dirs {
		// An owner locks before it marks, so an unlocked mark has no owner.
		if _, err := os.Stat(filepath.Join(dir, k.Marker)); err != nil {
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
		errs = append(errs, k.reclaim(dir), lock.Close())
	}
	return errors.Join(errs...)
}

func (k Kind) reclaim(dir string) error {
	err := errors.Join(k.Reclaim(dir), UnmountBelow(dir))
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
