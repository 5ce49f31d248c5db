package sim

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/shell"
)

// TestWhatWritesMakeOfAFile: one after the other, from nothing, from a file or from a directory.
func TestWhatWritesMakeOfAFile(t *testing.T) {
	file := func(text string) shell.Entry { return shell.Entry{Kind: shell.File, Data: []byte(text)} }
	dir := shell.Entry{Kind: shell.Directory}
	replace := func(text string) write { return write{op: shell.Replace, data: text} }
	add := func(text string) write { return write{op: shell.Append, data: text} }
	remove, mkdir := write{op: shell.Remove}, write{op: shell.MakeDir}
	for name, tt := range map[string]struct {
		before shell.Entry
		writes []write
		want   shell.Entry
	}{
		"nothing":                  {shell.Entry{}, nil, shell.Entry{}},
		"no write":                 {file("a"), nil, file("a")},
		"made":                     {shell.Entry{}, []write{replace("a")}, file("a")},
		"made by adding":           {shell.Entry{}, []write{add("a")}, file("a")},
		"made empty":               {shell.Entry{}, []write{add("")}, file("")},
		"added to":                 {file("a"), []write{add("b"), add("c")}, file("abc")},
		"replaced":                 {file("a"), []write{replace("b")}, file("b")},
		"replaced and added to":    {file("a"), []write{replace("b"), add("c")}, file("bc")},
		"added to and replaced":    {file("a"), []write{add("b"), replace("c")}, file("c")},
		"emptied":                  {file("a"), []write{replace("")}, file("")},
		"removed":                  {file("a"), []write{remove}, shell.Entry{}},
		"removed twice":            {file("a"), []write{remove, remove}, shell.Entry{}},
		"removed and made again":   {file("a"), []write{remove, add("b")}, file("b")},
		"made and removed":         {shell.Entry{}, []write{replace("a"), remove}, shell.Entry{}},
		"a directory":              {shell.Entry{}, []write{mkdir}, dir},
		"a directory is removed":   {dir, []write{remove}, shell.Entry{}},
		"a file after a directory": {dir, []write{remove, replace("a")}, file("a")},
		"a directory after a file": {file("a"), []write{remove, mkdir}, dir},
	} {
		given := string(tt.before.Data)
		got := replay(tt.before, tt.writes, func(w write) write { return w })
		if got.Kind != tt.want.Kind || string(got.Data) != string(tt.want.Data) {
			t.Errorf("%s: %v %q, want %v %q", name, got.Kind, got.Data, tt.want.Kind, tt.want.Data)
		}
		if string(tt.before.Data) != given {
			t.Errorf("%s: what was there was changed to %q", name, tt.before.Data)
		}
		if len(tt.writes) != 1 || tt.before.Kind == shell.Directory || tt.want.Kind == shell.Directory {
			continue
		}
		data, there := tt.writes[0].apply(tt.before.Data, tt.before.Kind == shell.File)
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
		c := &container{started: second(tt.started)}
		if tt.started == 0 {
			c.started = time.Time{}
		}
		if tt.finished > 0 {
			c.finished = second(tt.finished)
		}
		if got := c.happened(write{at: tt.at}, second(tt.now)); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestLastWords: the file's end, or by its policy that of the log of a container that failed,
// within a kubelet's bounds.
func TestLastWords(t *testing.T) {
	logLine := func(text string, at int) line { return line{text: text, at: time.Duration(at) * time.Second} }
	long := strings.Repeat("x", maxMessageBytes)
	many := make([]line, 0, 2*maxMessageLogLines)
	for i := range 2 * maxMessageLogLines {
		many = append(many, logLine(fmt.Sprint(i), 0))
	}
	const fallback = corev1.TerminationMessageFallbackToLogsOnError
	for name, tt := range map[string]struct {
		file   string
		lines  []line
		policy corev1.TerminationMessagePolicy
		code   int32
		never  bool
		want   string
	}{
		"nothing":                {"", nil, "", 1, false, ""},
		"the file":               {"bye", nil, "", 0, false, "bye"},
		"the file of a failure":  {"bye", []line{logLine("log", 0)}, fallback, 1, false, "bye"},
		"the end of a long file": {"ab" + long, nil, "", 1, false, long},
		"the log":                {"", []line{logLine("a", 0), logLine("b", 1)}, fallback, 1, false, "a\nb\n"},
		"an open line": {
			"", []line{logLine("a", 0), {text: "b", open: true}}, fallback, 1, false, "a\nb",
		},
		"the log of a success": {"", []line{logLine("a", 0)}, fallback, 0, false, ""},
		"the log without the policy": {
			"", []line{logLine("a", 0)}, corev1.TerminationMessageReadFile, 1, false, "",
		},
		"what it did not come to say": {"", []line{logLine("a", 5), logLine("b", 6)}, fallback, 1, false, "a\n"},
		"a log of long lines": {
			"", []line{logLine(long, 0)}, fallback, 1, false, strings.Repeat("x", maxMessageLogBytes-1) + "\n",
		},
		"it never started": {"bye", []line{logLine("a", 0)}, fallback, 1, true, ""},
	} {
		c := &container{exitCode: tt.code, started: second(10), finished: second(15)}
		if tt.never {
			c.started = time.Time{}
		}
		c.spec.Container.TerminationMessagePolicy = tt.policy
		c.program.lines = tt.lines
		if tt.file != "" {
			c.program.writes = []write{{place: place{path: c.terminationPath()}, op: shell.Replace, data: tt.file}}
		}
		if got := c.terminationMessage(second(100)); got != tt.want {
			t.Errorf("%s: %d bytes, %.40q; want %.40q", name, len(got), got, tt.want)
		}
	}
	c := &container{exitCode: 1, started: second(10), finished: second(15), program: program{lines: many}}
	c.spec.Container.TerminationMessagePolicy = fallback
	if got := strings.Fields(c.terminationMessage(second(100))); len(got) != maxMessageLogLines || got[0] != "80" {
		t.Errorf("of many lines: %d from %s", len(got), got[0])
	}
}

// TestWhereTheLastWordsAre: where the pod says, as a clean path.
func TestWhereTheLastWordsAre(t *testing.T) {
	for given, want := range map[string]string{
		"": "/dev/termination-log", "/x": "/x", "/x/../y": "/y", "/x//y/": "/x/y", "/data/last": "/data/last",
	} {
		c := &container{spec: backend.ContainerSpec{Container: corev1.Container{TerminationMessagePath: given}}}
		if got := c.terminationPath(); got != want || !path.IsAbs(got) {
			t.Errorf("%q: %s, want %s", given, got, want)
		}
	}
}

// TestDefaultsOfARemote: what is given stays.
func TestDefaultsOfARemote(t *testing.T) {
	one := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}
	for name, tt := range map[string]struct {
		given     Config
		node      string
		ips       []string
		resources int
	}{
		"nothing":    {Config{}, "sim", []string{"10.87.0.1"}, 4},
		"a node":     {Config{Node: "n"}, "n", []string{"10.87.0.1"}, 4},
		"addresses":  {Config{HostIPs: []string{"1.1.1.1", "fd00::1"}}, "sim", []string{"1.1.1.1", "fd00::1"}, 4},
		"none":       {Config{HostIPs: []string{}}, "sim", []string{}, 4},
		"a capacity": {Config{Capacity: one}, "sim", []string{"10.87.0.1"}, 1},
		"no room":    {Config{Capacity: corev1.ResourceList{}}, "sim", []string{"10.87.0.1"}, 0},
	} {
		got := tt.given.withDefaults()
		if diff := cmp.Diff(tt.ips, got.HostIPs); diff != "" || got.Node != tt.node || len(got.Capacity) != tt.resources {
			t.Errorf("%s: %q with %d resources (-want +got):\n%s", name, got.Node, len(got.Capacity), diff)
		}
	}
}
