package local

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/burstlet/burstlet/backend/cri/host"
)

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	noError(t, err)
	return info.Mode()
}

func TestWhatIsPreparedHasItsModesWhateverTheUmask(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		syscall.Umask(0o077)
		h, root := New(Options{}), t.TempDir()
		p := host.Preparation{
			Dirs:   []string{root + "/logs/pod/container"},
			Writes: []host.Write{{Path: root + "/pod/files/hosts", Data: []byte("127.0.0.1"), Mode: 0o644}},
			Shared: []string{root + "/message/c"},
			Sources: []host.Source{
				{Path: root + "/made/dir", Type: "DirectoryOrCreate"}, {Path: root + "/made/file", Type: "FileOrCreate"},
			},
			Links: []host.Link{{Target: "../logs/x", Path: root + "/links/x.log"}},
		}
		for range 2 {
			_, err := h.Prepare(t.Context(), p)
			noError(t, err)
			for path, want := range map[string]fs.FileMode{
				"logs": fs.ModeDir | 0o755, "logs/pod/container": fs.ModeDir | 0o755, "pod/files/hosts": 0o644,
				"message": fs.ModeDir | 0o700, "message/c": 0o666, "made/dir": fs.ModeDir | 0o755, "made/file": 0o644,
			} {
				if got := mode(t, root+"/"+path); got != want {
					t.Errorf("%s: %v, want %v", path, got, want)
				}
			}
			if target, err := os.Readlink(root + "/links/x.log"); err != nil || target != "../logs/x" {
				t.Errorf("link -> %q, %v", target, err)
			}
		}
		v := volume(root+"/pods", "config", host.KindFiles, "h", textFile("d/a", "1"))
		noError(t, h.Place(t.Context(), v))
		for path, want := range map[string]fs.FileMode{
			"": fs.ModeDir | 0o777, "/..data/d": fs.ModeDir | 0o755, "/..data/d/a": 0o644,
		} {
			if got := mode(t, v.Pod.Volume("config")+path); got != want {
				t.Errorf("volume%s: %v, want %v", path, got, want)
			}
		}
	})
}

func TestFilesAreWrittenAsAWhole(t *testing.T) {
	h, root := New(Options{}), t.TempDir()
	path := root + "/files/hosts"
	prepare := func(w host.Write) (inode string) {
		t.Helper()
		w.Path, w.Mode = path, 0o644
		_, err := h.Prepare(t.Context(), host.Preparation{Writes: []host.Write{w}})
		noError(t, err)
		return withoutAccess(inodeStamps(t, path))[path]
	}
	first := prepare(host.Write{Data: []byte("one")})
	if again := prepare(host.Write{Data: []byte("one")}); again != first {
		t.Error("the same contents were written again")
	}
	if kept := prepare(host.Write{Data: []byte("two"), KeepExisting: true}); kept != first {
		t.Error("what is there was not kept")
	}
	if other := prepare(host.Write{Data: []byte("two")}); other == first || readBack(t, path) != "two" {
		t.Errorf("contents = %q", readBack(t, path))
	}
	entries, err := os.ReadDir(root + "/files")
	if noError(t, err); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
}

// TestWhatIsWrittenWithinStaysTheSameFile: what has it mounted, and the label that it
// was given, go on with it.
func TestWhatIsWrittenWithinStaysTheSameFile(t *testing.T) {
	file := t.TempDir() + "/pod/hosts"
	prepare := func(w host.Write) {
		t.Helper()
		w.Path, w.Mode = file, 0o644
		_, err := New(Options{}).Prepare(t.Context(), host.Preparation{Writes: []host.Write{w}})
		noError(t, err)
	}
	prepare(host.Write{Data: []byte("made"), Within: true})
	mounted, err := os.Open(file)
	noError(t, err)
	defer mounted.Close()
	for _, text := range []string{"longer than before", "short", ""} {
		prepare(host.Write{Data: []byte(text), Within: true})
		got := make([]byte, 100)
		n, err := mounted.ReadAt(got, 0)
		if !errors.Is(err, io.EOF) || string(got[:n]) != text {
			t.Errorf("what has it open reads %q, %v, want %q", got[:n], err, text)
		}
	}
	noError(t, os.Remove(file))
	noError(t, os.Symlink("/elsewhere", file))
	if _, err := New(Options{}).Prepare(
		t.Context(), host.Preparation{Writes: []host.Write{{Path: file, Data: []byte("x"), Within: true}}},
	); err == nil {
		t.Error("a link was followed")
	}
}

