package filesystem

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

var dawn = time.Unix(1_000_000, 0)

func after(n int) time.Time { return dawn.Add(time.Duration(n) * time.Second) }

// scribe is a container that writes.
type scribe struct {
	Tree
	writes            []Write
	started, finished time.Time
}

func (s *scribe) Writes() []Write           { return s.writes }
func (s *scribe) Ran() (from, to time.Time) { return s.started, s.finished }

func (s *scribe) keep(w Write) {
	s.writes = Keep(s.writes, w)
	w.Subscribe(s)
}

func whole(image string) string { return image }

// withVolumes mounts "data" at /data, "part" of it at /data/in, and "fixed", which is
// read-only, at /fixed. The container writes its last words to /data/last.
func withVolumes() *scribe {
	volumes := map[string]*Volume{}
	for _, name := range []string{"data", "part", "fixed"} {
		volumes[name] = &Volume{Name: name, readOnly: name == "fixed", Now: &Placement{}}
	}
	spec := backend.ContainerSpec{Container: corev1.Container{
		Name: "c",
		VolumeMounts: []corev1.VolumeMount{
			{Name: "data", MountPath: "/data"},
			{Name: "part", MountPath: "data/in/", SubPath: "sub//path"},
			{Name: "fixed", MountPath: "/fixed"},
			{Name: "data", MountPath: "/ro", ReadOnly: true},
		},
	}}
	c := &scribe{started: dawn}
	c.Tree = Tree{Writer: c, Dir: "/data/dir", TerminationPath: "/data/last"}
	var err error
	if c.Mounts, err = Mounts(spec, volumes, whole); err != nil {
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
		at, m := c.Locate(name)
		got := ":" + at.Path
		if m != nil {
			got = at.Volume.Name + got
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
			c.ReadOnlyRoot = i == 1
			w, got := c.Change(time.Second, name, shell.Append, "data")
			if got != why || (why == "") != (w.Data == "data") {
				t.Errorf("%s, read-only root %v: %q, want %q", name, i == 1, got, why)
			}
		}
	}
}

// TestRoomForWrites: what is superseded takes no room; a removal always fits.
func TestRoomForWrites(t *testing.T) {
	file := func(name string) Place { return Place{Path: name} }
	big := strings.Repeat("x", shell.MaxWritten-writeCost)
	half := big[:len(big)/2]
	for name, tt := range map[string]struct {
		before []Write
		next   Write
		fits   bool
	}{
		"all there is": {nil, Write{Place: file("/a"), Op: shell.Replace, Data: big}, true},
		"a byte more":  {nil, Write{Place: file("/a"), Op: shell.Replace, Data: big + "x"}, false},
		"beside another": {
			[]Write{{Place: file("/a"), Op: shell.Replace, Data: half}},
			Write{Place: file("/b"), Op: shell.Replace, Data: half},
			false,
		},
		"in its place": {
			[]Write{{Place: file("/a"), Op: shell.Replace, Data: big}},
			Write{Place: file("/a"), Op: shell.Replace, Data: big},
			true,
		},
		"behind it": {
			[]Write{{Place: file("/a"), Op: shell.Replace, Data: big}}, Write{Place: file("/a"), Op: shell.Append}, false,
		},
		"what is removed is free": {
			[]Write{{Place: file("/a"), Data: big}, {Place: file("/a"), Op: shell.Remove}},
			Write{Place: file("/b"), Data: half},
			true,
		},
		"a removal always": {
			[]Write{{Place: file("/a"), Data: big}}, Write{Place: file("/b"), Op: shell.Remove}, true,
		},
		"what goes nowhere, forever": {
			[]Write{{Place: file("/a"), Data: big}}, Write{Place: file("/dev/null"), Op: shell.Append, Data: big}, true,
		},
	} {
		c := &scribe{}
		for _, w := range tt.before {
			c.keep(w)
		}
		if got := tt.next.Fits(c.writes); got != tt.fits {
			t.Errorf("%s: fits is %v", name, got)
		}
	}
}

