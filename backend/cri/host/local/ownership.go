package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

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
	w, err := openWalker(dir, false)
	if err != nil {
		return err
	}
	defer w.close()
	if o.onRootMismatch {
		stat, err := w.stat(w.dir, "")
		if err != nil {
			return err
		}
		if o.matches(stat) {
			return nil
		}
	}
	for done := false; !done; {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("set ownership of %s: %w", dir, err)
		}
		if done, err = w.step(owning{o, dir}); err != nil {
			return fmt.Errorf("set ownership of %s: %w", dir, err)
		}
	}
	return nil
}

// matches is true for a directory whose group and rights are right.
func (o ownership) matches(stat *unix.Statx_t) bool {
	bits := o.bits(true)
	return int(stat.Gid) == o.group && uint32(stat.Mode)&bits == bits
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

// owning changes what a walk below root comes by.
type owning struct {
	ownership
	root string
}

// entry changes all but directories, which are changed when they are left.
func (o owning) entry(dir int, name string, stat *unix.Statx_t) (enter bool, err error) {
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		return true, nil
	}
	// O_PATH opens nothing: a FIFO does not block, a device does nothing.
	fd, err := openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, &fs.PathError{Op: "open " + name + " in", Path: o.root, Err: err}
	}
	return false, errors.Join(o.change(fd), unix.Close(fd))
}

func (o owning) leave(dir int) error { return o.change(dir) }

// change changes one. What a file system does not do (FAT knows no owners) or
// refuses to root (NFS) does not keep a pod from starting, as at the kubelet.
func (o owning) change(fd int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return &fs.PathError{Op: "stat in", Path: o.root, Err: err}
	}
	if int(stat.Gid) != o.group {
		err := unix.Fchownat(fd, "", -1, o.group, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
		if err != nil && !refused(err) {
			return &fs.PathError{Op: "chown in", Path: o.root, Err: err}
		}
	}
	kind := stat.Mode & unix.S_IFMT
	if kind == unix.S_IFLNK {
		return nil
	}
	// Changing the owner may have cleared bits (setuid) that the kubelet sets again.
	mode := stat.Mode&0o7777 | o.bits(kind == unix.S_IFDIR)
	err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode)
	if err != nil && !refused(err) {
		return &fs.PathError{Op: "chmod in", Path: o.root, Err: err}
	}
	return nil
}

func refused(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EOPNOTSUPP)
}
