package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/kit/need"
)

// profileEnv names the directory that profiles are written to.
const profileEnv = "BURSTLET_BENCH_PROFILE"

// built holds what is built once for all benchmarks, but burstlet.
var built struct {
	dir  string
	kwok struct {
		sync.Once
		err error
	}
}

func burstlet(b *testing.B) string {
	b.Helper()
	if os.Getenv(profileEnv) == "" {
		return launch.Program(b)
	}
	overlay, err := profilingOverlay()
	if err != nil {
		b.Fatal(err)
	}
	return launch.Program(b, "-overlay", overlay)
}

// kwok is built from the module that kwok.mod pins. Where that cannot be had the
// benchmark skips, as it does without a control plane.
func kwok(b *testing.B) string {
	b.Helper()
	path := filepath.Join(built.dir, "kwok")
	built.kwok.Do(func() {
		_, built.kwok.err = goCommand("build", "-modfile=kwok.mod", "-o", path, "sigs.k8s.io/kwok/cmd/kwok")
	})
	if err := built.kwok.err; err != nil {
		need.Missing(b, "kwok cannot be built: %v", err)
	}
	return path
}

// kwokStages are the stage files that come with the module: what kwok makes of
// nodes and pods as fast as it can.
func kwokStages(b *testing.B) []string {
	b.Helper()
	dir, err := goCommand("list", "-modfile=kwok.mod", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok")
	if err != nil {
		b.Fatal(err)
	}
	stage := filepath.Join(strings.TrimSpace(dir), "kustomize", "stage")
	return []string{
		filepath.Join(stage, "node", "fast", "node-initialize.yaml"),
		filepath.Join(stage, "pod", "fast", "pod-ready.yaml"),
		filepath.Join(stage, "pod", "fast", "pod-complete.yaml"),
		filepath.Join(stage, "pod", "fast", "pod-delete.yaml"),
	}
}

// profilingOverlay adds a file to cmd/burstlet for one build.
func profilingOverlay() (string, error) {
	source, err := filepath.Abs(filepath.Join("testdata", "profiling.go.txt"))
	if err != nil {
		return "", err
	}
	target, err := filepath.Abs(filepath.Join("..", "..", "cmd", "burstlet", "benchprofiling.go"))
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {target: source}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(built.dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// goCommand runs the go command and returns what it prints.
func goCommand(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run go %s: %w\n%s", args[0], err, problems.String())
	}
	return string(out), nil
}
