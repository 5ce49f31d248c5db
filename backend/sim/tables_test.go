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
	"github.com/burstlet/burstlet/backend/sim/filesystem"
	"github.com/burstlet/burstlet/backend/sim/shell"
)

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
			last := filesystem.Place{Path: c.terminationPath()}
			c.program.writes = []filesystem.Write{{Place: last, Op: shell.Replace, Data: tt.file}}
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
