package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend/cri/host"
)

func volume(root, name, kind, hash string, files ...host.File) host.Volume {
	return host.Volume{
		Pod:       host.PodDir{Root: root, Node: "cluster/node-a", UID: "uid-1"},
		Namespace: "default", PodName: "web", Name: name, Kind: kind, Hash: hash, Files: files,
	}
}

func textFile(path, data string) host.File {
	return host.File{Path: path, Data: []byte(data), Mode: 0o644}
}

// listing is what stands below a directory: links with their targets, files with mode
// and data. The time in names is left out.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	data, err := os.Readlink(filepath.Join(dir, dataLink))
	noError(t, err)
	out := map[string]string{}
	noError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			what = "-> " + target
		case info.Mode().IsRegular():
			what += " " + readBack(t, path)
		}
		name := strings.TrimPrefix(path, dir+"/")
		out[strings.ReplaceAll(name, data, "..NOW")] = strings.ReplaceAll(what, data, "..NOW")
		return nil
	}))
	return out
}

func TestContentsStandAsTheKubeletWritesThem(t *testing.T) {
	h, root := New(Options{}), t.TempDir()
	v := volume(root, "config", host.KindFiles, "h1",
		textFile("a/../a/deep/one", "1"), host.File{Path: "key", Data: []byte("k"), Mode: 0o400}, textFile("./z", ""))
	if err := h.Place(t.Context(), v); err == nil {
		t.Fatal("a path with '..' was accepted")
	}
	v.Files[0].Path = "a//deep/./one"
	v.Nested = []string{"mnt/inner"}
	noError(t, h.Place(t.Context(), v))
	dir := v.Pod.Volume("config")
	want := map[string]string{
		"..data": "-> ..NOW", "..NOW": "drwxr-xr-x", "..NOW/a": "drwxr-xr-x", "..NOW/a/deep": "drwxr-xr-x",
		"..NOW/a/deep/one": "-rw-r--r-- 1", "..NOW/key": "-r-------- k", "..NOW/z": "-rw-r--r-- ",
		"a": "-> ..data/a", "key": "-> ..data/key", "z": "-> ..data/z",
		"mnt": "drwxr-xr-x", "mnt/inner": "drwxr-xr-x",
	}
	if diff := cmp.Diff(want, listing(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("volume: %v, %v", info.Mode(), err)
	}
	v.Hash, v.Files = "h2", []host.File{textFile("a/deep/two", "2"), textFile("new", "n")}
	noError(t, h.Place(t.Context(), v))
	want = map[string]string{
		"..data": "-> ..NOW", "..NOW": "drwxr-xr-x", "..NOW/a": "drwxr-xr-x", "..NOW/a/deep": "drwxr-xr-x",
		"..NOW/a/deep/two": "-rw-r--r-- 2", "..NOW/new": "-rw-r--r-- n",
		"a": "-> ..data/a", "new": "-> ..data/new", "mnt": "drwxr-xr-x", "mnt/inner": "drwxr-xr-x",
	}
	if diff := cmp.Diff(want, listing(t, dir)); diff != "" {
		t.Errorf("after an update (-want +got):\n%s", diff)
	}
}

func TestContentPathsAreRefusedInTheKubeletsWords(t *testing.T) {
	for path, want := range map[string]string{
		"":                                 "must not be empty",
		".":                                "must not be empty",
		"/etc/passwd":                      "must be relative path: /etc/passwd",
		"../x":                             "must not contain '..': ../x",
		"a/../../x":                        "must not contain '..'",
		"..data":                           "must not start with '..': ..data",
		"./..data/x":                       "must not start with '..'",
		strings.Repeat("n", 256):           "filenames must be less than or equal to 255 characters",
		"a/" + strings.Repeat("n/", 2100):  "must be less than or equal to 4096 characters",
		"ok":                               "",
		"..a..":                            "must not start with '..'",
		"dir/..hidden":                     "",
		strings.Repeat("n", 255) + "/file": "",
	} {
		err := checkContentPath(path)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), "invalid path: "+want) {
			t.Errorf("%.40q: err = %v, want %q", path, err, want)
		}
	}
}

// inodeStamps are the inode and times of all below a directory.
func inodeStamps(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	noError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			out[path] = fmt.Sprintf("%+v", info.Sys())
		}
		return err
	}))
	return out
}

func withoutAccess(m map[string]string) map[string]string {
	for k, v := range m {
		before, _, _ := strings.Cut(v, "Atim:")
		_, after, _ := strings.Cut(v, "Mtim:")
		m[k] = before + after
	}
	return m
}

