package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// bindSubPath binds a path inside a volume to its target. What is bound is what was
// opened: a pod that swaps a directory for a link afterwards changes nothing. Mounts below
// it are shared with the volume's where those are shared, as a kubelet's (doBindSubPath
// binds and sets no propagation): mountPropagation decides what a container sees of them.
func (h *Host) bindSubPath(ctx context.Context, s host.SubPath) error {
	if err := checkPath(s.Target); err != nil {
		return err
	}
	return bounded(ctx, "bind subPath "+s.Path, func() error {
		source, err := openSubPath(s)
		if err != nil {
			return err
		}
		defer func() { _ = source.Close() }()
		bound, err := h.makeTarget(ctx, source, s.Target)
		if err != nil || bound {
			return err
		}
		// Nobody may wait for it any more.
		if err := ctx.Err(); err != nil {
			return err
		}
		from := procFile(source)
		if err := unix.Mount(from, s.Target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("error mounting %s: %w", source.Name(), err)
		}
		if s.Within == "" {
			return nil
		}
		// What the host mounts there later is not the pod's to see, nor ours to unmount.
		if err := unix.Mount("", s.Target, "", unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make %s private: %w", s.Target, err)
		}
		return nil
	})
}

// makeTarget makes what the source is bound to, a directory or a file; true when it
// is bound there already.
func (h *Host) makeTarget(ctx context.Context, source *os.File, target string) (bound bool, err error) {
	info, err := source.Stat()
	if err != nil {
		return false, err
	}
	target, err = realPath(target)
	if err != nil {
		return false, err
	}
	table, err := h.mounts()
	if err != nil {
		return false, err
	}
	if _, mounted := table.at(target); mounted {
		there, err := os.Lstat(target)
		if err == nil && os.SameFile(info, there) {
			return true, nil
		}
		// It is not what we want, or has gone with its server.
		if err := h.unmountBelow(ctx, target); err != nil {
			return false, err
		}
	}
	return false, makeMountPoint(target, info.IsDir())
}

// makeMountPoint makes what a directory, or anything else, can be bound to.
func makeMountPoint(target string, dir bool) error {
	if err := mkdirAll(filepath.Dir(target), kubeletDirMode); err != nil {
		return err
	}
	there, err := os.Lstat(target)
	if err == nil && there.IsDir() == dir && there.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	if err == nil {
		err = os.Remove(target)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if dir {
		return os.Mkdir(target, kubeletDirMode)
	}
	// A file is enough for all else: a bound device or socket shows as itself.
	f, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	return f.Close()
}

// procFile is the path of what is opened, whatever its name has become since.
func procFile(opened *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(opened.Fd())) }
