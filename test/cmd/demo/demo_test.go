package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/need"
	"github.com/burstlet/burstlet/test/parts/binaries"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// watched is an output that cancels when a text was written.
type watched struct {
	text   string
	cancel context.CancelFunc

	mu  sync.Mutex
	all strings.Builder
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.Write(p)
	if w.text != "" && strings.Contains(w.all.String(), w.text) {
		w.cancel()
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}

// requirePrograms skips a test without a control plane.
func requirePrograms(t *testing.T) {
	t.Helper()
	_, err := controlplane.FindBinaries(t.Context(), "")
	switch {
	case errors.Is(err, binaries.ErrNotBuilt):
		need.Missing(t, "control plane binaries are not built: run make test (or go run ./test/cmd/controlplane build)")
	case err != nil:
		t.Fatal(err)
	}
}

// requireContainers skips a test where no container can run.
func requireContainers(t *testing.T) {
	t.Helper()
	need.Root(t)
	if missing := remotehost.Missing(); len(missing) > 0 {
		need.Missing(t, "%s not installed: run make test", strings.Join(missing, ", "))
	}
}

// start runs a demo until it ends, or is told to when it has written a text.
func start(t *testing.T, opts options, until string) (*demo, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	out := &watched{text: until, cancel: cancel}
	d := newDemo(opts, newScreen(out))
	err := d.run(ctx, t.Context())
	return d, out.String(), err
}

// checkNothingLeft checks that what a demo started and made is gone.
func checkNothingLeft(t *testing.T, d *demo) {
	t.Helper()
	dirs := []string{d.plane.StateDir()}
	if d.host != nil {
		dirs = append(dirs, filepath.Dir(d.host.KeyFile()))
	}
	if d.scratch != "" {
		dirs = append(dirs, d.scratch)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
	if pids := d.plane.PIDs(); len(pids) != 0 {
		t.Errorf("processes are left: %v", pids)
	}
	if d.node != nil {
		select {
		case <-d.node.Done():
		default:
			t.Error("burstlet is left")
		}
	}
}

// TestSimulated runs the whole demo until it waits for Ctrl-C, then is Ctrl-C.
func TestSimulated(t *testing.T) {
	t.Parallel()
	requirePrograms(t)
	d, output, err := start(t, options{simulated: true}, "Ctrl-C ends it")
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, want := range []string{
		"NO CONTAINER RUNS", "$ kubectl get pods -o wide\n", "Completed", "] hello from hello-",
		"--replicas=5\n", "No resources found", "export KUBECONFIG=" + d.plane.KubeconfigPath() + "\n", "is left",
	} {
		if !strings.Contains(output, want) {
			t.Errorf("%q is not in the output", want)
		}
	}
	if t.Failed() {
		t.Log(output)
	}
	checkNothingLeft(t, d)
}

// TestContainers runs the demo with real containers, once.
func TestContainers(t *testing.T) {
	lane.From(t, lane.Gate)
	t.Parallel()
	requirePrograms(t)
	requireContainers(t)
	d, output, err := start(t, options{once: true, root: true}, "")
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	checkNothingLeft(t, d)
}

// TestECS runs the demo on an ECS that only answers, once.
func TestECS(t *testing.T) {
	t.Parallel()
	requirePrograms(t)
	d, output, err := start(t, options{once: true, ecs: true}, "")
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, want := range []string{
		"NO CONTAINER RUNS", "] hello from hello-", "One task definition serves them all", "ECS has no task left",
	} {
		if !strings.Contains(output, want) {
			t.Errorf("%q is not in the output:\n%s", want, output)
		}
	}
	checkNothingLeft(t, d)
}

// TestECSWithContainers runs the demo on an ECS that runs containers, once. What it
// shows of pods, TestWholePodsOnECS of test/suite/e2e holds in the gate.
func TestECSWithContainers(t *testing.T) {
	lane.From(t, lane.All)
	t.Parallel()
	requirePrograms(t)
	requireContainers(t)
	d, output, err := start(t, options{once: true, ecs: true, root: true}, "")
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, want := range []string{
		"runs them as containers", "] hello from hello-", "-- cat /etc/greeting/text", "Forwarding from",
		"ECS has no task left",
	} {
		if !strings.Contains(output, want) {
			t.Errorf("%q is not in the output:\n%s", want, output)
		}
	}
	checkNothingLeft(t, d)
}

// TestNodeEnds has a burstlet that ends at once: the demo must say so, keep its
// log and still leave nothing behind.
func TestNodeEnds(t *testing.T) {
	requirePrograms(t)
	program := filepath.Join(t.TempDir(), "burstlet")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho I cannot\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	d, output, err := start(t, options{once: true, simulated: true, burstlet: program}, "")
	expectError(t, err, "burstlet ended by itself: exit status 3")
	for _, want := range []string{"Something went wrong", "$ kubectl get events", "I cannot"} {
		if !strings.Contains(output, want) {
			t.Errorf("%q is not in the output:\n%s", want, output)
		}
	}
	kept, err := filepath.Glob(filepath.Join(os.TempDir(), "burstlet-demo-logs-*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range kept {
		names = append(names, filepath.Base(file))
	}
	want := "burstlet.log etcd.log kube-apiserver.log kube-controller-manager.log kube-scheduler.log"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("kept %s, not %s", got, want)
	}
	checkNothingLeft(t, d)
}

// TestInterrupted ends a demo in the middle.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	requirePrograms(t)
	program := filepath.Join(t.TempDir(), "burstlet")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nwhile :; do sleep 0.1; done\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	d, output, err := start(t, options{simulated: true, burstlet: program}, "A node joins")
	expectError(t, err, "interrupted")
	if strings.Contains(output, "wrong") {
		t.Errorf("an interrupt is nothing wrong:\n%s", output)
	}
	checkNothingLeft(t, d)
}
