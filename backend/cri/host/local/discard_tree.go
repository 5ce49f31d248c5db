package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// deepest is how many directories are held open at once; those below are
	// moved up first, however deep a pod made them.
	deepest = 64
	// batch is how many names of a directory are read at once.
	batch = 1024
)

// checkPath refuses what cannot be meant.
func checkPath(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" {
		return &fs.PathError{Op: "use", Path: path, Err: unix.EINVAL}
	}
	return nil
}

// realPath resolves the links of a path's directory, as mountinfo names paths; what
// is not there stays as it is.
func realPath(path string) (string, error) {
	if err := checkPath(path); err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}

// removeTree removes a file, link or directory with what is below. It follows no
// link and enters nothing that is mounted: that is EBUSY, and stays.
func removeTree(ctx context.Context, path string) error {
	if err := checkPath(path); err != nil {
		return err
	}
	parent, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }()
	return removeEntry(ctx, parent, filepath.Base(path))
}

// removeEntry removes a tree that stands in an open directory.
func removeEntry(ctx context.Context, parent *os.File, name string) error {
	mount, err := mountID(parent)
	if err != nil {
		return err
	}
	return (&remover{mount: mount}).remove(ctx, parent, name, 0)
}

// remover removes one tree.
type remover struct {
	// mount is the mount that the tree stands in.
	mount int
	// top is the tree's own directory, to which deep ones are moved.
	top *os.File
}

func (r *remover) remove(ctx context.Context, parent *os.File, name string, depth int) error {
	path := filepath.Join(parent.Name(), name)
	err := unix.Unlinkat(int(parent.Fd()), name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	// Linux says EISDIR of a directory, other systems' file servers EPERM.
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	// An empty one needs no more. A mount point is busy: entering it says more.
	if unix.Unlinkat(int(parent.Fd()), name, unix.AT_REMOVEDIR) == nil {
		return nil
	}
	if depth > deepest {
		moved := ".removed-" + strconv.FormatUint(rand.Uint64(), 36)
		if err := unix.Renameat(int(parent.Fd()), name, int(r.top.Fd()), moved); err != nil {
			return &fs.PathError{Op: "move up", Path: path, Err: err}
		}
		return nil
	}
	return r.removeDir(ctx, parent, name, depth)
}

// removeDir removes a directory with what is in it.
func (r *remover) removeDir(ctx context.Context, parent *os.File, name string, depth int) error {
	dir, err := openDir(parent, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if mount, err := mountID(dir); err != nil {
		return err
	} else if mount != r.mount {
		return fmt.Errorf("%s is still mounted and is not removed: %w", dir.Name(), unix.EBUSY)
	}
	if depth == 0 {
		r.top = dir
	}
	if err := r.empty(ctx, dir, depth); err != nil {
		return err
	}
	if err := unix.Unlinkat(int(parent.Fd()), name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "remove", Path: dir.Name(), Err: err}
	}
	return nil
}

// empty removes what is in a directory. It goes on after an error and returns the
// first.
func (r *remover) empty(ctx context.Context, dir *os.File, depth int) error {
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("remove %s: %w", dir.Name(), err)
		}
		// Names are read anew each time: removing may move those not yet read.
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}
		names, err := dir.Readdirnames(batch)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		var first error
		removed := 0
		for _, name := range names {
			if err := r.remove(ctx, dir, name, depth+1); err == nil {
				removed++
			} else if first == nil {
				first = err
			}
		}
		if first != nil && (removed == 0 || len(names) < batch) {
			return first
		}
		if len(names) == 0 {
			return nil
		}
	}
}

// openDir opens a directory in another, and no link.
func openDir(parent *os.File, name string) (*os.File, error) {
	path := filepath.Join(parent.Name(), name)
	fd, err := openat(int(parent.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openat opens without being inherited, however often a signal interrupts.
func openat(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// mountID is the mount that an open file belongs to. A bind mount of the same file
// system differs in nothing else.
func mountID(f *os.File) (int, error) {
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(int(f.Fd())))
	if err != nil {
		return 0, fmt.Errorf("find mount of %s: %w", f.Name(), err)
	}
	for line := range strings.Lines(string(info)) {
		if value, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return 0, fmt.Errorf("find mount of %s: %w", f.Name(), errors.ErrUnsupported)
}
