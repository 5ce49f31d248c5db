package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	tempPrefix = "burstlet-cp-"
	// lockName is a file in a state directory of ours that is locked while its
	// owner lives.
	lockName = "owner.lock"
)

// makeTempState makes a state directory under the system's temporary directory
// and removes those whose owners were killed.
func makeTempState() (string, error) {
	if err := sweep(os.TempDir()); err != nil {
		return "", fmt.Errorf("remove state of killed control planes: %w", err)
	}
	dir, err := os.MkdirTemp("", tempPrefix)
	if err != nil {
		return "", err
	}
	if len(dir) > maxStateDir {
		return "", errors.Join(
			fmt.Errorf("path of temporary directory is too long for the sockets in it: %s", dir), os.Remove(dir),
		)
	}
	return dir, nil
}

// hold locks a state directory for as long as the returned file is open. The
// lock appears under its name only once it is held, so that sweep never takes
// a new directory for an abandoned one.
func hold(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".lock-")
	if err != nil {
		return nil, fmt.Errorf("lock state directory: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, lockName))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock state directory: %w", err), f.Close())
	}
	return f, nil
}

// sweep removes the state directories in parent that no live process holds.
func sweep(parent string) error {
	locks, err := filepath.Glob(filepath.Join(parent, tempPrefix+"*", lockName))
	if err != nil {
		return err
	}
	for _, path := range locks {
		if err := sweepOne(path); err != nil {
			return err
		}
	}
	return nil
}

func sweepOne(lock string) (err error) {
	f, err := os.Open(lock)
	if os.IsNotExist(err) || os.IsPermission(err) {
		return nil // gone meanwhile, or another user's
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", lock, err)
	}
	dir := filepath.Dir(lock)
	if !strings.HasPrefix(filepath.Base(dir), tempPrefix) {
		return fmt.Errorf("refuse to remove %s: not a state directory", dir)
	}
	return os.RemoveAll(dir)
}