// TestWritesAreKeptInOrder: by their time, whenever they are added; what a later one supersedes
// is forgotten, what is still to come is not.
func TestWritesAreKeptInOrder(t *testing.T) {
	at := func(seconds int, name string, op shell.Op, data string) Write {
		return Write{At: time.Duration(seconds) * time.Second, Place: Place{Path: name}, Op: op, Data: data}
	}
	for name, tt := range map[string]struct {
		writes []Write
		want   string // what is left
		file   string // what then is in /f
	}{
		"appended":    {[]Write{at(1, "/f", shell.Append, "a"), at(2, "/f", shell.Append, "b")}, "1a 2b", "ab"},
		"out of turn": {[]Write{at(5, "/f", shell.Append, "b"), at(1, "/f", shell.Append, "a")}, "1a 5b", "ab"},
		"replaced": {
			[]Write{at(1, "/f", shell.Append, "a"), at(1, "/g", shell.Append, "g"), at(2, "/f", shell.Replace, "b")},
			"1g 2b",
			"b",
		},
		"replaced before": {
			[]Write{at(1, "/f", shell.Append, "a"), at(9, "/f", shell.Append, "c"), at(5, "/f", shell.Replace, "b")},
			"5b 9c",
			"bc",
		},
		"removed": {[]Write{at(1, "/f", shell.Append, "a"), at(2, "/f", shell.Remove, "")}, "2", "-"},
		"made again": {
			[]Write{at(1, "/f", shell.Append, "a"), at(2, "/f", shell.Remove, ""), at(3, "/f", shell.Append, "b")}, "2 3b", "b",
		},
		"a directory":      {[]Write{at(1, "/f", shell.Append, "a"), at(2, "/f", shell.MakeDir, "")}, "2", "-"},
		"to nowhere":       {[]Write{at(1, "/dev/null", shell.Append, "a")}, "", "-"},
		"of the same time": {[]Write{at(1, "/f", shell.Append, "a"), at(1, "/f", shell.Append, "b")}, "1a 1b", "ab"},
	} {
		c := &scribe{started: dawn}
		c.Tree = Tree{Writer: c, TerminationPath: "/last"}
		for _, w := range tt.writes {
			c.keep(w)
		}
		var left []string
		for _, w := range c.writes {
			left = append(left, fmt.Sprintf("%.0f%s", w.At.Seconds(), w.Data))
		}
		data, ok := c.Read("/f", after(60))
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
	c.Mounts[0].Volume.Now = newPlacement(
		backend.VolumeSpec{Files: []backend.File{{Path: "placed"}, {Path: "deep/er/x"}}}, dawn,
	)
	part := newPlacement(
		backend.VolumeSpec{Files: []backend.File{{Path: "sub/path/shown"}, {Path: "sub/pathology/x"}, {Path: "hidden"}}},
		dawn,
	)
	c.Mounts[1].fixed, c.Mounts[1].Volume.Now = part, part
	for i, name := range []string{"/data/written", "/tmp/a/b", "/data/gone"} {
		w, why := c.Change(time.Duration(i)*time.Second, name, shell.Append, "x")
		if why != "" {
			t.Fatal(why)
		}
		c.keep(w)
	}
	gone, _ := c.Change(9*time.Second, "/data/gone", shell.Remove, "")
	c.keep(gone)
	now := after(60)
	for dir, want := range map[string][]string{
		"/data": {
			"deep", "in", "placed", "written",
		}, "/data/in": {"shown"}, "/data/deep": {"er"}, "/ro": {"deep", "placed", "written"},
		"/tmp": {"a"}, "/tmp/a/": {"b"}, "/fixed": {}, "/home": {}, "/none": nil, "/tmp/a/b": nil, "/data/gone": nil,
	} {
		got, ok := c.List(dir, func(name string) shell.Entry { return c.Lookup(name, now) }, nil)
		if ok != (want != nil) || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", dir, got, ok, want)
		}
	}
}

