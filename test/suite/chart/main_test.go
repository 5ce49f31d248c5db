package chart

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/test/parts/binaries"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

var update = flag.Bool("update", false, "write the schema, the golden files and deploy/kustomize anew")

// plane is started by the first test that applies something.
var plane cptest.Shared

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(plane.Main(m))
}

// The chart and the plain manifests, seen from here.
var (
	chartDir  = filepath.Join("..", "..", "..", "charts", "burstlet")
	deployDir = filepath.Join("..", "..", "..", "deploy")
)

// helm runs Helm with a home of its own and returns what it said on both outputs.
func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	path := cptest.Tool(t, binaries.Helm)
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home,
		"HELM_DATA_HOME=" + home,
	}
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = cmd.Run()
	return out.String(), problems.String(), err
}

// golden compares with a file, or writes it with -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf(
			"%s is not up to date (-it +what is made): go test ./test/suite/chart -update, then look at the difference:\n%s",
			path, diff,
		)
	}
}

// only compares the files that are there with those that are made: what nothing makes
// any more is a mistake, and -update removes it.
func only(t *testing.T, there, made []string) {
	t.Helper()
	for _, path := range there {
		if slices.Contains(made, path) {
			continue
		}
		if !*update {
			t.Errorf("%s is there, and nothing makes it: go test ./test/suite/chart -update removes it", path)
		} else if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// filesBelow are all files of a directory and those in it.
func filesBelow(t *testing.T, dir string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil || len(paths) == 0 {
		t.Fatalf("files of %s: %q, %v", dir, paths, err)
	}
	return paths
}