func TestSharedFilesKeepWhatIsInThem(t *testing.T) {
	h, root := New(Options{}), t.TempDir()
	path := putFile(t, root+"/message", "said")
	_, err := h.Prepare(t.Context(), host.Preparation{Shared: []string{path}})
	if noError(t, err); readBack(t, path) != "said" || mode(t, path) != 0o666 {
		t.Errorf("%v %q", mode(t, path), readBack(t, path))
	}
	noError(t, os.Remove(path))
	noError(t, os.Symlink(root+"/elsewhere", path))
	if _, err := h.Prepare(t.Context(), host.Preparation{Shared: []string{path}}); !errors.Is(err, syscall.ELOOP) ||
		present(root+"/elsewhere") {
		t.Errorf("through a link: %v", err)
	}
}

func TestLinksAreMadeOrReplaced(t *testing.T) {
	h, root := New(Options{}), t.TempDir()
	for name, before := range map[string]func(path string) error{
		"nothing":      func(string) error { return nil },
		"right":        func(path string) error { return os.Symlink("target", path) },
		"another link": func(path string) error { return os.Symlink("other", path) },
		"a file":       func(path string) error { return os.WriteFile(path, nil, 0o644) },
	} {
		path := root + "/" + name
		noError(t, before(path))
		_, err := h.Prepare(t.Context(), host.Preparation{Links: []host.Link{{Target: "target", Path: path}}})
		if now, _ := os.Readlink(path); err != nil || now != "target" {
			t.Errorf("%s: -> %q, %v", name, now, err)
		}
	}
}

func TestHostPathsAreCheckedInTheKubeletsWords(t *testing.T) {
	root := t.TempDir()
	dir, file, socket := putDir(t, root, "dir"), putFile(t, root+"/file", "x"), root+"/socket"
	listener, err := net.Listen("unix", socket)
	noError(t, err)
	defer listener.Close()
	noError(t, os.Symlink(file, root+"/link"))
	const failed = "hostPath type check failed: "
	for _, c := range []struct{ path, kind, want string }{
		{root + "/none", "", ""},
		{dir, "Directory", ""},
		{file, "Directory", failed + file + " is not a directory"},
		{root + "/none", "Directory", failed + root + "/none is not a directory"},
		{file, "DirectoryOrCreate", failed + file + " is not a directory"},
		{root + "/made/deep", "DirectoryOrCreate", ""},
		{root + "/made/deep", "Directory", ""},
		{file, "File", ""},
		{root + "/link", "File", ""},
		{dir, "File", failed + dir + " is not a file"},
		{dir, "FileOrCreate", failed + dir + " is not a file"},
		{root + "/made/file", "FileOrCreate", ""},
		{root + "/no/parent", "FileOrCreate", "no such file or directory"},
		{socket, "Socket", ""},
		{file, "Socket", failed + file + " is not a socket file"},
		{"/dev/null", "CharDevice", ""},
		{file, "CharDevice", failed + file + " is not a character device"},
		{"/dev/null", "BlockDevice", failed + "/dev/null is not a block device"},
		{file, "Tape", "Tape is an invalid volume type"},
	} {
		err := checkSource(t.Context(), host.Source{Path: c.path, Type: c.kind})
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: err = %v, want %q", c.kind, c.path, err, c.want)
		}
	}
	if readBack(t, file) != "x" {
		t.Error("a file was changed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := checkSource(ctx, host.Source{Path: dir, Type: "Directory"}); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func TestDiscardGoesAsFarAsItCan(t *testing.T) {
	h, root := New(Options{}), t.TempDir()
	tree, link, file := putDir(t, root, "tree"), root+"/link", putFile(t, root+"/file", "")
	kept := putFile(t, root+"/kept/x", "x")
	noError(t, os.Symlink(root+"/kept", link))
	err := only(h.Discard(t.Context(), host.Discard{
		Unmount: []string{root + "/none"},
		Trees:   []string{"relative", "/", root + "/tree/../kept", tree, link, file, root + "/none", root + "/none/either"},
	}))
	if err == nil || strings.Count(err.Error(), "invalid argument") != 3 {
		t.Errorf("err = %v, want three that cannot be meant", err)
	}
	if present(tree) || present(link) || present(file) || readBack(t, kept) != "x" {
		t.Error("too little is gone, or too much")
	}
}
