package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Bits that a volume's group gets (kubelet: volume_linux.go).
const (
	groupReadWrite = 0o660
	groupRead      = 0o440
	groupEnter     = 0o110
)

// ownership is what an fsGroup asks for.
type ownership struct {
	group int
	// readOnly gives the group no right to write.
	readOnly bool
	// onRootMismatch changes nothing where the root of the volume is right.
	onRootMismatch bool
}

// setOwnership gives all of a volume to a group, its root last, so that a root that
// is right says that all is (kubelet: SetVolumeOwnership). No link is followed.
func setOwnership(ctx context.Context, dir string, o ownership) error {
	f, err := os.OpenFile(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if o.onRootMismatch {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if o.matches(info) {
			return nil
		}
	}
	return o.walk(ctx, f)
}

// matches is true for a directory whose group and rights are right.
func (o ownership) matches(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	bits := o.bits(true)
	return ok && int(stat.Gid) == o.group && info.Mode()&os.ModeSetgid != 0 && stat.Mode&bits == bits
}

// bits are those to be added to a file's or a directory's.
func (o ownership) bits(dir bool) uint32 {
	bits := uint32(groupReadWrite)
	if o.readOnly {
		bits = groupRead
	}
	if dir {
		bits |= groupEnter | unix.S_ISGID
	}
	return bits
}

// walk changes what is in an open directory, and then the directory.
func (o ownership) walk(ctx context.Context, dir *os.File) error {
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("set ownership of %s: %w", dir.Name(), err)
		}
		names, err := dir.Readdirnames(batch)
		for _, name := range names {
			if err := o.entry(ctx, dir, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return o.change(dir)
		}
		if err != nil {
			return err
		}
	}
}

func (o ownership) entry(ctx context.Context, parent *os.File, name string) error {
	path := filepath.Join(parent.Name(), name)
	// O_PATH opens nothing: a FIFO does not block, a device does nothing.
	fd, err := openat(int(parent.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if !info.IsDir() {
		return errors.Join(o.change(f), f.Close())
	}
	dir, err := openDir(f, ".")
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return o.walk(ctx, dir)
}

// change changes one. What a file system does not do (FAT knows no owners) or
// refuses to root (NFS) does not keep a pod from starting, as at the kubelet.
func (o ownership) change(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("stat %s: %w", f.Name(), errors.ErrUnsupported)
	}
	fd := int(f.Fd())
	if int(stat.Gid) != o.group {
		err := unix.Fchownat(fd, "", -1, o.group, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
		if err != nil && !refused(err) {
			return &fs.PathError{Op: "chown", Path: f.Name(), Err: err}
		}
	}
	if info.Mode()&os.ModeSymlink != 0 {
		return nil
	}
	// Changing the owner may have cleared bits (setuid) that the kubelet sets again.
	mode := stat.Mode&0o7777 | o.bits(info.IsDir())
	err = unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode)
	if err != nil && !refused(err) {
		return &fs.PathError{Op: "chmod", Path: f.Name(), Err: err}
	}
	return nil
}

func refused(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EOPNOTSUPP)
}
