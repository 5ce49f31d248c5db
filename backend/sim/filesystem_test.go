package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/shell"
)

// withVolumes mounts "data" at /data, "part" of it at /data/in, and "fixed", which is
// read-only, at /fixed. The container writes its last words to /data/last.
func withVolumes() *container {
	volumes := map[string]*volume{}
	for _, name := range []string{"data", "part", "fixed"} {
		volumes[name] = &volume{name: name, readOnly: name == "fixed", now: &placement{}}
	}
	spec := backend.ContainerSpec{Container: corev1.Container{
		Name: "c", WorkingDir: "/data/dir", TerminationMessagePath: "/data/last",
		VolumeMounts: []corev1.VolumeMount{
			{Name: "data", MountPath: "/data"},
			{Name: "part", MountPath: "data/in/", SubPath: "sub//path"},
			{Name: "fixed", MountPath: "/fixed"},
			{Name: "data", MountPath: "/ro", ReadOnly: true},
		},
	}}
	c := &container{name: "c", spec: spec, started: epoch}
	var err error
	if c.mounts, err = mounts(spec, volumes); err != nil {
		panic(err)
	}
	return c
}

// TestWhereAPathLeads: to the deepest mount above it, but for the termination message, which is
// a file of its own.
func TestWhereAPathLeads(t *testing.T) {
	c := withVolumes()
	for name, want := range map[string]string{
		"/etc/x": ":/etc/x", "/": ":/", "/data": "data:", "/data/": "data:", "/data/x": "data:x", "x": "data:dir/x",
		"../x":      "data:x",
		"/database": ":/database", "/data/in": "part:sub/path", "/data/in/x/y": "part:sub/path/x/y",
		"/data/inner":   "data:inner",
		"/data/in/../x": "data:x", "/data/../etc": ":/etc", "/fixed/x": "fixed:x", "/data/last": ":/data/last",
		"../last": ":/data/last",
	} {
		at, m := c.locate(name)
		got := ":" + at.path
		if m != nil {
			got = at.volume.name + got
		}
		if got != want {
			t.Errorf("%s leads to %s, want %s", name, got, want)
		}
	}
}

// TestWhatMayBeWritten: what a kernel would say against a write.
func TestWhatMayBeWritten(t *testing.T) {
	const readOnly, directory = "Read-only file system", "Is a directory"
	for name, want := range map[string][2]string{ // with a root that may be written, and one that may not
		"/x": {"", readOnly}, "/dev/null": {"", ""}, "/dev/shm/x": {"", ""}, "/device": {"", readOnly},
		"/": {directory, readOnly}, "/data/x": {"", ""}, "/data": {directory, directory}, "/data/last": {"", ""},
		"/fixed/x": {readOnly, readOnly}, "/fixed": {readOnly, readOnly}, "/ro/x": {readOnly, readOnly},
	} {
		for i, why := range want {
			c := withVolumes()
			c.spec.Container.SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: new(i == 1)}
			w, got := c.change(time.Second, name, shell.Append, "data")
			if got != why || (why == "") != (w.data == "data") {
				t.Errorf("%s, read-only root %v: %q, want %q", name, i == 1, got, why)
			}
		}
	}
}

// TestRoomForWrites: what is superseded takes no room; a removal always fits.
func TestRoomForWrites(t *testing.T) {
	file := func(name string) place { return place{path: name} }
	big := strings.Repeat("x", shell.MaxWritten-writeCost)
	half := big[:len(big)/2]
	for name, tt := range map[string]struct {
		before []write
		next   write
		fits   bool
	}{
		"all there is": {nil, write{place: file("/a"), op: shell.Replace, data: big}, true},
		"a byte more":  {nil, write{place: file("/a"), op: shell.Replace, data: big + "x"}, false},
		"beside another": {
			[]write{{place: file("/a"), op: shell.Replace, data: half}},
			write{place: file("/b"), op: shell.Replace, data: half},
			false,
		},
		"in its place": {
			[]write{{place: file("/a"), op: shell.Replace, data: big}},
			write{place: file("/a"), op: shell.Replace, data: big},
			true,
		},
		"behind it": {
			[]write{{place: file("/a"), op: shell.Replace, data: big}}, write{place: file("/a"), op: shell.Append}, false,
		},
		"what is removed is free": {
			[]write{{place: file("/a"), data: big}, {place: file("/a"), op: shell.Remove}},
			write{place: file("/b"), data: half},
			true,
		},
		"a removal always": {
			[]write{{place: file("/a"), data: big}}, write{place: file("/b"), op: shell.Remove}, true,
		},
		"what goes nowhere, forever": {
			[]write{{place: file("/a"), data: big}}, write{place: file("/dev/null"), op: shell.Append, data: big}, true,
		},
	} {
		c := &container{}
		for _, w := range tt.before {
			c.keep(w)
		}
		if got := c.fits(tt.next); got != tt.fits {
			t.Errorf("%s: fits is %v", name, got)
		}
	}
}

