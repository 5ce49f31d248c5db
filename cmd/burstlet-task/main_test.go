package main

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// maxSize keeps the program to a few MiB: each task pulls it.
const maxSize = 10 << 20

func TestTheProgramIsOneSmallStaticFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burstlet-task")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxSize {
		t.Errorf("it has %d bytes", info.Size())
	}
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("it needs a loader and libraries, which an image may not have")
		}
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}

	run := exec.CommandContext(t.Context(), path, "health")
	run.Env = []string{}
	out, err := run.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || string(out) != "the container has not started\n" {
		t.Errorf("outside of a task: %v, %s", err, out)
	}
}
