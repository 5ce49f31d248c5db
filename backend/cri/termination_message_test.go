package cri

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/crilog"
)

// kubelet-behaviours 15: 4 KiB of the file; under FallbackToLogsOnError 80 lines
// and 2 KiB of the log; empty when it succeeded under that policy.
func TestTerminationMessage(t *testing.T) {
	long := strings.Repeat("x", 5000)
	var lines []string
	for i := range 100 {
		lines = append(lines, fmt.Sprint("line ", i))
	}
	const fallback = corev1.TerminationMessageFallbackToLogsOnError
	for name, tt := range map[string]struct {
		policy    corev1.TerminationMessagePolicy
		file      string
		log       []string
		code      int32
		want      string
		keepLines int
	}{
		"its file":                      {file: "bye\n", log: lines, code: 1, want: "bye\n"},
		"its file, after success":       {file: "done", want: "done"},
		"the end of a long file":        {file: "begin" + long, code: 1, want: long[:4096]},
		"nothing":                       {log: lines, code: 1},
		"its log":                       {policy: fallback, log: []string{"one", "two"}, code: 1, want: "one\ntwo\n"},
		"its file before its log":       {policy: fallback, file: "bye", log: lines, code: 1, want: "bye"},
		"no log after success":          {policy: fallback, log: lines},
		"its file, under that policy":   {policy: fallback, file: "done", want: "done"},
		"the last lines of a long log":  {policy: fallback, log: lines, code: 1, want: strings.Join(lines[20:], "\n") + "\n"},
		"the last bytes of a long line": {policy: fallback, log: []string{long}, code: 1, want: long[:2047] + "\n"},
		"no log":                        {policy: fallback, code: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r, _ := w.connect(t)
			pod := testPod("u1")
			spec := containerSpec(pod, "main", 0)
			spec.Container.TerminationMessagePath, spec.Container.TerminationMessagePolicy = "/dev/termination-log", tt.policy
			must(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(pod, 0)))
			ref := launchSpec(pod, 0).Ref()
			must(t, containers{r}.Start(t.Context(), ref, spec))
			id, config := w.fake.Container("main")
			mount := config.GetMounts()[0]
			if mount.GetContainerPath() != "/dev/termination-log" || mount.GetReadonly() {
				t.Fatalf("mount %v", mount)
			}
			info, err := os.Stat(mount.GetHostPath())
			must(t, err)
			if info.Mode().Perm() != 0o666 {
				t.Errorf("mode %v, want writable for every user", info.Mode())
			}
			must(t, os.WriteFile(mount.GetHostPath(), []byte(tt.file), 0o666))
			must(t, writeLog(filepath.Join(r.convert.LogDir(ref), "main", "0.log"), tt.log))
			w.fake.Exit(id, tt.code, "Error")
			if got := inspect(t, r, "u1").Containers[0].Message; got != tt.want {
				t.Errorf("message %q, want %q", got, tt.want)
			}
			must(t, containers{r}.Remove(t.Context(), backend.ContainerRef{Pod: ref, Name: "main"}))
			wantThere(t, mount.GetHostPath(), false)
		})
	}
}

func writeLog(name string, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	var text strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&text, "2026-01-02T03:04:05.000000006Z %s F %s\n", crilog.Stdout, line)
	}
	return os.WriteFile(name, []byte(text.String()), 0o644)
}

// A Start that is repeated must not empty what the container wrote already.
func TestTerminationMessageOutlivesARepeatedStart(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	pod := testPod("u1")
	ref := runPod(t, r, pod)
	spec := containerSpec(pod, "main", 0)
	spec.Container.TerminationMessagePath = "/dev/termination-log"
	must(t, containers{r}.Start(t.Context(), ref, spec))
	id, config := w.fake.Container("main")
	must(t, os.WriteFile(config.GetMounts()[0].GetHostPath(), []byte("bye"), 0o666))
	must(t, containers{r}.Start(t.Context(), ref, spec))
	w.fake.Exit(id, 1, "Error")
	if got := inspect(t, r, "u1").Containers[0].Message; got != "bye" {
		t.Errorf("message %q", got)
	}
	must(t, pods{r}.Remove(t.Context(), ref))
	wantThere(t, filepath.Dir(config.GetMounts()[0].GetHostPath()), false)
}