// TestWritesAreKeptInOrder: by their time, whenever they are added; what a later one supersedes
// is forgotten, what is still to come is not.
func TestWritesAreKeptInOrder(t *testing.T) {
	at := func(seconds int, name string, op shell.Op, data string) write {
		return write{at: time.Duration(seconds) * time.Second, place: place{path: name}, op: op, data: data}
	}
	for name, tt := range map[string]struct {
		writes []write
		want   string // what is left
		file   string // what then is in /f
	}{
		"appended":    {[]write{at(1, "/f", shell.Append, "a"), at(2, "/f", shell.Append, "b")}, "1a 2b", "ab"},
		"out of turn": {[]write{at(5, "/f", shell.Append, "b"), at(1, "/f", shell.Append, "a")}, "1a 5b", "ab"},
		"replaced": {
			[]write{at(1, "/f", shell.Append, "a"), at(1, "/g", shell.Append, "g"), at(2, "/f", shell.Replace, "b")},
			"1g 2b",
			"b",
		},
		"replaced before": {
			[]write{at(1, "/f", shell.Append, "a"), at(9, "/f", shell.Append, "c"), at(5, "/f", shell.Replace, "b")},
			"5b 9c",
			"bc",
		},
		"removed": {[]write{at(1, "/f", shell.Append, "a"), at(2, "/f", shell.Remove, "")}, "2", "-"},
		"made again": {
			[]write{at(1, "/f", shell.Append, "a"), at(2, "/f", shell.Remove, ""), at(3, "/f", shell.Append, "b")}, "2 3b", "b",
		},
		"a directory":      {[]write{at(1, "/f", shell.Append, "a"), at(2, "/f", shell.MakeDir, "")}, "2", "-"},
		"to nowhere":       {[]write{at(1, "/dev/null", shell.Append, "a")}, "", "-"},
		"of the same time": {[]write{at(1, "/f", shell.Append, "a"), at(1, "/f", shell.Append, "b")}, "1a 1b", "ab"},
	} {
		c := &container{started: epoch}
		for _, w := range tt.writes {
			c.keep(w)
		}
		var left []string
		for _, w := range c.program.writes {
			left = append(left, fmt.Sprintf("%.0f%s", w.at.Seconds(), w.data))
		}
		data, ok := c.read("/f", second(60))
		file := string(data)
		if !ok {
			file = "-"
		}
		if got := strings.Join(left, " "); got != tt.want || file != tt.file {
			t.Errorf("%s: %q, the file holds %q; want %q, %q", name, got, file, tt.want, tt.file)
		}
	}
}

// TestWhatIsInADirectory: what was placed and written, seen through mounts.
func TestWhatIsInADirectory(t *testing.T) {
	c := withVolumes()
	c.mounts[0].volume.now = newPlacement(
		backend.VolumeSpec{Files: []backend.File{{Path: "placed"}, {Path: "deep/er/x"}}}, epoch,
	)
	part := newPlacement(
		backend.VolumeSpec{Files: []backend.File{{Path: "sub/path/shown"}, {Path: "sub/pathology/x"}, {Path: "hidden"}}},
		epoch,
	)
	c.mounts[1].fixed, c.mounts[1].volume.now = part, part
	for i, name := range []string{"/data/written", "/tmp/a/b", "/data/gone"} {
		w, why := c.change(time.Duration(i)*time.Second, name, shell.Append, "x")
		if why != "" {
			t.Fatal(why)
		}
		c.keep(w)
	}
	gone, _ := c.change(9*time.Second, "/data/gone", shell.Remove, "")
	c.keep(gone)
	now := second(60)
	for dir, want := range map[string][]string{
		"/data": {
			"deep", "in", "placed", "written",
		}, "/data/in": {"shown"}, "/data/deep": {"er"}, "/ro": {"deep", "placed", "written"},
		"/tmp": {"a"}, "/tmp/a/": {"b"}, "/fixed": {}, "/home": {}, "/none": nil, "/tmp/a/b": nil, "/data/gone": nil,
	} {
		got, ok := c.list(dir, func(name string) shell.Entry { return c.lookup(name, now) }, nil)
		if ok != (want != nil) || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", dir, got, ok, want)
		}
	}
}
