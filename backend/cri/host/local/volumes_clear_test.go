package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

func TestClearOfNothingSaysSo(t *testing.T) {
	h, root := New(Options{}), t.TempDir()
	for _, pod := range []host.PodDir{{Root: root, Node: "n", UID: "u"}, {Root: root + "/none", Node: "n", UID: "u"}} {
		if err := h.Clear(t.Context(), pod); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("err = %v", err)
		}
	}
	for _, uid := range []string{"", ".", "..", "a/b"} {
		if err := h.Clear(t.Context(), host.PodDir{Root: root, Node: "n", UID: uid}); err == nil ||
			errors.Is(err, fs.ErrNotExist) {
			t.Errorf("UID %q: err = %v", uid, err)
		}
	}
	if !present(root) {
		t.Error("the root is gone")
	}
}

func TestAnotherNodesPodIsNotTouched(t *testing.T) {
	h, root := New(Options{}), t.TempDir()
	v := volume(root, "data", host.KindDir, "h")
	noError(t, h.Place(t.Context(), v))
	before := withoutAccess(inodeStamps(t, root))
	theirs := v
	theirs.Pod.Node = "cluster/node-b"
	if err := h.Clear(t.Context(), theirs.Pod); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Clear = %v", err)
	}
	if err := h.Place(t.Context(), theirs); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Place = %v", err)
	}
	for path, stamp := range withoutAccess(inodeStamps(t, root)) {
		if before[path] != stamp && !strings.HasSuffix(path, ".lock") {
			t.Errorf("%s was touched", path)
		}
	}
}

// A Clear that was cut off is repeated until nothing is there, and until then the
// pod is known.
func TestClearGoesOnFromWhereItWasCutOff(t *testing.T) {
	pod := func(t *testing.T, h *Host, root string) host.PodDir {
		v := volume(root, "config", host.KindFiles, "h", textFile("a", "1"))
		noError(t, h.Place(t.Context(), v))
		noError(t, h.Place(t.Context(), volume(root, "data", host.KindDir, "h")))
		putFile(t, v.Pod.Volume("data")+"/sub/x", "x")
		putFile(t, v.Pod.File("hosts"), "")
		putDir(t, v.Pod.SubPath("c_0", "0"))
		return v.Pod
	}
	for name, half := range map[string]func(t *testing.T, p host.PodDir){
		"untouched":         func(*testing.T, host.PodDir) {},
		"a volume is gone":  func(t *testing.T, p host.PodDir) { noError(t, os.RemoveAll(p.Volume("config"))) },
		"half a volume":     func(t *testing.T, p host.PodDir) { noError(t, os.Remove(p.Volume("config")+"/"+dataLink)) },
		"volumes are gone":  func(t *testing.T, p host.PodDir) { noError(t, os.RemoveAll(filepath.Dir(p.Volume("x")))) },
		"described is gone": func(t *testing.T, p host.PodDir) { noError(t, os.RemoveAll(filepath.Dir(p.Described("x")))) },
	} {
		t.Run(name, func(t *testing.T) {
			h, root := New(Options{}), t.TempDir()
			p := pod(t, h, root)
			half(t, p)
			placed, err := h.Volumes(t.Context(), root, p.Node)
			if noError(t, err); len(placed) == 0 {
				t.Error("the pod is not known any more")
			}
			noError(t, h.Clear(t.Context(), p))
			if present(p.Path()) {
				t.Error("it is there")
			}
			if err := h.Clear(t.Context(), p); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("again: %v", err)
			}
		})
	}
	t.Run("the directory only", func(t *testing.T) {
		root := t.TempDir()
		putDir(t, root, "uid-1")
		noError(t, New(Options{}).Clear(t.Context(), volume(root, "", "", "").Pod))
	})
}

func TestClearFollowsNoLinkHoweverDeep(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		noError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: 256}))
		h, root := New(Options{}), t.TempDir()
		outside := putFile(t, root+"/outside/kept", "x")
		v := volume(root+"/pods", "data", host.KindDir, "h")
		noError(t, h.Place(t.Context(), v))
		dir := v.Pod.Volume("data")
		noError(t, os.Symlink(filepath.Dir(outside), dir+"/link"))
		noError(t, os.Link(outside, dir+"/hard"))
		noError(t, unix.Mkfifo(dir+"/fifo", 0o600))
		// Deeper than a path can be long, and than files can be open at once.
		at, err := os.Open(dir)
		noError(t, err)
		for range 700 {
			noError(t, unix.Mkdirat(int(at.Fd()), "deeper", 0o755))
			next, err := openDir(at, "deeper")
			noError(t, errors.Join(err, at.Close()))
			at = os.NewFile(uintptr(duplicate(t, next)), "deep")
			noError(t, unix.Symlinkat(filepath.Dir(outside), int(at.Fd()), "link"))
		}
		noError(t, at.Close())
		noError(t, h.Clear(t.Context(), v.Pod))
		if present(v.Pod.Path()) || readBack(t, outside) != "x" {
			t.Error("something is left, or too much is gone")
		}
	})
}