func TestTheSameHashTouchesNothing(t *testing.T) {
	h, root := New(Options{}), t.TempDir()
	files := volume(root, "files", host.KindFiles, "h1", textFile("a", "1"))
	dir := volume(root, "dir", host.KindDir, "h1")
	for _, v := range []host.Volume{files, dir} {
		noError(t, h.Place(t.Context(), v))
	}
	putFile(t, dir.Pod.Volume("dir")+"/pods-own", "x")
	before := withoutAccess(inodeStamps(t, root))
	for _, v := range []host.Volume{files, dir} {
		// What is not named by the hash does not count.
		v.Files = nil
		noError(t, New(Options{}).Place(t.Context(), v))
	}
	if diff := cmp.Diff(before, withoutAccess(inodeStamps(t, root))); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestReadersNeverSeeAMix(t *testing.T) {
	h, root := New(Options{}), t.TempDir()
	v := volume(root, "config", host.KindFiles, "0", textFile("a", "0"), textFile("b", "0"))
	noError(t, h.Place(t.Context(), v))
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			// One directory is one version, while it is there.
			data := filepath.Join(v.Pod.Volume("config"), dataLink)
			if _, err := os.Readlink(data); err != nil {
				t.Errorf("no contents: %v", err)
				return
			}
			dir, err := os.OpenRoot(data)
			if errors.Is(err, fs.ErrNotExist) {
				// It was swapped between the link and what it leads to, as can happen at
				// the kubelet's.
				continue
			}
			if err != nil {
				t.Errorf("open contents: %v", err)
				return
			}
			a, errA := dir.ReadFile("a")
			b, errB := dir.ReadFile("b")
			if errA == nil && errB == nil && string(a) != string(b) {
				t.Errorf("a is %s and b is %s", a, b)
			}
			_ = dir.Close()
		}
	})
	for i := range 100 {
		v.Hash = fmt.Sprint(i)
		v.Files = []host.File{textFile("a", v.Hash), textFile("b", v.Hash)}
		noError(t, h.Place(t.Context(), v))
	}
	close(stop)
	reader.Wait()
}

