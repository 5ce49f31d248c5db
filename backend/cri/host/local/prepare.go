package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// Prepare implements [host.Host].
func (h *Host) Prepare(ctx context.Context, p host.Preparation) (host.Prepared, error) {
	if err := h.led(ctx); err != nil {
		return host.Prepared{}, err
	}
	var done host.Prepared
	for _, dir := range p.Dirs {
		if err := mkdirAll(dir, 0o755); err != nil {
			return done, err
		}
	}
	if p.Cgroup != nil {
		if err := h.makeCgroup(ctx, *p.Cgroup); err != nil {
			return done, err
		}
	}
	for _, w := range p.Writes {
		if err := write(w); err != nil {
			return done, err
		}
	}
	for _, path := range p.Shared {
		if err := makeShared(path); err != nil {
			return done, err
		}
	}
	for _, s := range p.SubPaths {
		if err := h.bindSubPath(ctx, s); err != nil {
			return done, err
		}
		done.SubPaths = append(done.SubPaths, s.Target)
	}
	for _, s := range p.Sources {
		if err := checkSource(ctx, s); err != nil {
			return done, err
		}
	}
	for _, l := range p.Links {
		if err := link(l); err != nil {
			return done, err
		}
	}
	return done, nil
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
