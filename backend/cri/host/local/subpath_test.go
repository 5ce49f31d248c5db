package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/test/kit/lane"
)

// subPathRoom is a volume beside something that is not the pod's.
func subPathRoom(t *testing.T, root string) (volume, outside string) {
	t.Helper()
	volume, outside = putDir(t, root, "volume"), putDir(t, root, "outside")
	putFile(t, outside+"/secret", "not yours")
	return volume, outside
}

func TestSubPathsStayInTheirVolume(t *testing.T) {
	root := t.TempDir()
	volume, outside := subPathRoom(t, root)
	putFile(t, volume+"/dir/file", "ours")
	noError(t, os.Symlink(volume, root+"/via"))
	for link, to := range map[string]string{
		"inside": "dir", "dir/up": "../dir/file", "absolute": volume + "/dir", "absolutevia": root + "/via/dir",
		"out": "../outside", "dir/outup": "../../outside/secret", "absout": outside, "sneaky": volume + "/../outside",
		"prefix": volume + "x", "loop": "loop", "chain": "inside/up", "throughout": "out/../volume/dir",
		"dangling": "nowhere",
	} {
		noError(t, os.Symlink(to, volume+"/"+link))
	}
	putDir(t, volume+"x")
	const notWithin = "not within volume path"
	for _, c := range []struct{ path, opens, want string }{
		{"dir", "dir", ""},
		{"dir/file", "dir/file", ""},
		{".", ".", ""},
		{"./dir//file", "dir/file", ""},
		{"inside/file", "dir/file", ""},
		{"dir/up", "dir/file", ""},
		{"absolute/file", "dir/file", ""},
		{"absolutevia/file", "dir/file", ""},
		{"chain", "dir/file", ""},
		{"out", "", notWithin},
		{"out/secret", "", notWithin},
		{"dir/outup", "", notWithin},
		{"absout/secret", "", notWithin},
		{"sneaky/secret", "", notWithin},
		{"prefix", "", notWithin},
		{"throughout", "", notWithin},
		{"loop", "", "too many levels of symbolic links"},
		{"dir/file/below", "", "not a directory"},
		{"../outside", "", "must not contain '..'"},
		{"dir/../dir", "", "must not contain '..'"},
		{"/etc", "", "must not be an absolute path"},
		{"missing/dir", "", "no such file"},
		{"dangling", "", "no such file"},
	} {
		for _, volume := range []string{volume, root + "/via"} {
			f, err := openSubPath(host.SubPath{Volume: volume, Path: c.path, ReadOnly: true})
			// A link of the host's that leads to the volume is known only as its name.
			want := c.want
			if strings.HasPrefix(c.path, "absolutevia") && !strings.HasSuffix(volume, "via") {
				want = notWithin
			}
			if want != "" {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: err = %v, want %q", c.path, err, want)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", c.path, err)
				continue
			}
			got, err := f.Stat()
			noError(t, errors.Join(err, f.Close()))
			if want, err := os.Stat(volume + "/" + c.opens); err != nil || !os.SameFile(got, want) {
				t.Errorf("%s is not %s", c.path, c.opens)
			}
		}
	}
	// Nothing stays open.
	entries, err := os.ReadDir("/proc/self/fd")
	noError(t, err)
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, root) {
			t.Errorf("%s is still open", to)
		}
	}
}