func TestPlaceGoesOnFromWhatACrashLeft(t *testing.T) {
	old, next := []host.File{textFile("a", "old"), textFile("gone", "old")}, []host.File{
		textFile("a", "new"), textFile("b", "new"),
	}
	for name, crash := range map[string]func(t *testing.T, v host.Volume, dir string){
		"the pod's directory":  func(t *testing.T, v host.Volume, _ string) { putDir(t, v.Pod.Path()) },
		"an empty description": func(t *testing.T, v host.Volume, _ string) { putFile(t, v.Pod.Described(v.Name), "") },
		"half a description": func(t *testing.T, v host.Volume, _ string) {
			putFile(t, v.Pod.Described(v.Name), `{"UID":"uid-1","Na`)
		},
		"a description's other name": func(t *testing.T, v host.Volume, _ string) {
			putFile(t, filepath.Dir(v.Pod.Described(v.Name))+"/.config.json.123.tmp", "{")
		},
		"a description only": func(t *testing.T, v host.Volume, _ string) {
			putDir(t, filepath.Dir(v.Pod.Described(v.Name)))
			noError(t, writeDescription(v.Pod, describe(v)))
		},
		"contents half written": func(_ *testing.T, _ host.Volume, dir string) {
			putFile(t, dir+"/..2020_01_01_00_00_00.1/a", "ne")
		},
		"a link not yet renamed": func(t *testing.T, _ host.Volume, dir string) {
			putFile(t, dir+"/..2020_01_01_00_00_00.1/a", "new")
			noError(t, os.Symlink("..2020_01_01_00_00_00.1", dir+"/"+newDataLink))
		},
		"contents swapped, links missing": func(t *testing.T, _ host.Volume, dir string) {
			w, err := openContents(dir)
			noError(t, err)
			defer w.root.Close()
			noError(t, w.swap("..2020_01_01_00_00_00.1", next, func() error { return nil }))
		},
		"all but the description": func(t *testing.T, _ host.Volume, dir string) {
			w, err := openContents(dir)
			noError(t, err)
			defer w.root.Close()
			_, err = w.write(next, func() error { return nil })
			noError(t, err)
		},
		"a link that leads nowhere": func(t *testing.T, _ host.Volume, dir string) {
			noError(t, ignoreMissing(os.Remove(dir+"/"+dataLink)))
			noError(t, os.Symlink("..2019", dir+"/"+dataLink))
		},
	} {
		for _, before := range []bool{false, true} {
			for _, again := range []string{"h1", "h2"} {
				t.Run(fmt.Sprintf("%s, placed before %v, then %s", name, before, again), func(t *testing.T) {
					h, root := New(Options{}), t.TempDir()
					v := volume(root, "config", host.KindFiles, "h1", old...)
					dir := v.Pod.Volume("config")
					if before {
						noError(t, h.Place(t.Context(), v))
					} else {
						putDir(t, dir)
					}
					crash(t, v, dir)
					want := map[string]string{"..data": "-> ..NOW", "..NOW": "drwxr-xr-x"}
					if v.Hash = again; again == "h2" {
						v.Files = next
					}
					for _, f := range v.Files {
						want["..NOW/"+f.Path] = "-rw-r--r-- " + string(f.Data)
						want[f.Path] = "-> ..data/" + f.Path
					}
					noError(t, h.Place(t.Context(), v))
					// A version that was never swapped in may stay until the next.
					noError(t, h.Place(t.Context(), v))
					got := listing(t, dir)
					for path := range got {
						if strings.HasPrefix(path, "..2020") || path == newDataLink {
							if !before || again == "h2" {
								t.Errorf("%s is left", path)
							}
							delete(got, path)
						}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
					placed, err := h.Volumes(t.Context(), root, v.Pod.Node)
					noError(t, err)
					if len(placed) != 1 || placed[0].Hash != again {
						t.Errorf("placed = %+v", placed)
					}
				})
			}
		}
	}
}

func TestACrashAfterTheSwapHasNoHash(t *testing.T) {
	h, root := New(Options{}), t.TempDir()
	v := volume(root, "config", host.KindFiles, "h1", textFile("a", "1"))
	noError(t, h.Place(t.Context(), v))
	w, err := openContents(v.Pod.Volume("config"))
	noError(t, err)
	_, err = w.write([]host.File{textFile("a", "2")}, func() error { return nil })
	noError(t, errors.Join(err, w.root.Close()))
	placed, err := h.Volumes(t.Context(), root, v.Pod.Node)
	noError(t, err)
	if len(placed) != 1 || placed[0].Hash != "" {
		t.Errorf("placed = %+v, want no hash", placed)
	}
	noError(t, h.Place(t.Context(), v))
	if got := readBack(t, v.Pod.Volume("config")+"/a"); got != "1" {
		t.Errorf("a = %q, want what the hash says", got)
	}
}

func TestVolumesAreThoseOfTheNodeThatAreWhole(t *testing.T) {
	h, root := New(Options{}), t.TempDir()
	start := time.Now()
	for _, v := range []host.Volume{
		volume(root, "config", host.KindFiles, "hc", textFile("a", "1")), volume(root, "data", host.KindDir, "hd"),
		volume(root, "lost", host.KindDir, "hl"), volume(root, "torn", host.KindFiles, "ht"),
	} {
		noError(t, h.Place(t.Context(), v))
	}
	pod := volume(root, "", "", "").Pod
	noError(t, os.Remove(pod.Volume("lost")))
	noError(t, os.WriteFile(pod.Described("torn"), nil, 0o600))
	other := volume(root, "theirs", host.KindDir, "x")
	other.Pod.UID, other.Pod.Node = "uid-2", "cluster/node-b"
	noError(t, h.Place(t.Context(), other))
	files := host.PodDir{Root: root, Node: pod.Node, UID: "uid-3"}
	putFile(t, files.Mark(), pod.Node)
	putFile(t, files.File("hosts"), "")
	putDir(t, root, "unmarked")
	putFile(t, root+"/a-file", "")
	placed, err := h.Volumes(t.Context(), root, pod.Node)
	noError(t, err)
	for i, p := range placed {
		if p.Hash != "" && (p.PlacedAt.Before(start) || p.PlacedAt.After(time.Now())) {
			t.Errorf("%s placed at %v", p.Name, p.PlacedAt)
		}
		placed[i].PlacedAt = time.Time{}
	}
	want := []host.Placed{
		{UID: "uid-1", Namespace: "default", PodName: "web", Name: "config", Hash: "hc"},
		{UID: "uid-1", Namespace: "default", PodName: "web", Name: "data", Hash: "hd"},
		{UID: "uid-1", Namespace: "default", PodName: "web", Name: "lost"},
		{UID: "uid-1", Name: "torn"},
		{UID: "uid-3"},
	}
	if diff := cmp.Diff(want, placed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if placed, err := h.Volumes(t.Context(), root+"/none", pod.Node); err != nil || len(placed) != 0 {
		t.Errorf("without a root: %v, %v", placed, err)
	}
}

func TestContentsOfAnEarlierBootAreNotBelieved(t *testing.T) {
	proc, root := t.TempDir(), t.TempDir()
	boot := putFile(t, proc+"/sys/kernel/random/boot_id", "boot-1\n")
	putFile(t, proc+"/self/mountinfo", "")
	h := New(Options{ProcRoot: proc})
	config, data := volume(root, "config", host.KindFiles, "h", textFile("a", "1")), volume(
		root, "data", host.KindDir, "h",
	)
	noError(t, h.Place(t.Context(), config))
	noError(t, h.Place(t.Context(), data))
	putFile(t, data.Pod.Volume("data")+"/kept", "by the pod")
	putFile(t, boot, "boot-2\n")
	noError(t, os.Truncate(config.Pod.Volume("config")+"/a", 0))
	placed, err := h.Volumes(t.Context(), root, data.Pod.Node)
	noError(t, err)
	if len(placed) != 2 || placed[0].Hash != "" || placed[1].Hash != "h" {
		t.Errorf("placed = %+v", placed)
	}
	noError(t, h.Place(t.Context(), config))
	if got := readBack(t, config.Pod.Volume("config")+"/a"); got != "1" {
		t.Errorf("a = %q", got)
	}
	if got := readBack(t, data.Pod.Volume("data")+"/kept"); got != "by the pod" {
		t.Errorf("kept = %q", got)
	}
}

func TestVolumesThatLeadElsewhereAreRefused(t *testing.T) {
	root := t.TempDir()
	for name, change := range map[string]func(*host.Volume){
		"no name":        func(v *host.Volume) { v.Name = "" },
		"name up":        func(v *host.Volume) { v.Name = ".." },
		"name with /":    func(v *host.Volume) { v.Name = "a/b" },
		"no uid":         func(v *host.Volume) { v.Pod.UID = "" },
		"uid up":         func(v *host.Volume) { v.Pod.UID = ".." },
		"relative root":  func(v *host.Volume) { v.Pod.Root = "pods" },
		"no node":        func(v *host.Volume) { v.Pod.Node = "" },
		"no kind":        func(v *host.Volume) { v.Kind = "cloud" },
		"an NFS option":  func(v *host.Volume) { v.Kind, v.Source = host.KindNFS, "-oexec:/x" },
		"no NFS path":    func(v *host.Volume) { v.Kind, v.Source = host.KindNFS, "server" },
		"bind with ..":   func(v *host.Volume) { v.Kind, v.Source = host.KindBind, "/a/../b" },
		"bind relative":  func(v *host.Volume) { v.Kind, v.Source = host.KindBind, "a" },
		"bind option":    func(v *host.Volume) { v.Kind, v.Source, v.MountOptions = host.KindBind, "/", []string{"x"} },
		"nested outside": func(v *host.Volume) { v.Kind, v.Nested = host.KindFiles, []string{"../x"} },
	} {
		t.Run(name, func(t *testing.T) {
			v := volume(root+"/pods", "v", host.KindDir, "h")
			change(&v)
			if err := New(Options{}).Place(t.Context(), v); err == nil {
				t.Error("it was placed")
			}
		})
	}
}

func BenchmarkPlaceContents(b *testing.B) {
	h := New(Options{})
	v := volume(
		b.TempDir(), "config", host.KindFiles, "", textFile("ca.crt", strings.Repeat("x", 1100)),
		textFile("namespace", "default"), textFile("token", strings.Repeat("y", 1000)),
	)
	for i := 0; b.Loop(); i++ {
		v.Hash = fmt.Sprint("h", i)
		if err := h.Place(b.Context(), v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVolumesOf60Pods(b *testing.B) {
	h, root := New(Options{}), b.TempDir()
	for i := range 60 {
		for _, name := range []string{"token", "config", "data"} {
			v := volume(root, name, host.KindFiles, "h", textFile("a", "1"))
			v.Pod.UID = fmt.Sprint("uid-", i)
			if err := h.Place(b.Context(), v); err != nil {
				b.Fatal(err)
			}
		}
	}
	for b.Loop() {
		if placed, err := h.Volumes(b.Context(), root, "cluster/node-a"); err != nil || len(placed) != 180 {
			b.Fatal(len(placed), err)
		}
	}
}
