package intask

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
)

// TestLateAddresses: each text that stands for an address becomes the task's; others stay.
func TestLateAddresses(t *testing.T) {
	both := addresses{"10.0.0.1", "fd00::1"}
	for _, tt := range []struct {
		at         addresses
		text, want string
	}{
		{both, "", ""},
		{both, "plain", "plain"},
		{both, "((burstlet:", "((burstlet:"},
		{both, "((burstlet:status.nothing))", "((burstlet:status.nothing))"},
		{both, LatePodIP, "10.0.0.1"},
		{both, LatePodIPs, "10.0.0.1,fd00::1"},
		{both, LateHostIP, "10.0.0.1"},
		{both, LateHostIPs, "10.0.0.1,fd00::1"},
		{both, "http://" + LatePodIP + ":80/" + LatePodIP, "http://10.0.0.1:80/10.0.0.1"},
		{both, LatePodIP + LatePodIPs, "10.0.0.110.0.0.1,fd00::1"},
		{addresses{"fd00::1"}, "[" + LatePodIP + "]", "[fd00::1]"},
		{addresses{"10.0.0.1"}, LatePodIPs, "10.0.0.1"},
		{nil, "a" + LatePodIP + "b", "ab"},
		{nil, LateHostIPs, ""},
	} {
		if got := tt.at.replace(tt.text); got != tt.want {
			t.Errorf("%v in %q: %q, want %q", tt.at, tt.text, got, tt.want)
		}
		asks := strings.Contains(tt.text, "((burstlet:")
		if late([]string{"a", tt.text}) != asks {
			t.Errorf("%q asks for addresses: %v", tt.text, !asks)
		}
	}
}