func TestDirectoriesAreNotOpenedThroughLinks(t *testing.T) {
	root := t.TempDir()
	putDir(t, root, "dir")
	noError(t, os.Symlink("dir", root+"/link"))
	parent, err := os.Open(root)
	noError(t, err)
	defer func() { _ = parent.Close() }()
	dir, err := openDir(parent, "dir")
	noError(t, err)
	noError(t, dir.Close())
	if dir, err := openDir(parent, "link"); err == nil {
		t.Errorf("opened %s", dir.Name())
	}
}

// A pod that lives on may swap a directory for a link while it is removed.
func TestRemovalFollowsNoLinkThatComesLate(t *testing.T) {
	root := t.TempDir()
	kept := putFile(t, root+"/outside/kept", "x")
	stop := make(chan struct{})
	var pod sync.WaitGroup
	pod.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			// It is missing while it is removed and made.
			_ = unix.Renameat2(unix.AT_FDCWD, root+"/tree/dir", unix.AT_FDCWD, root+"/link", unix.RENAME_EXCHANGE)
		}
	})
	for range 100 {
		putFile(t, root+"/new/dir/file", "")
		if err := os.Remove(root + "/link"); err != nil {
			noError(t, os.RemoveAll(root+"/link"))
		}
		noError(t, os.Symlink(root+"/outside", root+"/link"))
		noError(t, os.Rename(root+"/new", root+"/tree"))
		for present(root + "/tree") {
			// What was swapped in between is an error, and removed by the next.
			_ = removeTree(t.Context(), root+"/tree")
		}
		if !present(kept) {
			t.Error("what is outside was removed")
			break
		}
	}
	close(stop)
	pod.Wait()
}

// duplicate keeps an open file without its name, which grows with the depth.
func duplicate(t *testing.T, f *os.File) int {
	t.Helper()
	fd, err := unix.Dup(int(f.Fd()))
	noError(t, errors.Join(err, f.Close()))
	return fd
}

func TestClearWaitsForPlaceButNotForEver(t *testing.T) {
	h, root := New(Options{}), t.TempDir()
	v := volume(root, "data", host.KindDir, "h")
	held, err := h.enterPod(t.Context(), v.Pod)
	noError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := h.Clear(ctx, v.Pod); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- h.Clear(t.Context(), v.Pod) }()
	noError(t, held.Close())
	noError(t, <-done)
	noError(t, h.Place(t.Context(), v))
}

func TestALockOnWhatIsGoneMeansNothing(t *testing.T) {
	pod := putDir(t, t.TempDir(), "pod")
	f, err := os.Open(pod)
	noError(t, err)
	defer func() { _ = f.Close() }()
	noError(t, stillThere(f))
	noError(t, os.Remove(pod))
	if err := stillThere(f); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("gone: %v", err)
	}
	putDir(t, pod)
	if err := stillThere(f); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("made anew: %v", err)
	}
}

// A pod's directory that cannot be made is an error, however often it is tried.
func TestPlaceWhereNoDirectoryCanBe(t *testing.T) {
	root := t.TempDir()
	v := volume(root, "config", host.KindFiles, "")
	noError(t, os.MkdirAll(filepath.Dir(v.Pod.Path()), 0o755))
	noError(t, os.Symlink("nowhere", v.Pod.Path()))
	if _, err := New(Options{}).enterPod(t.Context(), v.Pod); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// Helpers of two connections may be at work on one pod: each finds it whole.
func TestPlaceAndClearAtOnce(t *testing.T) {
	root := t.TempDir()
	v := volume(root, "config", host.KindFiles, "")
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			h := New(Options{})
			for j := range 50 {
				v := v
				v.Hash = strconv.Itoa(i*50 + j)
				v.Files = []host.File{textFile("a", v.Hash), textFile("b", v.Hash)}
				if err := h.Place(t.Context(), v); err != nil {
					t.Errorf("Place: %v", err)
				}
				if j%10 == i {
					if err := h.Clear(t.Context(), v.Pod); err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("Clear: %v", err)
					}
				}
			}
		})
	}
	all.Wait()
	dir := v.Pod.Volume("config")
	placed := onlyVolume(t, New(Options{}), v)
	if a, b := readBack(t, dir+"/a"), readBack(t, dir+"/b"); a != b || placed.Hash != a {
		t.Errorf("a = %s, b = %s, hash = %s", a, b, placed.Hash)
	}
	if got := listing(t, dir); len(got) != 6 {
		t.Errorf("left: %v", got)
	}
}