// TestWhatWritesMakeOfAFile: one after the other, from nothing, from a file or from a directory.
func TestWhatWritesMakeOfAFile(t *testing.T) {
	file := func(text string) shell.Entry { return shell.Entry{Kind: shell.File, Data: []byte(text)} }
	dir := shell.Entry{Kind: shell.Directory}
	replace := func(text string) Write { return Write{Op: shell.Replace, Data: text} }
	add := func(text string) Write { return Write{Op: shell.Append, Data: text} }
	remove, mkdir := Write{Op: shell.Remove}, Write{Op: shell.MakeDir}
	for name, tt := range map[string]struct {
		before shell.Entry
		writes []Write
		want   shell.Entry
	}{
		"nothing":                  {shell.Entry{}, nil, shell.Entry{}},
		"no write":                 {file("a"), nil, file("a")},
		"made":                     {shell.Entry{}, []Write{replace("a")}, file("a")},
		"made by adding":           {shell.Entry{}, []Write{add("a")}, file("a")},
		"made empty":               {shell.Entry{}, []Write{add("")}, file("")},
		"added to":                 {file("a"), []Write{add("b"), add("c")}, file("abc")},
		"replaced":                 {file("a"), []Write{replace("b")}, file("b")},
		"replaced and added to":    {file("a"), []Write{replace("b"), add("c")}, file("bc")},
		"added to and replaced":    {file("a"), []Write{add("b"), replace("c")}, file("c")},
		"emptied":                  {file("a"), []Write{replace("")}, file("")},
		"removed":                  {file("a"), []Write{remove}, shell.Entry{}},
		"removed twice":            {file("a"), []Write{remove, remove}, shell.Entry{}},
		"removed and made again":   {file("a"), []Write{remove, add("b")}, file("b")},
		"made and removed":         {shell.Entry{}, []Write{replace("a"), remove}, shell.Entry{}},
		"a directory":              {shell.Entry{}, []Write{mkdir}, dir},
		"a directory is removed":   {dir, []Write{remove}, shell.Entry{}},
		"a file after a directory": {dir, []Write{remove, replace("a")}, file("a")},
		"a directory after a file": {file("a"), []Write{remove, mkdir}, dir},
	} {
		given := string(tt.before.Data)
		got := Replay(tt.before, tt.writes, func(w Write) Write { return w })
		if got.Kind != tt.want.Kind || string(got.Data) != string(tt.want.Data) {
			t.Errorf("%s: %v %q, want %v %q", name, got.Kind, got.Data, tt.want.Kind, tt.want.Data)
		}
		if string(tt.before.Data) != given {
			t.Errorf("%s: what was there was changed to %q", name, tt.before.Data)
		}
		if len(tt.writes) != 1 || tt.before.Kind == shell.Directory || tt.want.Kind == shell.Directory {
			continue
		}
		data, there := tt.writes[0].Apply(tt.before.Data, tt.before.Kind == shell.File)
		if there != (tt.want.Kind == shell.File) || string(data) != string(tt.want.Data) {
			t.Errorf("%s, applied: %q, there: %v", name, data, there)
		}
	}
}

// TestWhatIsBelow: a directory and what is in it, and nothing that only begins like it.
func TestWhatIsBelow(t *testing.T) {
	for _, tt := range []struct {
		name, dir string
		want      bool
	}{
		{"/a", "/a", true},
		{"/a/b", "/a", true},
		{"/a/b/c", "/a", true},
		{"/ab", "/a", false},
		{"/", "/a", false},
		{"/b", "/a", false},
		{"/a", "/a/b", false},
		{"/", "/", true},
		{"/a", "/", true},
	} {
		if got := within(tt.name, tt.dir); got != tt.want {
			t.Errorf("%s is below %s: %v", tt.name, tt.dir, got)
		}
	}
}

// TestWhenAWriteHappened: not before the container started, nor after it ended.
func TestWhenAWriteHappened(t *testing.T) {
	for name, tt := range map[string]struct {
		started, finished int // 0 is never
		at                time.Duration
		now               int
		want              bool
	}{
		"before the start":          {0, 0, 0, 100, false},
		"at the start":              {10, 0, 0, 10, true},
		"a moment too early":        {10, 0, time.Second, 10, false},
		"just now":                  {10, 0, time.Second, 11, true},
		"long ago":                  {10, 0, time.Second, 100, true},
		"before it ended":           {10, 20, 9 * time.Second, 100, true},
		"as it ended":               {10, 20, 10 * time.Second, 100, true},
		"after its end":             {10, 20, 11 * time.Second, 100, false},
		"before an end still to be": {10, 200, 9 * time.Second, 100, true},
	} {
		c := &scribe{started: after(tt.started)}
		if tt.started == 0 {
			c.started = time.Time{}
		}
		if tt.finished > 0 {
			c.finished = after(tt.finished)
		}
		if got := (Write{At: tt.at}).Happened(c, after(tt.now)); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
