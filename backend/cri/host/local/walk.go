package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// openDirectory follows no link.
	openDirectory = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	// deepestWalk bounds the directories inside each other that are walked. Each takes
	// 16 bytes of memory.
	deepestWalk = 1 << 17
	// direntBuffer holds a few dozen entries: those behind a directory are read again
	// after it was walked.
	direntBuffer = 4 << 10
	// direntHeader is what stands before the name in a linux_dirent64.
	direntHeader = 19
)

var (
	errTooDeep = fmt.Errorf("more than %d directories stand inside each other", deepestWalk)
	errMoved   = errors.New("a directory was moved while it was walked")
)

// visitor is told what a walk comes by.
type visitor interface {
	// entry is told of one name in an open directory. A directory is entered if it
	// says so.
	entry(dir int, name string, stat *unix.Statx_t) (enter bool, err error)
	// leave is told of a directory once all in it was visited, the root last.
	leave(dir int) error
}

// walker walks a tree in any number of steps. It follows no link and is not led out of
// the tree by a pod that moves directories meanwhile. It holds one directory open, and
// neither a path nor the names of a directory: how deep and wide a pod makes its tree
// costs next to no memory.
type walker struct {
	root string
	// mount is the mount of the root where others are not entered; 0 enters them, and
	// so does a kernel before 5.8, which tells only of other devices.
	mount   uint64
	only    bool
	dir     int
	parents []level
	buffer  [direntBuffer]byte
}

// level is a directory on the way to the one that is read.
type level struct {
	inode uint64
	// next is where its reading goes on.
	next int64
}

// openWalker opens the root. With oneMount the walk enters nothing that is mounted.
func openWalker(root string, oneMount bool) (*walker, error) {
	dir, err := unix.Open(root, openDirectory, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: root, Err: err}
	}
	w := &walker{root: root, only: oneMount, dir: dir}
	stat, err := w.stat(dir, "")
	if err != nil {
		w.close()
		return nil, err
	}
	w.mount = stat.Mnt_id
	w.parents = []level{{inode: stat.Ino}}
	return w, nil
}

// stat is that of a name in an open directory, of the directory itself without a name.
func (w *walker) stat(dir int, name string) (*unix.Statx_t, error) {
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var stat unix.Statx_t
	if err := unix.Statx(dir, name, flags, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &stat); err != nil {
		return nil, w.failed("stat", name, err)
	}
	return &stat, nil
}

// failed names the root and what is in it, not the way between, which may be long.
func (w *walker) failed(op, name string, err error) error {
	if name != "" {
		op += " " + name + " in"
	}
	return &os.PathError{Op: op, Path: w.root, Err: err}
}

// close ends the walk; it may have ended already.
func (w *walker) close() {
	if w.dir >= 0 {
		_ = unix.Close(w.dir) // it was only read
	}
	w.dir = -1
}

// step visits a few entries. Errors end the walk: errTooDeep, errMoved, the visitor's.
func (w *walker) step(v visitor) (done bool, err error) {
	done, err = w.read(v)
	if done || err != nil {
		w.close()
	}
	return done, err
}

func (w *walker) read(v visitor) (done bool, err error) {
	n, err := unix.Getdents(w.dir, w.buffer[:])
	if err != nil && !vanished(err) {
		return false, w.failed("read a directory of", "", err)
	}
	if n <= 0 {
		return w.leave(v)
	}
	here := &w.parents[len(w.parents)-1]
	for entries := w.buffer[:n]; len(entries) > direntHeader; {
		size := int(binary.NativeEndian.Uint16(entries[16:]))
		here.next = int64(binary.NativeEndian.Uint64(entries[8:])) //nolint:gosec // an offset of the kernel's
		name := unix.ByteSliceToString(entries[direntHeader:size])
		entries = entries[size:]
		if name == "." || name == ".." {
			continue
		}
		if down, err := w.visit(v, name); down || err != nil {
			return false, err
		}
	}
	return false, nil
}

// visit visits one entry; down is true where it was entered.
func (w *walker) visit(v visitor, name string) (down bool, err error) {
	stat, err := w.stat(w.dir, name)
	if vanished(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if w.only && !w.inside(stat) {
		return false, nil
	}
	if enter, err := v.entry(w.dir, name, stat); !enter || err != nil {
		return false, err
	}
	next, err := openat(w.dir, name, openDirectory)
	if vanished(err) {
		return false, nil
	}
	if err != nil {
		return false, w.failed("open", name, err)
	}
	stat, err = w.stat(next, "")
	switch {
	case err != nil:
	case w.only && !w.inside(stat): // it was put there just now
		return false, unix.Close(next)
	case len(w.parents) >= deepestWalk:
		err = w.failed("walk", "", errTooDeep)
	}
	if err != nil {
		return false, errors.Join(err, unix.Close(next))
	}
	w.parents = append(w.parents, level{inode: stat.Ino})
	return true, w.move(next)
}

// inside is false for what is mounted in the tree.
func (w *walker) inside(stat *unix.Statx_t) bool {
	return stat.Mnt_id == w.mount && stat.Attributes&stat.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0
}

// leave goes up.
func (w *walker) leave(v visitor) (done bool, err error) {
	if err := v.leave(w.dir); err != nil {
		return false, err
	}
	w.parents = w.parents[:len(w.parents)-1]
	if len(w.parents) == 0 {
		return true, nil
	}
	up, err := openat(w.dir, "..", openDirectory)
	if err != nil {
		return false, w.failed("go up in", "", err)
	}
	here := w.parents[len(w.parents)-1]
	stat, err := w.stat(up, "")
	if err == nil && stat.Ino != here.inode {
		err = w.failed("walk", "", errMoved)
	}
	if err == nil {
		_, err = unix.Seek(up, here.next, unix.SEEK_SET)
	}
	if err != nil {
		return false, errors.Join(err, unix.Close(up))
	}
	return false, w.move(up)
}

func (w *walker) move(to int) error {
	from := w.dir
	w.dir = to
	return unix.Close(from)
}
