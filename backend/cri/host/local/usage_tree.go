package local

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

const (
	// mostLinked bounds the inodes with several names that are remembered, to be
	// counted once.
	mostLinked = 1 << 18
	// mostMoves is how often a tree is walked anew because a directory was moved.
	mostMoves = 3
	// statBlock is what stat(2) counts in.
	statBlock = 512
)

// tree measures what a directory holds as du(1) does: blocks and inodes, a file
// with several names once, no links followed, no mount entered. It remembers
// where it stands, so that a large one is walked in several turns.
type tree struct {
	// kind and name are where the result goes; a volume's may be on disk.
	kind   map[string]host.Filesystem
	name   string
	root   string
	volume bool

	base   host.Filesystem
	memory bool
	walker *walker
	// done is true once it was walked, err what kept it from being measured.
	done   bool
	err    error
	moves  int
	seen   map[uint64]struct{}
	used   uint64
	inodes uint64
	// shares are those of the files whose names are too many to remember.
	shares float64
}

// begin measures the root itself.
func (t *tree) begin() error {
	var err error
	if t.walker, err = openWalker(t.root, true); err != nil {
		return err
	}
	var fsStat unix.Statfs_t
	if err := unix.Fstatfs(t.walker.dir, &fsStat); err != nil {
		return &os.PathError{Op: "stat", Path: t.root, Err: err}
	}
	stat, err := t.walker.stat(t.walker.dir, "")
	if err != nil {
		return err
	}
	t.base = fromStatfs(&fsStat)
	t.memory = fsStat.Type == unix.TMPFS_MAGIC || fsStat.Type == unix.HUGETLBFS_MAGIC || fsStat.Type == unix.RAMFS_MAGIC
	t.seen, t.used, t.inodes, t.shares = map[uint64]struct{}{}, 0, 0, 0
	t.count(stat)
	return nil
}

// close ends the walk, whether it is done or not.
func (t *tree) close() {
	t.seen = nil
	if t.walker != nil {
		t.walker.close()
	}
}

func (t *tree) count(stat *unix.Statx_t) {
	bytes := stat.Blocks * statBlock
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR && stat.Nlink > 1 {
		if _, twice := t.seen[stat.Ino]; twice {
			return
		}
		if len(t.seen) >= mostLinked {
			// All names together make one file.
			t.used += bytes / uint64(stat.Nlink)
			t.shares += 1 / float64(stat.Nlink)
			return
		}
		t.seen[stat.Ino] = struct{}{}
	}
	t.used += bytes
	t.inodes++
}

// step measures a few entries. An error ends the walk, and is in err.
func (t *tree) step() {
	err := error(nil)
	if t.walker == nil {
		err = t.begin()
	} else {
		t.done, err = t.walker.step(t)
	}
	switch {
	case errors.Is(err, errMoved) && t.moves < mostMoves:
		t.moves++
		t.close()
		t.walker = nil
		return
	case errors.Is(err, errMoved), errors.Is(err, errTooDeep):
		// It holds no more than its file system: to hide files so gains nothing.
		t.used, t.inodes, t.shares = t.base.Used, t.base.InodesUsed, 0
		t.done = true
	case err != nil:
		t.err, t.done = err, true
	}
	if t.done {
		t.close()
	}
}

func (t *tree) entry(_ int, _ string, stat *unix.Statx_t) (enter bool, err error) {
	t.count(stat)
	return stat.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}

func (t *tree) leave(int) error { return nil }

// result is the measurement of a tree that was walked.
func (t *tree) result() host.Filesystem {
	f := t.base
	f.Used, f.InodesUsed = t.used, t.inodes+uint64(t.shares+0.5)
	return f
}
