package syncloop_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var breakagesToo = flag.Bool("breakages", false, "run TestBreakages, which builds the engine anew for each breakage")

// breakage is one edit that makes the engine wrong.
type breakage struct {
	// name says in words what the engine does wrong then.
	name string
	file string
	// old stands exactly once in the file.
	old, broken string
}

var breakages = []breakage{
	{
		"acts on facts from before its last action", "worker.go",
		"fresh = record.Seq >= w.minSeq", "fresh = true",
	},
	{
		"believes a listing that is too old", "worker.go",
		"if w.memory.Behind(shown, record.At, stale) {", "if false {",
	},
	{
		"takes facts from before a lost launch settled for its end", "plan/end.go",
		"case !v.FactsAt.After(until):", "case false:",
	},
	{
		"takes a listing that failed for a whole one", "pleg/pleg.go",
		"what is known stays\")\n\t\t}\n\t\treturn\n", "what is known stays\")\n\t\t}\n",
	},
	{
		"does not see that a name has a new pod", "podsource/podsource.go",
		"[]Change{{Remove, old}, {Add, now}}", "[]Change{{Update, now}}",
	},
	{
		"forgets a launch whose reply was lost", "plan/record.go",
		"\t\tput(&m.Lost, a.Spec.Attempt, r.At)\n", "",
	},
	{
		"believes after a restart that no launch is on its way", "plan/record.go",
		"\t\tput(&m.Lost, v.nextAttempt(), started)\n", "",
	},
	{
		"lets a pod go before its absence is proved", "plan/end.go",
		"p.Reclaimed = !pending", "p.Reclaimed = true",
	},
	{
		"leaves the volumes of pods that are gone", "plan/end.go",
		"if !v.Places || v.Memory.Cleared.Proven", "if true || v.Memory.Cleared.Proven",
	},
	{
		"leaves pods that the API does not have", "loop.go",
		"\t\t\tl.startWorker(nil, ref)\n", "",
	},
	{
		"restarts all containers while some still run", "plan/decide.go",
		"if v.endRound(p) {", "if v.endRound(&Plan{}) && false {",
	},
	{
		"restarts all containers without the init containers", "plan/init_containers.go",
		"v.inSandbox(cur) && !v.outdated(c, cur) {", "v.inSandbox(cur) {",
	},
	{
		"restarts what succeeded under OnFailure", "plan/restart.go",
		"return code != 0\n", "return true\n",
	},
	{
		"forgets the delays of a crash loop", "plan/restart.go",
		"if b.Delay == 0 {\n\t\treturn time.Time{}", "if true {\n\t\treturn time.Time{}",
	},
	{
		"writes a terminal phase while containers run", "plan/end.go",
		"p.CouldRun = v.running()", "p.CouldRun = false",
	},
	{
		"ignores a shorter grace", "plan/decide.go",
		"if b.Deadline.Before(m.Deadline) {", "if b.Deadline.IsZero() {",
	},
	{
		"does not wait for preStop hooks", "plan/stop.go",
		"p.Wake(deadline)\n\treturn true\n", "p.Wake(deadline)\n\treturn false\n",
	},
	{
		"stops sidecars first", "plan/stop.go",
		"case m.role == sidecarRole && served && !late:", "case m.role == sidecarRole && served && !late && !served:",
	},
	{
		"does not bring volumes up to date", "plan/volumes.go",
		"if placed && hash == w.Spec.Hash {", "if placed && hash != \"\" {",
	},
	{
		"does not restart a container whose image changed", "plan/stop.go",
		"cur.Hash != resolve.Hash(m.Container):", "resolve.Hash(m.Container) == \"\":",
	},
	{
		"runs no init containers in a new sandbox whose old one is lost", "plan/container.go",
		"m.role == initRole && code == 0 && !v.PodUnit()", "code < 0 && !v.PodUnit()",
	},
	{
		"forgets after a restart what the API knows of a pod", "worker.go",
		"w.memory.Status = pod.Status", "_ = pod.Status",
	},
	{
		"takes what vanished for what never ran", "plan/facts.go",
		"return s != nil && s.ContainerID != \"\"", "return false",
	},
	{
		"resizes pods beyond what the node has", "admit/resize.go",
		"if Grows(allocated, wanted) {", "if false {",
	},
	{
		"believes after a restart that what is asked for is allocated", "resize_worker.go",
		"allocation.Recover(w.pod, facts, w.loop.traits.Resizes)", "w.pod, w.pod",
	},
	{
		"forgets resizes that wait for room", "resize_queue.go",
		"\tr.asked = asked\n\treturn true\n", "\tr.asked = asked\n\treturn false\n",
	},
}

var simulations = []string{"TestRandomLives", "TestCrashPoints", "TestEndWaitsForProof"}

// TestBreakages breaks the engine on purpose, one edit at a time, and shows that
// the simulation catches each: what it does not catch, nobody would notice.
func TestBreakages(t *testing.T) {
	if !*breakagesToo {
		t.Skip("it builds the engine once for each breakage, which takes minutes: make breakages")
	}
	t.Run("none", func(t *testing.T) {
		binary := breakage{file: "doc.go", old: "package syncloop\n", broken: "package syncloop\n"}.build(t)
		for _, simulation := range simulations {
			if by := run(t, binary, simulation); by != "" {
				t.Fatalf("the engine as it is fails: %s", by)
			}
		}
	})
	if t.Failed() {
		return
	}
	for _, b := range breakages {
		t.Run(b.name, func(t *testing.T) {
			binary := b.build(t)
			caught := 0
			for _, simulation := range simulations {
				if by := run(t, binary, simulation); by != "" {
					t.Logf("%s", by)
					caught++
				}
			}
			if caught == 0 {
				t.Error("no simulation noticed")
			}
		})
	}
}

// build compiles this package's tests with the breakage, in a directory of its own.
func (b breakage) build(t *testing.T) (binary string) {
	dir := t.TempDir()
	source, err := os.ReadFile(b.file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), b.old); n != 1 {
		t.Fatalf("%q stands %d times in %s, want once: adapt the breakage", b.old, n, b.file)
	}
	path, err := filepath.Abs(b.file)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, filepath.Base(b.file))
	write(t, copied, []byte(strings.Replace(string(source), b.old, b.broken, 1)))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: copied}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "overlay.json"), overlay)
	binary = filepath.Join(dir, "broken.test")
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off",
		"-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("the broken engine does not build: %v\n%s", err, out)
	}
	return binary
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

var (
	failed  = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	message = regexp.MustCompile(`(?m)^ +\w+_test\.go:\d+: (.*)$`)
)

// run returns the simulation that a broken engine fails, and how; "" if it
// passes. An engine that hangs or panics fails too, but not by an invariant.
func run(t *testing.T, binary, simulation string) string {
	out, err := exec.CommandContext(t.Context(), binary, "-test.run", "^"+simulation+"$", "-seeds", "100",
		"-test.failfast", "-test.timeout", "300s").CombinedOutput()
	if err == nil {
		return ""
	}
	names, why := failed.FindAllSubmatch(out, -1), message.FindSubmatch(out)
	if names == nil || why == nil {
		t.Errorf("%s ended with %v, but no invariant was violated:\n%s", simulation, err, tail(out))
		return ""
	}
	return fmt.Sprintf("%s: %s", names[len(names)-1][1], why[1])
}

// tail is the end of an output, without the engine's logs.
func tail(out []byte) string {
	var lines []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "time=") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-20):], "")
}
