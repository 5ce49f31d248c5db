package chart

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/burstlet/burstlet/test/parts/binaries"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

var update = flag.Bool("update", false, "write the schema, the golden files, the chart's copies and deploy/kustomize/base anew")

// plane is started by the first test that applies something.
var plane cptest.Shared

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(plane.Main(m))
}

// chartDir is the chart, seen from here.
var chartDir = filepath.Join("..", "..", "..", "charts", "burstlet")

// helm runs Helm with a home of its own and returns what it said on both outputs.
func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cache, err := binaries.NewCache(binaries.CacheConfig{})
	if err != nil {
		t.Fatal(err)
	}
	path, err := cache.Lookup(binaries.Helm)
	switch {
	case errors.Is(err, binaries.ErrNotBuilt) && os.Getenv(cptest.RequireEnv) != "1":
		t.Skipf("helm is not built: run make test (or go run ./test/cmd/controlplane build): %v", err)
	case err != nil:
		t.Fatal(err)
	}
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home}
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
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not up to date: go test ./test/suite/chart -update, then look at the difference", path)
	}
}
