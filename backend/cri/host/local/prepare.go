package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// Prepare implements [host.Host].
func (h *Host) Prepare(ctx context.Context, p host.Preparation) (host.Prepared, error) {
	if err := h.led(ctx); err != nil {
		return host.Prepared{}, err
	}
	if err := each(p.Dirs, func(dir string) error { return mkdirAll(dir, 0o755) }); err != nil {
		return host.Prepared{}, err
	}
	if err := each(p.Private, makePrivate); err != nil {
		return host.Prepared{}, err
	}
	var done host.Prepared
	if p.Cgroup != nil {
		began := time.Now()
		err := h.makeCgroup(ctx, *p.Cgroup)
		done.Cgroup = time.Since(began)
		if err != nil {
			return done, err
		}
	}
	if err := each(p.Writes, write); err != nil {
		return done, err
	}
	if err := each(p.Shared, makeShared); err != nil {
		return done, err
	}
	if p.Ports != nil {
		if err := h.claimPorts(ctx, *p.Ports); err != nil {
			return done, err
		}
	}
	if p.Users != nil {
		var err error
		if done.FirstUser, err = h.users(ctx, *p.Users); err != nil {
			return done, err
		}
	}
	err := each(p.SubPaths, func(s host.SubPath) error {
		if err := h.bindSubPath(ctx, s); err != nil {
			return err
		}
		done.SubPaths = append(done.SubPaths, s.Target)
		return nil
	})
	if err == nil {
		err = each(p.Sources, func(s host.Source) error { return checkSource(ctx, s) })
	}
	if err == nil {
		err = each(p.Links, link)
	}
	return done, err
}

// each does something with one after the other, until that fails.
func each[T any](all []T, do func(T) error) error {
	for _, one := range all {
		if err := do(one); err != nil {
			return err
		}
	}
	return nil
}

// mkdirAll makes a directory and its parents with just this mode: the umask of the
// session that started us means nothing.
func mkdirAll(path string, mode os.FileMode) error {
	err := os.Mkdir(path, mode)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path {
		if err := mkdirAll(filepath.Dir(path), mode); err != nil {
			return err
		}
		err = os.Mkdir(path, mode)
	}
	if err == nil {
		return os.Chmod(path, mode)
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: path, Err: unix.ENOTDIR}
	}
	return nil
}

// makePrivate makes a directory that only root may enter.
func makePrivate(dir string) error {
	if err := mkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := mkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// write writes a file as a whole. One that is so already is not touched: containers
// that have it mounted go on seeing the one that is there.
func write(w host.Write) error {
	mode := os.FileMode(w.Mode) & os.ModePerm
	if info, err := os.Lstat(w.Path); err == nil {
		if w.KeepExisting {
			return nil
		}
		if info.Mode() == mode && info.Size() == int64(len(w.Data)) {
			if now, err := os.ReadFile(w.Path); err == nil && bytes.Equal(now, w.Data) {
				return nil
			}
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if w.Within {
		if err := rewrite(w.Path, w.Data, mode); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := mkdirAll(filepath.Dir(w.Path), kubeletDirMode); err != nil {
		return err
	}
	return replaceFile(w.Path, w.Data, mode)
}

// rewrite gives a file that is there other contents. A reader may see some of both,
// but never that it is empty.
func rewrite(path string, data []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	return errors.Join(err, f.Chmod(mode), f.Close())
}

// makeShared makes a file that every user of a container may write to.
func makeShared(path string) error {
	if err := mkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o666)
	if err != nil {
		return err
	}
	// The umask took bits away.
	return errors.Join(f.Chmod(0o666), f.Close())
}

// link makes a symbolic link, or makes one that is there point elsewhere.
func link(l host.Link) error {
	if now, err := os.Readlink(l.Path); err == nil && now == l.Target {
		return nil
	}
	if err := mkdirAll(filepath.Dir(l.Path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(l.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace link: %w", err)
	}
	return os.Symlink(l.Target, l.Path)
}
