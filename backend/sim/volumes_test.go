package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/shell"
)

// TestKindsOfVolumes: which only burstlet writes, and which take the host's disk.
func TestKindsOfVolumes(t *testing.T) {
	inMemory := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
	for name, tt := range map[string]struct {
		spec            backend.VolumeSpec
		readOnly, local bool
	}{
		"nothing said": {backend.VolumeSpec{}, false, false},
		"an emptyDir": {
			backend.VolumeSpec{Source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, false, true,
		},
		"one in memory": {backend.VolumeSpec{Source: corev1.VolumeSource{EmptyDir: inMemory}}, false, false},
		"a ConfigMap": {
			backend.VolumeSpec{Source: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}, true, true,
		},
		"a Secret": {
			backend.VolumeSpec{Source: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}}, true, false,
		},
		"several projected": {
			backend.VolumeSpec{Source: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}, true, false,
		},
		"the pod's own fields": {
			backend.VolumeSpec{Source: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}}, true, false,
		},
		"the host's": {
			backend.VolumeSpec{Source: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}}, false, false,
		},
		"the host's, to be read": {
			backend.VolumeSpec{ReadOnly: true, Source: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}},
			true, false,
		},
	} {
		v := newVolume(backend.Ref{}, tt.spec, epoch)
		if v.readOnly != tt.readOnly || v.local != tt.local {
			t.Errorf("%s: read-only %v, local %v", name, v.readOnly, v.local)
		}
	}
}

