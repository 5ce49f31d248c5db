package local

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// listedRoom is a listed path with links in it that lead out.
func listedRoom(t *testing.T, root string) (listed, outside string) {
	t.Helper()
	listed, outside = putDir(t, root, "listed"), putDir(t, root, "outside")
	putFile(t, outside+"/secret", "not yours")
	putFile(t, listed+"/dir/file", "ours")
	noError(t, os.Symlink(outside, listed+"/out"))
	noError(t, os.Symlink("../../outside", listed+"/dir/out"))
	noError(t, os.Symlink(listed+"/dir", listed+"/in"))
	noError(t, os.Symlink(listed, root+"/via"))
	return listed, outside
}

func TestPathsStayWithinTheListedOne(t *testing.T) {
	root := t.TempDir()
	listed, outside := listedRoom(t, root)
	for _, c := range []struct {
		within, path, opens string
		want                error
	}{
		{listed, listed, listed, nil},
		{listed, listed + "/dir/file", listed + "/dir/file", nil},
		{listed, listed + "/in/file", listed + "/dir/file", nil},
		{root + "/via", root + "/via/dir", listed + "/dir", nil},
		{"/", listed + "/dir", listed + "/dir", nil},
		{listed, listed + "/out", "", fs.ErrPermission},
		{listed, listed + "/out/secret", "", fs.ErrPermission},
		{listed, listed + "/dir/out/secret", "", fs.ErrPermission},
		{listed, listed + "/../outside", "", fs.ErrPermission},
		{listed, outside, "", fs.ErrPermission},
		{listed, listed + "x", "", fs.ErrPermission},
		{listed, listed + "/none", "", fs.ErrNotExist},
	} {
		f, err := openWithin(c.within, c.path, false)
		if c.want != nil {
			if !errors.Is(err, c.want) {
				t.Errorf("%s: err = %v, want %v", c.path, err, c.want)
			}
			continue
		}
		noError(t, err)
		got, err := f.Stat()
		noError(t, errors.Join(err, f.Close()))
		if want, err := os.Stat(c.opens); err != nil || !os.SameFile(got, want) {
			t.Errorf("%s is not %s", c.path, c.opens)
		}
	}
}

// What a hostPath's type makes is made within the listed path, never where a link leads.
func TestSourcesAreMadeWithinTheListedPath(t *testing.T) {
	root := t.TempDir()
	listed, outside := listedRoom(t, root)
	noError(t, unix.Chmod(listed, 0o1777))
	for _, c := range []struct {
		path, kind string
		want       error
	}{
		{listed + "/dir", "Directory", nil},
		{listed + "/in/file", "File", nil},
		{listed + "/new/deep", "DirectoryOrCreate", nil},
		{listed + "/new/file", "FileOrCreate", nil},
		{listed + "/new/file", "File", nil},
		{listed + "/out", "Directory", fs.ErrPermission},
		{listed + "/out/secret", "File", fs.ErrPermission},
		{listed + "/out/made", "DirectoryOrCreate", fs.ErrPermission},
		{listed + "/out/made", "FileOrCreate", fs.ErrPermission},
	} {
		if err := checkSource(
			t.Context(), host.Source{Path: c.path, Type: c.kind, Within: listed},
		); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s %s: err = %v, want %v", c.kind, c.path, err, c.want)
		}
	}
	if present(outside + "/made") {
		t.Error("something was made outside")
	}
	for path, want := range map[string]fs.FileMode{
		"/new": fs.ModeDir | 0o755, "/new/deep": fs.ModeDir | 0o755, "/new/file": 0o644,
	} {
		if got := mode(t, listed+path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

// A volume below a listed path, and a subPath in it, are bound to what was opened. A
// subPath stays in its volume, and no mount reaches the host or comes from it.
func TestVolumesBelowAListedPathAreBound(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		h, root := New(Options{}), mountRoot(t)
		listed, _ := listedRoom(t, root)
		noError(t, unix.Mount(listed, listed, "", unix.MS_BIND, "")) // shared, as under systemd
		noError(t, unix.Mount("", listed, "", unix.MS_SHARED, ""))
		pod := host.PodDir{Root: root + "/pods", Node: "n", UID: "u"}
		bind := func(volume, path string) error {
			s := host.SubPath{Volume: volume, Path: path, Within: listed, Target: pod.SubPath("c_0", "0")}
			_, err := h.Prepare(t.Context(), host.Preparation{SubPaths: []host.SubPath{s}})
			return err
		}
		putFile(t, listed+"/other/file", "another's")
		noError(t, os.Symlink("../other", listed+"/dir/other"))
		for _, bad := range [][2]string{{listed +
			"/out", ""}, {listed + "/dir", "out"}, {listed + "/dir", "other"}, {listed + "/dir", "../other"}} {
			if err := bind(bad[0], bad[1]); err == nil || present(pod.SubPath("c_0", "0")+"/secret") {
				t.Errorf("%v: err = %v", bad, err)
			}
		}
		for range 2 {
			noError(t, bind(listed+"/dir", ""))
			if target := pod.SubPath("c_0", "0"); readBack(t, target+"/file") != "ours" || len(mountsAt(t, target)) != 1 {
				t.Error("the directory is not what is bound")
			}
		}
		noError(t, unix.Mount("tmpfs", putDir(t, listed, "dir", "sub"), "tmpfs", 0, ""))
		if got := mountsAt(t, pod.SubPath("c_0", "0")+"/sub"); len(got) != 0 {
			t.Error("a mount of the host's came with it, and would be unmounted with the pod")
		}
		noError(t, unix.Unmount(listed+"/dir/sub", 0))
		noError(t, bind(listed+"/dir/file", ""))
		if readBack(t, pod.SubPath("c_0", "0")) != "ours" {
			t.Error("the file is not what is bound")
		}
		noError(t, only(h.Discard(
			t.Context(), host.Discard{Unmount: []string{pod.SubPaths("c_0")}, Trees: []string{pod.SubPaths("c_0")}},
		)))
	})
}

func TestLocalVolumesBelowAListedPath(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		h, root := New(Options{}), mountRoot(t)
		listed, outside := listedRoom(t, root)
		v := host.Volume{
			Pod: host.PodDir{Root: root + "/pods", Node: "n", UID: "u"}, Name: "v", Kind: host.KindBind, Hash: "1",
			Within: listed,
		}
		v.Source = listed + "/out"
		if err := h.Place(t.Context(), v); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a link that leads to %s: err = %v", outside, err)
		}
		v.Source = listed + "/dir"
		for range 2 {
			noError(t, h.Place(t.Context(), v))
			if at := v.Pod.Volume("v"); readBack(t, at+"/file") != "ours" || len(mountsAt(t, at)) != 1 {
				t.Error("the directory is not what is bound")
			}
		}
		noError(t, h.Clear(t.Context(), v.Pod))
	})
}
