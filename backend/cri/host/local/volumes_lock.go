package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// Locks are the kernel's (flock), so that they hold between processes: the helper of
// a connection that broke may still be at work when the next one's starts. A pod's
// directory is shared by those who place volumes and held alone by Clear; each
// volume has a lock of its own.

// enterTries bounds how often a pod's directory is made anew because a Clear took it
// away. Where it takes more something else is wrong, a link to nowhere for example.
const enterTries = 100

// enterPod opens a pod's directory, made if need be, for as long as the file is
// open.
func (h *Host) enterPod(ctx context.Context, pod host.PodDir) (*os.File, error) {
	var err error
	for range enterTries {
		err = mkdirAll(pod.Path(), kubeletDirMode)
		if err == nil {
			var dir *os.File
			if dir, err = lockPod(ctx, pod, unix.LOCK_SH); err == nil {
				return dir, nil
			}
		}
		// A Clear may take it away at any moment until it is locked.
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, err
}

// lockPod opens and locks a pod's directory. Errors: fs.ErrNotExist when there is
// none, or none any more.
func lockPod(ctx context.Context, pod host.PodDir, how int) (*os.File, error) {
	dir, err := os.OpenFile(pod.Path(), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := lock(ctx, dir, how); err != nil {
		return nil, err
	}
	if err := stillThere(dir); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// stillThere fails with fs.ErrNotExist where an open file is no longer what stands
// at its path: a lock on it means nothing.
func stillThere(f *os.File) error {
	held, err := f.Stat()
	if err != nil {
		return err
	}
	there, err := os.Lstat(f.Name())
	if err != nil {
		return err
	}
	if !os.SameFile(held, there) {
		return &fs.PathError{Op: "lock", Path: f.Name(), Err: fs.ErrNotExist}
	}
	return nil
}

// lockVolume holds a volume until the file is closed.
func lockVolume(ctx context.Context, v host.Volume) (*os.File, error) {
	path := filepath.Join(filepath.Dir(v.Pod.Described(v.Name)), "."+v.Name+".lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(ctx, f, unix.LOCK_EX); err != nil {
		return nil, err
	}
	return f, nil
}

// lockDir holds a directory until the file is closed.
func lockDir(ctx context.Context, path string) (*os.File, error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	if err := lock(ctx, dir, unix.LOCK_EX); err != nil {
		return nil, err
	}
	return dir, nil
}

// lock locks a file, or closes it with an error.
func lock(ctx context.Context, f *os.File, how int) error {
	fd := int(f.Fd())
	err := flock(fd, how|unix.LOCK_NB)
	if !errors.Is(err, unix.EWOULDBLOCK) {
		if err == nil {
			return nil
		}
		return errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	locked := make(chan error)
	go func() {
		err := flock(fd, how)
		select {
		case locked <- err:
		case <-ctx.Done():
			// Nobody waits any more: closing gives the lock back.
			_ = f.Close()
		}
	}()
	select {
	case err := <-locked:
		if err == nil {
			return nil
		}
		return errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	case <-ctx.Done():
		return fmt.Errorf("lock %s, which another operation holds: %w", f.Name(), context.Cause(ctx))
	}
}

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// claimPod marks a pod's directory as the node's. Errors: fs.ErrPermission when it
// is another's.
func claimPod(pod host.PodDir) error {
	owner, err := podOwner(pod)
	if err != nil {
		return err
	}
	switch owner {
	case pod.Node:
		return nil
	case "":
		return replaceFile(pod.Mark(), []byte(pod.Node), 0o644)
	}
	return foreign(pod, owner)
}

// foreign is the error of touching what is another node's.
func foreign(pod host.PodDir, owner string) error {
	return fmt.Errorf("directory of pod %s belongs to node %s, not to %s: %w", pod.UID, owner, pod.Node, fs.ErrPermission)
}

// podOwner is the identity of the node that a pod's directory belongs to, "" where
// it is not marked yet.
func podOwner(pod host.PodDir) (string, error) {
	mark, err := os.ReadFile(pod.Mark())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return strings.TrimSpace(string(mark)), nil
}
