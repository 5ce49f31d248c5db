package sim

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/filesystem"
	"github.com/burstlet/burstlet/backend/sim/shell"
)

// TestPlacedFilesAreCopies: in the order of their paths, of what was given then.
func TestPlacedFilesAreCopies(t *testing.T) {
	files := []backend.File{{Path: "b", Data: []byte("2")}, {Path: "a/x", Data: []byte("1")}, {Path: "c"}}
	p := filesystem.NewVolume(backend.Ref{}, backend.VolumeSpec{Hash: "h", Files: files}, second(3)).Now
	files[0].Data[0] = '9'
	for range 2 {
		shown := contentsOf(p)
		got := fmt.Sprint(seen(shown.At), shown.Hash)
		for _, f := range shown.Files {
			got += fmt.Sprintf(" %s=%s", f.Path, f.Data)
			for i := range f.Data {
				f.Data[i] = '9'
			}
		}
		if want := "3h a/x=1 b=2 c="; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestWhatIsRead: a file of a volume, as containers left it by now.
func TestWhatIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{})
		b := r.Backend()
		pod := &corev1.Pod{}
		pod.UID = "u"
		err := b.Files.Place(t.Context(), backend.VolumeSpec{Pod: pod, Name: "v", Hash: "h", Files: []backend.File{
			{Path: "placed", Data: []byte("as placed")},
			{Path: "d/e/f", Data: []byte("deep")},
			{Path: "lost"},
			{Path: "was/it"},
			{Path: "more", Data: []byte("1")},
			{Path: "full", Data: make([]byte, backend.MaxReadFile)},
			{Path: "large", Data: make([]byte, backend.MaxReadFile+1)},
		}})
		if err != nil {
			t.Fatal(err)
		}
		v := r.volumes[volumeKey{"sim", "u"}]["v"]
		c := &container{started: time.Now()}
		for _, w := range []filesystem.Write{
			{Place: filesystem.Place{Volume: v, Path: "written"}, Op: shell.Replace, Data: "by it"},
			{Place: filesystem.Place{Volume: v, Path: "made"}, Op: shell.MakeDir},
			{Place: filesystem.Place{Volume: v, Path: "in/made"}, Op: shell.Replace},
			{Place: filesystem.Place{Volume: v, Path: "lost"}, Op: shell.Remove},
			{Place: filesystem.Place{Volume: v, Path: "more"}, Op: shell.Append, Data: "2"},
			{Place: filesystem.Place{Volume: v, Path: "was/it"}, Op: shell.Remove},
			{At: time.Hour, Place: filesystem.Place{Volume: v, Path: "soon/it"}, Op: shell.Replace, Data: "not yet"},
			{At: time.Hour, Place: filesystem.Place{Volume: v, Path: "late"}, Op: shell.Replace, Data: "not yet"},
			{At: time.Hour, Place: filesystem.Place{Volume: v, Path: "placed"}, Op: shell.Replace, Data: "not yet"},
		} {
			c.keep(w)
		}
		for file, want := range map[string]string{
			"placed": "as placed", "d/e/f": "deep", "./d//e/f": "deep", "d/../placed": "as placed", "written": "by it",
			"more": "12", "full": strings.Repeat("\x00", backend.MaxReadFile), "in/made": "",
			"none": "NotFound: no such file", "late": "NotFound: no such file", "lost": "NotFound: no such file",
			"../v/placed": "NotFound: no such file", "placed/x": "NotFound: no such file",
			"made": "Invalid: it is no regular file", "d": "Invalid: it is no regular file",
			"d/e/": "Invalid: it is no regular file", "in": "Invalid: it is no regular file",
			".": "Invalid: it is no regular file", "was": "NotFound: no such file", "soon": "NotFound: no such file",
			"large": "Invalid: it is larger than 65536 bytes",
		} {
			data, err := b.Files.Read(t.Context(), backend.VolumeFile{Pod: backend.Ref{UID: "u"}, Volume: "v", Path: file})
			got := string(data)
			if err != nil {
				got = backend.Class(err) + ": " + strings.TrimPrefix(err.Error(), "read v/"+file+" of pod u: ")
			}
			if got != want {
				t.Errorf("%s: %.60q, want %.60q", file, got, want)
			}
		}
		for name, file := range map[string]backend.VolumeFile{
			"another volume": {Pod: backend.Ref{UID: "u"}, Volume: "w", Path: "placed"},
			"another pod's":  {Pod: backend.Ref{UID: "w"}, Volume: "v", Path: "placed"},
		} {
			if _, err := b.Files.Read(t.Context(), file); backend.Class(err) != "NotFound" {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestWhatCanBePlaced: clean paths within the volume, of which none is below another.
func TestWhatCanBePlaced(t *testing.T) {
	for name, tt := range map[string]struct {
		paths []string
		says  string
	}{
		"nothing":               {nil, ""},
		"files":                 {[]string{"a", "b"}, ""},
		"below each other":      {[]string{"d/a", "d/b", "d/e/c"}, ""},
		"that begin alike":      {[]string{"a", "ab", "a-b/c", "a.d"}, ""},
		"with dots":             {[]string{"..data", "...", ".a", "a..b"}, ""},
		"the volume itself":     {[]string{"."}, `"." is not a clean relative path`},
		"above it":              {[]string{".."}, `".." is not a clean relative path`},
		"beside it":             {[]string{"../x"}, `"../x" is not a clean relative path`},
		"beside it, in the end": {[]string{"a/../../x"}, `"a/../../x" is not a clean relative path`},
		"from the root":         {[]string{"/x"}, `"/x" is not a clean relative path`},
		"a directory":           {[]string{"x/"}, `"x/" is not a clean relative path`},
		"no name":               {[]string{""}, `"" is not a clean relative path`},
		"one twice":             {[]string{"a", "b", "a"}, `"a" and "a" cannot both be files`},
		"one in another":        {[]string{"a", "a/b"}, `"a" and "a/b" cannot both be files`},
		"one around another":    {[]string{"a/b/c", "a/b"}, `"a/b/c" and "a/b" cannot both be files`},
	} {
		spec := backend.VolumeSpec{Name: "v"}
		for _, p := range tt.paths {
			spec.Files = append(spec.Files, backend.File{Path: p})
		}
		err := filesystem.Check(spec)
		launched := backend.LaunchSpec{Pod: &corev1.Pod{}, Volumes: []backend.VolumeSpec{{Name: "first"}, spec}}
		_, launch := carried(launched, epoch)
		if (launch == nil) != (err == nil) {
			t.Errorf("%s: with a launch: %v", name, launch)
		}
		switch {
		case tt.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.says != "" && (backend.Class(err) != "Invalid" || err.Error() != `volume "v": `+tt.says):
			t.Errorf("%s: %v, want %s", name, err, tt.says)
		}
	}
	if err := filesystem.Check(backend.VolumeSpec{}); backend.Class(err) != "Invalid" {
		t.Errorf("a volume without a name: %v", err)
	}
}
