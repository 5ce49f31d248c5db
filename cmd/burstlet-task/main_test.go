package main

import (
	"compress/gzip"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Sizes in bytes: each task pulls an image that is this program and nothing else.
const (
	maxSize  = 10 << 20
	maxImage = 6_000_000
)

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
	if size := compressed(t, path); size > maxImage {
		t.Errorf("the layer of its image has %d bytes", size)
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

// compressed is the size of a file as registries keep it.
func compressed(t *testing.T, path string) int64 {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }() // it was only read
	var size counter
	zip := gzip.NewWriter(&size)
	if _, err := io.Copy(zip, in); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return int64(size)
}

// counter counts what is written.
type counter int64

// Write counts.
func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
