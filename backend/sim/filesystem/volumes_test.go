package filesystem

import (
	"slices"
	"strings"
	"testing"
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
		v := NewVolume(backend.Ref{}, tt.spec, dawn)
		if v.readOnly != tt.readOnly || v.Local != tt.local {
			t.Errorf("%s: read-only %v, local %v", name, v.readOnly, v.Local)
		}
	}
}

// TestWhatIsMounted: volumes of the pod, of images, or parts of them; what is not there waits, and what cannot be is
// refused.
func TestWhatIsMounted(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "image", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "i:1"}}},
	}}}
	volumes := map[string]*Volume{
		"data":  {Name: "data", Now: &Placement{Hash: "now"}},
		"fixed": {Name: "fixed", readOnly: true, Now: &Placement{Hash: "now"}},
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
		got, err := Mounts(spec, volumes, whole)
		if err != nil {
			if backend.Class(err) != tt.class || !strings.Contains(err.Error(), tt.says) || got != nil {
				t.Errorf("%s: %v, want %s: %s", name, err, tt.class, tt.says)
			}
			continue
		}
		m := got[1]
		text := m.path + " " + m.Volume.Name + ":" + m.subPath
		if m.readOnly {
			text += " ro"
		}
		if m.fixed != nil {
			text += " fixed"
		}
		if text != tt.want || got[0].path != "/first" {
			t.Errorf("%s: %s, want %s", name, text, tt.want)
		}
		m.Volume.Now = &Placement{Hash: "later"}
		if shows := m.placement().Hash; (shows == "later") == (m.fixed != nil) {
			t.Errorf("%s: it shows what was there %s", name, shows)
		}
		m.Volume.Now = &Placement{Hash: "now"}
	}
}

// TestSizesOfVolumes: what is in their files by now, and how many there are.
func TestSizesOfVolumes(t *testing.T) {
	placed := []backend.File{{Path: "a", Data: []byte("12345")}, {Path: "b"}}
	for name, tt := range map[string]struct {
		writes       [][]Write // of each container; those of the second begin a second later
		bytes, files uint64
	}{
		"as placed":            {nil, 5, 2},
		"another file":         {[][]Write{{{Place: Place{Path: "c"}, Op: shell.Append, Data: "678"}}}, 8, 3},
		"added to":             {[][]Write{{{Place: Place{Path: "a"}, Op: shell.Append, Data: "678"}}}, 8, 2},
		"replaced":             {[][]Write{{{Place: Place{Path: "a"}, Op: shell.Replace, Data: "6"}}}, 1, 2},
		"removed":              {[][]Write{{{Place: Place{Path: "a"}, Op: shell.Remove}}}, 0, 1},
		"never there, removed": {[][]Write{{{Place: Place{Path: "x"}, Op: shell.Remove}}}, 5, 2},
		"a directory":          {[][]Write{{{Place: Place{Path: "x"}, Op: shell.MakeDir}}}, 5, 2},
		"not yet":              {[][]Write{{{At: time.Hour, Place: Place{Path: "c"}, Op: shell.Append, Data: "6"}}}, 5, 2},
		"two, one after another": {[][]Write{
			{{At: 2 * time.Second, Place: Place{Path: "a"}, Op: shell.Append, Data: "6"}},
			{{Place: Place{Path: "a"}, Op: shell.Replace, Data: "78"}},
		}, 3, 2},
		"two, the other way": {[][]Write{
			{{Place: Place{Path: "a"}, Op: shell.Append, Data: "6"}}, {{Place: Place{Path: "a"}, Op: shell.Replace, Data: "78"}},
		}, 2, 2},
	} {
		v := NewVolume(backend.Ref{}, backend.VolumeSpec{Files: slices.Clone(placed)}, dawn)
		other := NewVolume(backend.Ref{}, backend.VolumeSpec{}, dawn)
		for i, writes := range tt.writes {
			c := &scribe{started: after(1 + i)}
			c.keep(Write{Place: Place{other, "elsewhere"}, Op: shell.Append, Data: "much more"})
			for _, w := range writes {
				w.Volume = v
				c.keep(w)
			}
		}
		if bytes, files := v.Size(after(60)); bytes != tt.bytes || files != tt.files {
			t.Errorf("%s: %d bytes in %d files, want %d in %d", name, bytes, files, tt.bytes, tt.files)
		}
	}
}