// TestPlacedFilesAreCopies: in the order of their paths, of what was given then.
func TestPlacedFilesAreCopies(t *testing.T) {
	files := []backend.File{{Path: "b", Data: []byte("2")}, {Path: "a/x", Data: []byte("1")}, {Path: "c"}}
	p := newPlacement(backend.VolumeSpec{Hash: "h", Files: files}, second(3))
	files[0].Data[0] = '9'
	for range 2 {
		shown := p.shown()
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
		err := checkVolume(spec)
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
	if err := checkVolume(backend.VolumeSpec{}); backend.Class(err) != "Invalid" {
		t.Errorf("a volume without a name: %v", err)
	}
}

// TestWhatIsMounted: volumes of the pod, of images, or parts of them; what is not there waits, and what cannot be is
// refused.
func TestWhatIsMounted(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "image", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "i:1"}}},
	}}}
	volumes := map[string]*volume{
		"data":  {name: "data", now: &placement{hash: "now"}},
		"fixed": {name: "fixed", readOnly: true, now: &placement{hash: "now"}},
	}
	for name, tt := range map[string]struct {
		mount       corev1.VolumeMount
		want        string // where, what of which volume
		class, says string
	}{
		"a volume":             {corev1.VolumeMount{Name: "data", MountPath: "/d"}, "/d data:", "", ""},
		"a path to be cleaned": {corev1.VolumeMount{Name: "data", MountPath: "d/x/../"}, "/d data:", "", ""},
		"read-only":            {corev1.VolumeMount{Name: "data", MountPath: "/d", ReadOnly: true}, "/d data: ro", "", ""},
		"one that always is":   {corev1.VolumeMount{Name: "fixed", MountPath: "/d"}, "/d fixed: ro", "", ""},
		"a part": {
			corev1.VolumeMount{Name: "data", MountPath: "/d", SubPath: "a//b/"}, "/d data:a/b fixed", "", "",
		},
		"an image": {corev1.VolumeMount{Name: "image", MountPath: "/i"}, "/i image: ro", "", ""},
		"a part of an image": {
			corev1.VolumeMount{Name: "image", MountPath: "/i", SubPath: "etc"}, "/i image:etc ro fixed", "", "",
		},
		"not there": {
			corev1.VolumeMount{Name: "other"}, "", "Transient", `container "c" spec: volume "other" is not placed`,
		},
		"to be expanded": {
			corev1.VolumeMount{Name: "data", MountPath: "/d", SubPathExpr: "$(A)"}, "", "Invalid", `"/d" is not expanded`,
		},
		"a file of an image": {
			corev1.VolumeMount{Name: "image", SubPath: "etc/os-release"},
			"", "Transient",
			`image subpath "etc/os-release" in "i:1": only directory subpath is supported`,
		},
		"none of an image": {
			corev1.VolumeMount{Name: "image", SubPath: "et"}, "", "Transient", "openat et: no such file or directory",
		},
	} {
		spec := backend.ContainerSpec{Pod: pod, Container: corev1.Container{
			Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/first"}, tt.mount},
		}}
		got, err := mounts(spec, volumes)
		if err != nil {
			if backend.Class(err) != tt.class || !strings.Contains(err.Error(), tt.says) || got != nil {
				t.Errorf("%s: %v, want %s: %s", name, err, tt.class, tt.says)
			}
			continue
		}
		m := got[1]
		text := m.path + " " + m.volume.name + ":" + m.subPath
		if m.readOnly {
			text += " ro"
		}
		if m.fixed != nil {
			text += " fixed"
		}
		if text != tt.want || got[0].path != "/first" {
			t.Errorf("%s: %s, want %s", name, text, tt.want)
		}
		m.volume.now = &placement{hash: "later"}
		if shows := m.placement().hash; (shows == "later") == (m.fixed != nil) {
			t.Errorf("%s: it shows what was there %s", name, shows)
		}
		m.volume.now = &placement{hash: "now"}
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
		for _, w := range []write{
			{place: place{v, "written"}, op: shell.Replace, data: "by it"},
			{place: place{v, "made"}, op: shell.MakeDir},
			{place: place{v, "in/made"}, op: shell.Replace},
			{place: place{v, "lost"}, op: shell.Remove},
			{place: place{v, "more"}, op: shell.Append, data: "2"},
			{place: place{v, "was/it"}, op: shell.Remove},
			{at: time.Hour, place: place{v, "soon/it"}, op: shell.Replace, data: "not yet"},
			{at: time.Hour, place: place{v, "late"}, op: shell.Replace, data: "not yet"},
			{at: time.Hour, place: place{v, "placed"}, op: shell.Replace, data: "not yet"},
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

// TestSizesOfVolumes: what is in their files by now, and how many there are.
func TestSizesOfVolumes(t *testing.T) {
	placed := []backend.File{{Path: "a", Data: []byte("12345")}, {Path: "b"}}
	for name, tt := range map[string]struct {
		writes       [][]write // of each container; those of the second begin a second later
		bytes, files uint64
	}{
		"as placed":            {nil, 5, 2},
		"another file":         {[][]write{{{place: place{path: "c"}, op: shell.Append, data: "678"}}}, 8, 3},
		"added to":             {[][]write{{{place: place{path: "a"}, op: shell.Append, data: "678"}}}, 8, 2},
		"replaced":             {[][]write{{{place: place{path: "a"}, op: shell.Replace, data: "6"}}}, 1, 2},
		"removed":              {[][]write{{{place: place{path: "a"}, op: shell.Remove}}}, 0, 1},
		"never there, removed": {[][]write{{{place: place{path: "x"}, op: shell.Remove}}}, 5, 2},
		"a directory":          {[][]write{{{place: place{path: "x"}, op: shell.MakeDir}}}, 5, 2},
		"not yet":              {[][]write{{{at: time.Hour, place: place{path: "c"}, op: shell.Append, data: "6"}}}, 5, 2},
		"two, one after another": {[][]write{
			{{at: 2 * time.Second, place: place{path: "a"}, op: shell.Append, data: "6"}},
			{{place: place{path: "a"}, op: shell.Replace, data: "78"}},
		}, 3, 2},
		"two, the other way": {[][]write{
			{{place: place{path: "a"}, op: shell.Append, data: "6"}}, {{place: place{path: "a"}, op: shell.Replace, data: "78"}},
		}, 2, 2},
	} {
		v := newVolume(backend.Ref{}, backend.VolumeSpec{Files: slices.Clone(placed)}, epoch)
		other := newVolume(backend.Ref{}, backend.VolumeSpec{}, epoch)
		for i, writes := range tt.writes {
			c := &container{started: second(1 + i)}
			c.keep(write{place: place{other, "elsewhere"}, op: shell.Append, data: "much more"})
			for _, w := range writes {
				w.volume = v
				c.keep(w)
			}
		}
		if bytes, files := v.size(second(60)); bytes != tt.bytes || files != tt.files {
			t.Errorf("%s: %d bytes in %d files, want %d in %d", name, bytes, files, tt.bytes, tt.files)
		}
	}
}