func TestMissingSubPathsAreMadeAsTheVolumeIs(t *testing.T) {
	root := t.TempDir()
	volume, outside := subPathRoom(t, root)
	noError(t, unix.Chmod(volume, 0o2775))
	noError(t, os.Symlink("../outside", volume+"/out"))
	f, err := openSubPath(host.SubPath{Volume: volume, Path: "a/b"})
	noError(t, err)
	noError(t, f.Close())
	for _, path := range []string{"/a", "/a/b"} {
		if got := mode(t, volume+path); got != fs.ModeDir|fs.ModeSetgid|0o775 {
			t.Errorf("%s: %v", path, got)
		}
	}
	if _, err := openSubPath(host.SubPath{Volume: volume, Path: "out/made"}); err == nil || present(outside+"/made") {
		t.Errorf("err = %v", err)
	}
	if _, err := openSubPath(host.SubPath{Volume: volume, Path: "x", ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) ||
		present(volume+"/x") {
		t.Errorf("read-only: %v", err)
	}
}

func TestAMadeDirectoryThatTurnedIntoALinkIsNotOpened(t *testing.T) {
	volume, outside := subPathRoom(t, t.TempDir())
	noError(t, os.Symlink(outside, volume+"/made"))
	base, err := os.Open(volume)
	noError(t, err)
	defer func() { _ = base.Close() }()
	w := &subPathWalk{volume: volume, stack: []*os.File{base}}
	if f, err := w.mkdir("made", volume+"/made"); err == nil {
		t.Errorf("opened %s", f.Name())
	}
}

func TestSubPathsAreBoundOnce(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		h, root := New(Options{}), mountRoot(t)
		volume, _ := subPathRoom(t, root)
		pod := host.PodDir{Root: root + "/pods", Node: "n", UID: "u"}
		putFile(t, volume+"/dir/file", "ours")
		noError(t, unix.Mkfifo(volume+"/fifo", 0o600))
		listener, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		noError(t, err)
		noError(t, syscall.Bind(listener, &syscall.SockaddrUnix{Name: volume + "/socket"}))
		noError(t, syscall.Close(listener))
		noError(t, unix.Mknod(volume+"/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
		var p host.Preparation
		for i, path := range []string{"dir", "dir/file", "fifo", "socket", "null", "made/here"} {
			p.SubPaths = append(
				p.SubPaths, host.SubPath{Volume: volume, Path: path, Target: pod.SubPath("c_0", string(rune('0'+i)))},
			)
		}
		for range 2 {
			done, err := h.Prepare(t.Context(), p)
			noError(t, err)
			for i, target := range done.SubPaths {
				want, err := os.Stat(volume + "/" + p.SubPaths[i].Path)
				noError(t, err)
				got, err := os.Stat(target)
				if noError(t, err); !os.SameFile(want, got) || len(mountsAt(t, target)) != 1 {
					t.Errorf("%s: %v, mounted %d times", p.SubPaths[i].Path, got, len(mountsAt(t, target)))
				}
			}
		}
		// The same target for something else, of another kind.
		p.SubPaths = []host.SubPath{{Volume: volume, Path: "dir/file", Target: pod.SubPath("c_0", "0")}}
		_, err = h.Prepare(t.Context(), p)
		noError(t, err)
		if target := p.SubPaths[0].Target; readBack(t, target) != "ours" || len(mountsAt(t, target)) != 1 {
			t.Error("it was not bound anew")
		}
		// What a container of an attempt that has ended leaves.
		noError(t, only(h.Discard(
			t.Context(), host.Discard{Unmount: []string{pod.SubPaths("c_0")}, Trees: []string{pod.SubPaths("c_0")}},
		)))
		if present(pod.SubPaths("c_0")) || readBack(t, volume+"/dir/file") != "ours" {
			t.Error("too little is gone, or too much")
		}
	})
}

// A pod that swaps a directory for a link while it is prepared gets an error or what
// is its own.
func TestSwappedDirectoriesLeadNowhere(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		h, root := New(Options{}), mountRoot(t)
		volume, outside := subPathRoom(t, root)
		putDir(t, volume, "dir", "sub")
		putDir(t, outside, "sub")
		noError(t, os.Symlink(outside, volume+"/link"))
		stop := make(chan struct{})
		var pod sync.WaitGroup
		pod.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := unix.Renameat2(unix.AT_FDCWD, volume+
					"/dir", unix.AT_FDCWD, volume+"/link", unix.RENAME_EXCHANGE); err != nil {
					t.Errorf("swap: %v", err)
					return
				}
				// What is made is swapped as soon as it is there.
				_ = unix.Renameat2(unix.AT_FDCWD, volume+"/made", unix.AT_FDCWD, volume+"/later", unix.RENAME_EXCHANGE)
			}
		})
		target := root + "/pods/u/subpaths/c_0/0"
		bound, refused := 0, 0
		for i := range lane.Pick(100, 400, 400) {
			path := []string{"dir", "dir/sub", "dir/made/" + string(rune('a'+i%26)), "made/sub"}[i%4]
			for present(volume+"/made") || present(volume+"/later") {
				// An exchange in between is an error, and gone with the next.
				_, _ = os.RemoveAll(volume+"/made"), os.RemoveAll(volume+"/later")
			}
			noError(t, os.Symlink(outside, volume+"/later"))
			_, err := h.Prepare(
				t.Context(), host.Preparation{SubPaths: []host.SubPath{{Volume: volume, Path: path, Target: target}}},
			)
			if err != nil {
				refused++
			} else if bound++; present(target+"/secret") || isBelow(t, target, outside) {
				t.Fatal("what is outside was bound")
			}
			noError(t, only(h.Discard(t.Context(), host.Discard{Unmount: []string{target}, Trees: []string{target}})))
		}
		close(stop)
		pod.Wait()
		entries, err := os.ReadDir(outside)
		noError(t, err)
		if len(entries) != 2 || present(outside+"/sub/made") {
			t.Errorf("something was made outside: %v", entries)
		}
		if bound == 0 || refused == 0 {
			t.Errorf("bound %d, refused %d: the race did not happen", bound, refused)
		}
	})
}

// isBelow is true where what is bound at a path is outside or in it.
func isBelow(t *testing.T, path, outside string) bool {
	t.Helper()
	got, err := os.Stat(path)
	noError(t, err)
	found := false
	noError(t, filepath.WalkDir(outside, func(_ string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		found = found || err == nil && os.SameFile(info, got)
		return err
	}))
	return found
}