// TestVariablesOfASession: what is added stands in the place of what has its name.
func TestVariablesOfASession(t *testing.T) {
	env := []string{"A=1", "TERM=dumb", "EMPTY=", "EQ=a=b"}
	for _, tt := range []struct{ more, want []string }{
		{nil, env},
		{[]string{"TERM=xterm"}, []string{"TERM=xterm", "A=1", "EMPTY=", "EQ=a=b"}},
		{[]string{"NEW=1"}, []string{"NEW=1", "A=1", "TERM=dumb", "EMPTY=", "EQ=a=b"}},
		{[]string{"EMPTY=x", "A="}, []string{"EMPTY=x", "A=", "TERM=dumb", "EQ=a=b"}},
		{[]string{"a=2"}, []string{"a=2", "A=1", "TERM=dumb", "EMPTY=", "EQ=a=b"}},
	} {
		if diff := cmp.Diff(tt.want, withEnv(env, tt.more)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.more, diff)
		}
	}
	for name, want := range map[string]string{
		"A": "1", "EMPTY": "", "EQ": "a=b", "NONE": "none", "": "none", "a": "none", "A=1": "none",
	} {
		got, ok := lookup(env, name)
		if !ok {
			got = "none"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// TestNamesOfContainersAndVolumes: a name is one part of a path, whatever the environment says.
func TestNamesOfContainersAndVolumes(t *testing.T) {
	for name, fine := range map[string]bool{
		"data": true, "a-b": true, "a.b": true, "..data": true, "A": true,
		"": false, ".": false, "..": false, "/": false, "/etc": false, "a/b": false, "../x": false, "a/": false,
		"a/..": false,
	} {
		dir, err := Task{Volumes: "/v"}.volume(name)
		if (err == nil) != fine || fine && dir != "/v/"+name {
			t.Errorf("volume %q: %s, %v", name, dir, err)
		}
		run := t.TempDir()
		task := Task{RunDir: run, Bin: run, Env: func(n string) string {
			return map[string]string{EnvRunDirs: "first," + name}[n]
		}}
		err = task.runDirs()
		if (err == nil) != fine {
			t.Errorf("container %q: %v", name, err)
		}
		if info, err := os.Stat(filepath.Join(run, name)); fine && (err != nil || info.Mode().Perm() != 0o700) {
			t.Errorf("container %q: %v, %v", name, info, err)
		}
	}
	if dir, err := (Task{}).volume("data"); err != nil || dir != VolumesDir+"/data" {
		t.Errorf("by default it is %s, %v", dir, err)
	}
	if err := (Task{Env: func(string) string { return "" }}).runDirs(); err != nil {
		t.Errorf("a pod without supervisors: %v", err)
	}
	if got := SubDir(3); got != "/burstlet/sub/3" {
		t.Errorf("a volume of which a part is mounted stands at %s", got)
	}
}

// TestModesOfEmptyVolumes: an empty volume gets the mode and the group that the pod asks for.
func TestModesOfEmptyVolumes(t *testing.T) {
	for name, tt := range map[string]struct {
		dirs string
		mode fs.FileMode
		err  string
	}{
		"none":                {"", fs.ModeDir | 0o755, ""},
		"an empty list":       {"[]", fs.ModeDir | 0o755, ""},
		"everybody's":         {`[{"name":"v","mode":511}]`, fs.ModeDir | 0o777, ""},
		"with the sticky bit": {`[{"name":"v","mode":1023}]`, fs.ModeDir | fs.ModeSticky | 0o777, ""},
		"a group's": {
			`[{"name":"v","mode":1528,"gid":` + fmt.Sprint(os.Getgid()) + `}]`, fs.ModeDir | fs.ModeSetgid | 0o770, "",
		},
		"one that is not there": {
			`[{"name":"none","mode":511}]`, fs.ModeDir | 0o755, "volume none: chmod: no such file or directory",
		},
		"a name that leads away": {
			`[{"name":"../v","mode":511}]`, fs.ModeDir | 0o755, `"../v" is no name of a volume`,
		},
		"no JSON": {`{`, fs.ModeDir | 0o755, "read " + EnvDirs + ": unexpected end of JSON input"},
	} {
		root := t.TempDir()
		must(t, os.Mkdir(filepath.Join(root, "v"), 0o755))
		must(t, os.Chmod(filepath.Join(root, "v"), 0o755)) // whatever the umask
		err := Task{Volumes: root, Env: func(n string) string { return map[string]string{EnvDirs: tt.dirs}[n] }}.dirs()
		info, serr := os.Stat(filepath.Join(root, "v"))
		must(t, serr)
		if said := fmt.Sprint(err); tt.err == "" && err != nil || tt.err != "" && said != tt.err || info.Mode() != tt.mode {
			t.Errorf("%s: %v, %v; want %v, %s", name, info.Mode(), err, tt.mode, tt.err)
		}
	}
}

// TestWhatIsMadeInAVolume: a directory for a part of a volume, and those above it, are as open
// as the volume (kubelet: SafeMakeDir).
func TestWhatIsMadeInAVolume(t *testing.T) {
	for name, tt := range map[string]struct {
		mode  os.FileMode
		path  string
		links map[string]string
		want  map[string]fs.FileMode
		fails bool
	}{
		"one": {0o755, "a", nil, map[string]fs.FileMode{"a": 0o755}, false},
		"several": {
			0o777, "a/b/c", nil, map[string]fs.FileMode{"a": 0o777, "a/b": 0o777, "a/b/c": 0o777}, false,
		},
		"not clean": {
			0o700, "a//b/./c/", nil, map[string]fs.FileMode{"a": 0o700, "a/b": 0o700, "a/b/c": 0o700}, false,
		},
		"of a group": {
			0o770 | os.ModeSetgid, "a", nil, map[string]fs.FileMode{"a": 0o770 | fs.ModeSetgid}, false,
		},
		"sticky": {
			0o777 | os.ModeSticky, "a", nil, map[string]fs.FileMode{"a": 0o777 | fs.ModeSticky}, false,
		},
		"by a link":     {0o755, "l/b", map[string]string{"l": "."}, map[string]fs.FileMode{"b": 0o755}, false},
		"a link out":    {0o755, "l/b", map[string]string{"l": "/"}, nil, true},
		"a link up":     {0o755, "l/b", map[string]string{"l": ".."}, nil, true},
		"a broken link": {0o755, "l/b", map[string]string{"l": "none"}, nil, true},
	} {
		dir := filepath.Join(t.TempDir(), "volume")
		must(t, os.Mkdir(dir, 0o755))
		must(t, os.Chmod(dir, tt.mode))
		for at, to := range tt.links {
			must(t, os.Symlink(to, filepath.Join(dir, at)))
		}
		root, err := os.OpenRoot(dir)
		must(t, err)
		if err := makeIn(root, tt.path); (err != nil) != tt.fails {
			t.Errorf("%s: %v", name, err)
		}
		must(t, root.Close())
		for path, want := range tt.want {
			if info, err := os.Lstat(filepath.Join(dir, path)); err != nil || info.Mode() != want|fs.ModeDir {
				t.Errorf("%s: %s: %v, %v; want %v", name, path, info.Mode(), err, want)
			}
		}
	}
}

// TestVolumesInMemory: their group owns them and what is made in them (SetVolumeOwnership).
func TestVolumesInMemory(t *testing.T) {
	for name, tt := range map[string]struct {
		mode, want fs.FileMode
		missing    bool
	}{
		"everybody's":           {0o777, 0o777 | fs.ModeSetgid, false},
		"root's":                {0o755, 0o775 | fs.ModeSetgid, false},
		"private":               {0o700, 0o770 | fs.ModeSetgid, false},
		"sticky":                {0o777 | fs.ModeSticky, 0o777 | fs.ModeSticky | fs.ModeSetgid, false},
		"already":               {0o770 | fs.ModeSetgid, 0o770 | fs.ModeSetgid, false},
		"one that is not there": {0o755, 0o775 | fs.ModeSetgid, true},
	} {
		dir := t.TempDir()
		first := filepath.Join(dir, "first")
		must(t, os.Mkdir(first, 0o755))
		must(t, os.Chmod(first, tt.mode))
		m := InMemory{Group: int64(os.Getgid()), Paths: []string{first}}
		if tt.missing {
			m.Paths = append(m.Paths, filepath.Join(dir, "none"))
		}
		for range 2 { // a container that is started again finds it done
			if err := m.give(); (err != nil) != tt.missing || tt.missing && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if info, err := os.Stat(first); err != nil || info.Mode() != tt.want|fs.ModeDir {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// TestFilesOfEtcAreRewrittenInTheirPlace: they are mounts, which no other file can replace; what
// does not change is not written.
func TestFilesOfEtcAreRewrittenInTheirPlace(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		old, text string
		err       error
		want      string
	}{
		"longer":        {"a\n", "a\nb\n", nil, "a\nb\n"},
		"shorter":       {"a\nb\n", "b\n", nil, "b\n"},
		"empty":         {"a\n", "", nil, ""},
		"the same":      {"a\n", "a\n", nil, "a\n"},
		"not there yet": {"", "a\n", nil, "a\n"},
		"a mistake":     {"a\n", "b\n", broken, "a\n"},
	} {
		path := filepath.Join(t.TempDir(), "etc", "hosts")
		if tt.old != "" {
			must(t, os.Mkdir(filepath.Dir(path), 0o755))
			must(t, os.WriteFile(path, []byte(tt.old), 0o600))
		}
		before, _ := os.Stat(path)
		err := rewrite(path, func(old []byte) ([]byte, error) {
			if string(old) != tt.old {
				t.Errorf("%s: %q was there", name, old)
			}
			return []byte(tt.text), tt.err
		})
		if !errors.Is(err, tt.err) || err != nil && !strings.HasPrefix(err.Error(), "rewrite "+path+": ") {
			t.Errorf("%s: %v", name, err)
		}
		after, err := os.Stat(path)
		must(t, err)
		if got := read(t, path); got != tt.want || before != nil && !os.SameFile(before, after) {
			t.Errorf("%s: %q, want %q; the same file: %v", name, got, tt.want, os.SameFile(before, after))
		}
		if before != nil && tt.old == tt.want && !before.ModTime().Equal(after.ModTime()) {
			t.Errorf("%s: it was written", name)
		}
	}
	if err := rewrite(t.TempDir(), nil); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a directory in its place: %v", err)
	}
}

// TestWhetherAVolumeHoldsAPayload: what is the same is not swapped, for programs watch it.
func TestWhetherAVolumeHoldsAPayload(t *testing.T) {
	files := func(pathsAndData ...string) (out []podfiles.File) {
		for i := 0; i < len(pathsAndData); i += 2 {
			out = append(out, podfiles.File{Path: pathsAndData[i], Data: []byte(pathsAndData[i+1])})
		}
		return out
	}
	for name, tt := range map[string]struct {
		there, asked []podfiles.File
		want         bool
	}{
		"nothing of nothing": {nil, nil, true},
		"the same":           {files("a", "1", "b", "2"), files("b", "2", "a", "1"), true},
		"below a directory":  {files("d/a", "1"), files("d/a", "1"), true},
		"not clean":          {files("d/a", "1"), files("./d//a", "1"), true},
		"other contents":     {files("a", "1"), files("a", "2"), false},
		"longer":             {files("a", "1"), files("a", "12"), false},
		"emptied":            {files("a", "1"), files("a", ""), false},
		"one more":           {files("a", "1"), files("a", "1", "b", "2"), false},
		"one less":           {files("a", "1", "b", "2"), files("a", "1"), false},
		"another name":       {files("a", "1"), files("b", "1"), false},
		"another directory":  {files("d/a", "1"), files("a", "1"), false},
		"all taken away":     {files("a", "1"), nil, false},
		"the first contents": {nil, files("a", "1"), false},
	} {
		dir := t.TempDir()
		for _, f := range tt.there {
			path := filepath.Join(dir, dataDir, f.Path)
			must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must(t, os.WriteFile(path, f.Data, 0o600))
		}
		must(t, os.MkdirAll(filepath.Join(dir, dataDir), 0o755))
		if got, err := holds(dir, tt.asked); err != nil || got != tt.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if got, err := holds(t.TempDir(), nil); got || err != nil {
		t.Errorf("a volume without contents holds some: %v", err)
	}
}

// TestLinesOfASession: bytes come out as they went in, however they are cut; what is no line is
// an error, and an end in a line is not an end.
func TestLinesOfASession(t *testing.T) {
	long := strings.Repeat("x", lineRoom)
	for _, text := range []string{"", "a", "\n", "\x00\xff", long, long + "y", strings.Repeat(long, 3)} {
		var lines bytes.Buffer
		if n, err := NewLineWriter(&lines).Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%d bytes: %d, %v", len(text), n, err)
		}
		if want := (len(text) + lineRoom - 1) / lineRoom; bytes.Count(lines.Bytes(), []byte("\n")) != want {
			t.Errorf("%d bytes are not %d lines", len(text), want)
		}
		got, err := io.ReadAll(NewLineReader(iotest.OneByteReader(&lines)))
		if err != nil || string(got) != text {
			t.Errorf("%d bytes became %d, %v", len(text), len(got), err)
		}
	}
	for text, want := range map[string]string{
		"":                                  "",
		"YQ==\n":                            "a",
		"YQ==\r\n":                          "a", // of a terminal
		"\n\nYQ==\n":                        "a",
		"YQ==\nYg==\n":                      "ab",
		"YQ==":                              "unexpected EOF",
		"YQ==\nYg":                          "unexpected EOF",
		"!\n":                               "a line of 1 bytes is no base64: illegal base64 data at input byte 0",
		"sh: not found\n":                   "a line of 13 bytes is no base64: illegal base64 data at input byte 2",
		strings.Repeat("YWFh", 2000) + "\n": "a line is too long",
	} {
		got, err := io.ReadAll(NewLineReader(strings.NewReader(text)))
		said := string(got)
		if err != nil {
			said = err.Error()
		}
		if said != want {
			t.Errorf("%.20q: %q, want %q", text, said, want)
		}
	}
	broken := errors.New("broken")
	if n, err := NewLineWriter(brokenWriter{broken}).Write([]byte("a")); n != 0 || !errors.Is(err, broken) {
		t.Errorf("a broken terminal: %d, %v", n, err)
	}
	if _, err := NewLineReader(iotest.ErrReader(broken)).Read(make([]byte, 1)); !errors.Is(err, broken) {
		t.Errorf("a broken terminal: %v", err)
	}
}

// brokenWriter takes nothing.
type brokenWriter struct{ err error }

// Write fails.
func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }
