package local

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/test/kit/need"
)

// deepTree makes directories inside each other, with long names, and many side by side
// in the last. Their path is longer than any system call takes.
func deepTree(t *testing.T, root string, deep, wide int) {
	t.Helper()
	t.Cleanup(func() { noError(t, removeTree(context.WithoutCancel(t.Context()), root)) })
	noError(t, os.MkdirAll(root, 0o755))
	fd, err := unix.Open(root, openDirectory, 0)
	noError(t, err)
	name := strings.Repeat("d", 255)
	for range deep {
		noError(t, unix.Mkdirat(fd, name, 0o755))
		next, err := unix.Openat(fd, name, openDirectory, 0)
		noError(t, err)
		noError(t, unix.Close(fd))
		fd = next
	}
	for i := range wide {
		noError(t, unix.Mkdirat(fd, strconv.Itoa(i), 0o755))
	}
	noError(t, unix.Close(fd))
}

// allocated is what a function takes of memory, with what it gives back.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// enough is far less than the paths of such a tree, a quarter of a megabyte each.
const enough = 8 << 20

// Whole paths of these directories would be 250 MB.
func TestADeepTreeIsMeasuredWithinMemory(t *testing.T) {
	pod, _ := diskPod(t)
	const deep, wide = 1000, 200
	deepTree(t, pod.Dir.Volume("v"), deep, wide)
	w, err := newPodWalk(pod, nil)
	noError(t, err)
	taken := allocated(func() {
		for done := false; !done; {
			done, err = w.step(t.Context(), time.Now().Add(time.Millisecond))
			noError(t, err)
		}
	})
	if got := w.result().Volumes["v"].InodesUsed; got != deep+wide+1 {
		t.Errorf("%d inodes, want %d", got, deep+wide+1)
	}
	if taken > enough {
		t.Errorf("%d bytes of memory were taken", taken)
	}
}

func TestADeepTreeIsOwnedWithinMemory(t *testing.T) {
	need.Root(t)
	root := filepath.Join(t.TempDir(), "v")
	const deep = 1000
	deepTree(t, root, deep, 10)
	var before unix.Rlimit
	noError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	noError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 512, Max: before.Max}))
	taken := allocated(func() { noError(t, setOwnership(t.Context(), root, ownership{group: 4711})) })
	noError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
	if got := ownerAndMode(t, root); got != "4711 2775" {
		t.Errorf("the root: %s", got)
	}
	fd, err := unix.Open(root, openDirectory, 0)
	noError(t, err)
	for range deep {
		next, err := unix.Openat(fd, strings.Repeat("d", 255), openDirectory, 0)
		noError(t, err)
		noError(t, unix.Close(fd))
		fd = next
	}
	var st unix.Stat_t
	if noError(t, unix.Fstat(fd, &st)); st.Gid != 4711 {
		t.Errorf("the last belongs to the group %d", st.Gid)
	}
	noError(t, unix.Close(fd))
	if taken > enough {
		t.Errorf("%d bytes of memory were taken", taken)
	}
}

// What is mounted in a volume is not the volume's, though it is on the same disk.
func TestAMountIsNotMeasured(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		root := mountRoot(t)
		volume, other := filepath.Join(root, "v"), filepath.Join(root, "other")
		writeFile(t, filepath.Join(volume, "file"), 4096)
		writeFile(t, filepath.Join(volume, "over"), 4096)
		writeFile(t, filepath.Join(other, "d/big"), 1<<20)
		noError(t, os.Mkdir(filepath.Join(volume, "dir"), 0o755))
		noError(t, unix.Mount(other, filepath.Join(volume, "dir"), "", unix.MS_BIND, ""))
		noError(t, unix.Mount(filepath.Join(other, "d/big"), filepath.Join(volume, "over"), "", unix.MS_BIND, ""))
		w := &tree{root: volume}
		for !w.done {
			w.step()
		}
		if noError(t, w.err); w.inodes != 2 || w.used >= 1<<20 {
			t.Errorf("%d bytes, %d inodes: want the volume and its file", w.used, w.inodes)
		}
	})
}

// A walk that never ends keeps no other pod from being measured.
func TestPodsAreMeasuredInTurn(t *testing.T) {
	large, _ := diskPod(t)
	for i := range 50 {
		writeFile(t, filepath.Join(large.Dir.Volume("v"), strconv.Itoa(i), "f"), 1)
	}
	small, _ := diskPod(t)
	small.UID, small.Dir.UID = "small", "small"
	writeFile(t, filepath.Join(small.Dir.Volume("v"), "f"), 1)
	h := New(Options{})
	for _, uid := range []string{large.UID, small.UID} {
		h.usage.touch(uid, time.Now())
	}
	due := []host.PodUsageRequest{large, small}
	past := time.Now().Add(-time.Second)
	noError(t, h.walk(t.Context(), due, past)) // the large one has had its turn
	noError(t, h.walk(t.Context(), due, past))
	if h.usage.pods["small"].walk == nil {
		t.Error("the other pod has no turn while the walk of the first lasts")
	}
}

// A directory that moves leads no walk out of the tree: it begins anew, and in the end
// counts for all that the disk holds.
func TestMovedDirectories(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"v/a/in", "v/b", "outside/big"} {
		noError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	w := &tree{root: filepath.Join(root, "v")}
	from, to := filepath.Join(root, "v/a/in"), filepath.Join(root, "v/b/in")
	moves := 0
	var last *walker
	for !w.done {
		w.step()
		if w.walker != nil && w.walker != last && len(w.walker.parents) == 3 {
			last = w.walker
			noError(t, os.Rename(from, to))
			from, to = to, from
			moves++
		}
	}
	if w.err != nil || moves != mostMoves+1 || w.used != w.base.Used {
		t.Errorf("%d moves, %d bytes of %d, error %v", moves, w.used, w.base.Used, w.err)
	}
}

// More names than are remembered still make one file.
func TestManyNamesOfOneFile(t *testing.T) {
	w := &tree{seen: map[uint64]struct{}{}}
	for i := range mostLinked {
		w.seen[uint64(i)] = struct{}{}
	}
	for range 4 {
		w.count(&unix.Statx_t{Mode: unix.S_IFREG, Nlink: 4, Ino: mostLinked, Blocks: 8})
	}
	if f := w.result(); f.Used != 4096 || f.InodesUsed != 1 || len(w.seen) != mostLinked {
		t.Errorf("%d bytes, %d inodes, %d remembered", f.Used, f.InodesUsed, len(w.seen))
	}
}