func TestWhatIsMountedIsUnmountedAndNotRemoved(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		h, root := New(Options{}), mountRoot(t)
		source := putDir(t, root, "source")
		putFile(t, source+"/sub/theirs", "x")
		v := volume(root+"/pods", "local", host.KindBind, "h")
		v.Source = source
		noError(t, h.Place(t.Context(), v))
		memory := volume(root+"/pods", "memory", host.KindTmpfs, "h")
		noError(t, h.Place(t.Context(), memory))
		// Mounts on mounts, hidden and inside each other.
		over := putDir(t, memory.Pod.Volume("memory"), "over")
		mountOn(t, source, over, "", unix.MS_BIND, "")
		mountOn(t, "tmpfs", memory.Pod.Volume("memory"), "tmpfs", 0, "")
		mountOn(t, source, v.Pod.Volume("local"), "", unix.MS_BIND, "")
		sub := host.SubPath{Volume: source, Path: "sub", Target: v.Pod.SubPath("c_0", "0")}
		_, err := h.Prepare(t.Context(), host.Preparation{SubPaths: []host.SubPath{sub}})
		noError(t, err)
		noError(t, h.Clear(t.Context(), v.Pod))
		if left := mustMounts(t).below(v.Pod.Path()); len(left) > 0 || present(v.Pod.Path()) {
			t.Errorf("left: %+v", left)
		}
		if got := readBack(t, source+"/sub/theirs"); got != "x" {
			t.Errorf("theirs = %q", got)
		}
	})
}

// A removal that meets a mount, of which it was not told, stops there.
func TestRemovalEntersNoMount(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		root := mountRoot(t)
		source := putDir(t, root, "source")
		theirs := putFile(t, source+"/theirs", "x")
		bound := putDir(t, root, "tree/a/bound")
		putFile(t, root+"/tree/a/ours", "")
		mountOn(t, source, bound, "", unix.MS_BIND, "")
		mountOn(t, theirs, putFile(t, root+"/tree/file", ""), "", unix.MS_BIND, "")
		for _, path := range []string{root + "/tree", bound} {
			if err := removeTree(t.Context(), path); !errors.Is(err, unix.EBUSY) {
				t.Errorf("%s: err = %v", path, err)
			}
		}
		if present(root+"/tree/a/ours") || readBack(t, theirs) != "x" {
			t.Error("too little is gone, or too much")
		}
		h := New(Options{})
		tree := []string{root + "/tree"}
		noError(t, only(h.Discard(t.Context(), host.Discard{Unmount: tree, Trees: tree})))
		if present(root+"/tree") || readBack(t, theirs) != "x" {
			t.Error("too little is gone, or too much")
		}
	})
}

// On a host whose mounts are shared, as systemd makes them, what the host mounts
// below a local volume's source shows up in the pod's. It must stay at the host.
func TestClearUnmountsNothingOfTheHosts(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		h, root := New(Options{}), mountRoot(t)
		mountOn(t, root, root, "", unix.MS_BIND, "")
		mountOn(t, "", root, "", unix.MS_SHARED, "")
		source := putDir(t, root, "source")
		disk := putDir(t, source, "sub/disk")
		v := volume(root+"/pods", "local", host.KindBind, "h")
		v.Source = source
		noError(t, h.Place(t.Context(), v))
		sub := host.SubPath{Volume: v.Pod.Volume("local"), Path: "sub", Target: v.Pod.SubPath("c_0", "0")}
		_, err := h.Prepare(t.Context(), host.Preparation{SubPaths: []host.SubPath{sub}})
		noError(t, err)
		mountOn(t, "tmpfs", disk, "tmpfs", 0, "")
		putFile(t, disk+"/theirs", "x")
		if !present(v.Pod.Volume("local")+"/sub/disk/theirs") || !present(sub.Target+"/disk/theirs") {
			t.Fatal("what the host mounts later is not seen")
		}
		// So does what a container mounts there whose propagation is Bidirectional.
		mountOn(t, "tmpfs", putDir(t, sub.Target, "up"), "tmpfs", 0, "")
		putFile(t, sub.Target+"/up/pods", "x")
		if !present(source+"/sub/up/pods") || !present(v.Pod.Volume("local")+"/sub/up/pods") {
			t.Fatal("what a pod mounts does not reach its volume")
		}
		noError(t, unix.Unmount(source+"/sub/up", 0))
		noError(t, h.Clear(t.Context(), v.Pod))
		if got := readBack(t, disk+"/theirs"); got != "x" {
			t.Errorf("theirs = %q", got)
		}
		noError(t, unix.Unmount(disk, 0))
	})
}

func TestAVolumeInUseIsTakenOutOfSight(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		h, root := New(Options{}), mountRoot(t)
		v := volume(root, "memory", host.KindTmpfs, "h")
		noError(t, h.Place(t.Context(), v))
		f, err := os.Create(v.Pod.Volume("memory") + "/open")
		noError(t, err)
		defer f.Close()
		noError(t, h.Clear(t.Context(), v.Pod))
		if _, err := f.WriteString("still there for who has it"); err != nil {
			t.Error(err)
		}
	})
}
