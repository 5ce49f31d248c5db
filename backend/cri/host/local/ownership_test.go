package local

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/test/kit/need"
)

// ownerAndMode is group and mode as the kernel has them.
func ownerAndMode(t *testing.T, path string) string {
	t.Helper()
	var st unix.Stat_t
	noError(t, unix.Lstat(path, &st))
	return fmt.Sprintf("%d %o", st.Gid, st.Mode&0o7777)
}

func TestAnFSGroupGetsTheVolumeAsAtTheKubelet(t *testing.T) {
	need.Root(t)
	for _, c := range []struct {
		name                       string
		o                          ownership
		dir, sub, plain, exec, top string
	}{
		{"writable", ownership{group: 4711}, "4711 2777", "4711 2770", "4711 664", "4711 760", "4711 2777"},
		{"read-only", ownership{group: 4711, readOnly: true}, "4711 2777", "4711 2750", "4711 644", "4711 740", "4711 2777"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			outside := putFile(t, root+"/outside", "x")
			dir := putDir(t, root, "volume")
			noError(t, os.Chmod(dir, 0o777))
			noError(t, os.Mkdir(dir+"/sub", 0o700))
			plain, script := putFile(t, dir+"/sub/plain", ""), putFile(t, dir+"/script", "")
			noError(t, os.Chmod(script, 0o700))
			noError(t, os.Symlink(outside, dir+"/link"))
			noError(t, unix.Mkfifo(dir+"/fifo", 0o600))
			before := ownerAndMode(t, outside)
			noError(t, setOwnership(t.Context(), dir, c.o))
			for path, want := range map[string]string{
				dir: c.dir, dir + "/sub": c.sub, plain: c.plain, script: c.exec, dir + "/link": "4711 777", outside: before,
			} {
				if got := ownerAndMode(t, path); got != want {
					t.Errorf("%s: %s, want %s", path, got, want)
				}
			}
		})
	}
}

func TestOnRootMismatchLooksAtTheRootOnly(t *testing.T) {
	need.Root(t)
	for _, c := range []struct {
		name     string
		group    int
		mode     uint32
		readOnly bool
		changes  bool
	}{
		{"all is right", 4711, 0o2770, false, false},
		{"more than is needed", 4711, 0o2777, false, false},
		{"another group", 0, 0o2770, false, true},
		{"no setgid", 4711, 0o770, false, true},
		{"the group cannot write", 4711, 0o2750, false, true},
		{"the owner cannot enter", 4711, 0o2670, false, true},
		{"reading is enough", 4711, 0o2550, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			inside := putFile(t, dir+"/file", "")
			noError(t, os.Chown(dir, -1, c.group))
			noError(t, unix.Chmod(dir, c.mode))
			noError(t, setOwnership(t.Context(), dir, ownership{group: 4711, readOnly: c.readOnly, onRootMismatch: true}))
			info, err := os.Stat(inside)
			noError(t, err)
			if changed := info.Sys().(*syscall.Stat_t).Gid == 4711; changed != c.changes {
				t.Errorf("changed = %v", changed)
			}
			noError(t, unix.Chmod(dir, 0o755))
		})
	}
}

func TestAnEmptyDirBelongsToItsFSGroup(t *testing.T) {
	need.Root(t)
	h, root, group := New(Options{}), t.TempDir(), int64(4711)
	v := volume(root, "data", host.KindDir, "h")
	noError(t, h.Place(t.Context(), v))
	if got := ownerAndMode(t, v.Pod.Volume("data")); got != "0 777" {
		t.Errorf("without: %s", got)
	}
	v.FSGroup = &group
	noError(t, h.Place(t.Context(), v))
	if got := ownerAndMode(t, v.Pod.Volume("data")); got != "4711 2777" {
		t.Errorf("with: %s", got)
	}
}

func TestContentsAreOwnedBeforeTheyAreSeen(t *testing.T) {
	need.Root(t)
	h, root, group, user := New(Options{}), t.TempDir(), int64(4711), int64(1000)
	v := volume(root, "config", host.KindFiles, "h1", host.File{Path: "d/key", Data: []byte("k"), Mode: 0o600, UID: &user})
	v.FSGroup = &group
	noError(t, h.Place(t.Context(), v))
	dir := v.Pod.Volume("config")
	for path, want := range map[string]string{dir: "4711 2777", dir +
		"/..data/d": "4711 2755", dir + "/d/key": "4711 640"} {
		if got := ownerAndMode(t, path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	var st unix.Stat_t
	if noError(t, unix.Lstat(dir+"/d", &st)); st.Uid != 1000 {
		t.Errorf("the link belongs to %d", st.Uid)
	}
}
