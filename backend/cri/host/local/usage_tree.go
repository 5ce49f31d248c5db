package local

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// namesAtOnce bounds what of one directory is held in memory.
const namesAtOnce = 1024

// openDirectory follows no link.
const openDirectory = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// tree measures what a directory holds as du(1) does: blocks and inodes, a file
// with several names once, no links followed, no mount entered. It remembers
// where it stands, so that a large one is walked in several turns.
type tree struct {
	// kind and name are where the result goes; a volume's may be on disk.
	kind   map[string]host.Filesystem
	name   string
	root   string
	volume bool

	base    host.Filesystem
	memory  bool
	device  uint64
	begun   bool
	err     error    // what could not be read, or has gone
	pending []string // directories, relative to the root
	seen    map[uint64]struct{}
	used    uint64
	inodes  uint64
}

// begin measures the root itself.
func (t *tree) begin() {
	if t.begun {
		return
	}
	t.begun = true
	fd, err := unix.Open(t.root, openDirectory, 0)
	if err != nil {
		t.err = &os.PathError{Op: "open", Path: t.root, Err: err}
		return
	}
	defer func() { _ = unix.Close(fd) }() // it was only read
	var fsStat unix.Statfs_t
	var stat unix.Stat_t
	if err := errors.Join(unix.Fstatfs(fd, &fsStat), unix.Fstat(fd, &stat)); err != nil {
		t.err = &os.PathError{Op: "stat", Path: t.root, Err: err}
		return
	}
	t.base, t.device = fromStatfs(&fsStat), stat.Dev
	t.memory = fsStat.Type == unix.TMPFS_MAGIC || fsStat.Type == unix.HUGETLBFS_MAGIC || fsStat.Type == unix.RAMFS_MAGIC
	t.seen = map[uint64]struct{}{}
	t.count(&stat)
	t.pending = []string{"."}
}

func (t *tree) count(stat *unix.Stat_t) {
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR && stat.Nlink > 1 {
		if _, twice := t.seen[stat.Ino]; twice {
			return
		}
		t.seen[stat.Ino] = struct{}{}
	}
	const statBlock = 512
	t.used += uint64(stat.Blocks) * statBlock
	t.inodes++
}

// step measures what stands in one directory. An error ends the walk.
func (t *tree) step(mounted map[string]string) {
	dir := t.pending[len(t.pending)-1]
	t.pending = t.pending[:len(t.pending)-1]
	if t.err = t.read(dir, mounted); t.err != nil {
		t.pending = nil
	}
}

func (t *tree) read(dir string, mounted map[string]string) error {
	f, err := t.open(dir)
	if vanished(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	for {
		names, err := f.Readdirnames(namesAtOnce)
		for _, name := range names {
			path := filepath.Join(dir, name)
			if _, ok := mounted[filepath.Join(t.root, path)]; ok {
				continue
			}
			if err := t.entry(int(f.Fd()), name, path); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || vanished(err) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (t *tree) entry(dir int, name, path string) error {
	var stat unix.Stat_t
	err := unix.Fstatat(dir, name, &stat, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
	switch {
	case vanished(err):
		return nil
	case err != nil:
		return &os.PathError{Op: "stat", Path: filepath.Join(t.root, path), Err: err}
	case stat.Dev != t.device:
		return nil
	}
	t.count(&stat)
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		t.pending = append(t.pending, path)
	}
	return nil
}

// open opens a directory of the tree step by step: the pod may have put a link
// in the place of any directory on the way.
func (t *tree) open(dir string) (*os.File, error) {
	fd, err := unix.Open(t.root, openDirectory, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: t.root, Err: err}
	}
	if dir != "." {
		for part := range strings.SplitSeq(dir, "/") {
			next, err := unix.Openat(fd, part, openDirectory, 0)
			_ = unix.Close(fd) // it was only read
			if err != nil {
				return nil, &os.PathError{Op: "open", Path: filepath.Join(t.root, dir), Err: err}
			}
			fd = next
		}
	}
	return os.NewFile(uintptr(fd), filepath.Join(t.root, dir)), nil
}
