package install

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/burstlet/burstlet/test/parts/binaries"
	"github.com/burstlet/burstlet/test/parts/burstletimage"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
	"github.com/burstlet/burstlet/test/world/basecluster"
)

const (
	// chart is seen from here.
	chart = "../../../charts/burstlet"

	release = "burstlet"
	// What the names of namespaces begin with: those of releases, and of the pods that
	// use them.
	releasePrefix, workPrefix = "burstlet-", "users-"
)

// values are those of a chart.
type values = map[string]any

// image is the archive of burstlet's image, built once.
var image struct {
	once         sync.Once
	dir, archive string
	err          error
}

// TestMain removes what tests share.
func TestMain(m *testing.M) {
	code := m.Run()
	if image.dir != "" {
		if err := os.RemoveAll(image.dir); err != nil {
			code = 1
		}
	}
	os.Exit(code)
}

// imageArchive builds burstlet's image.
func imageArchive(t *testing.T) string {
	t.Helper()
	image.once.Do(func() {
		if image.dir, image.err = os.MkdirTemp("", "burstlet-image-"); image.err == nil {
			image.archive, image.err = burstletimage.Build(context.Background(), image.dir)
		}
	})
	if image.err != nil {
		t.Fatal(image.err)
	}
	return image.archive
}

// imageValues name the image.
func imageValues(t *testing.T) values {
	t.Helper()
	repository, tag, found := strings.Cut(burstletimage.Ref, ":")
	if !found {
		t.Fatalf("image %s has no tag", burstletimage.Ref)
	}
	return values{"repository": repository, "tag": tag}
}

// helm runs the real one for a release of its own in the cluster.
type helm struct {
	program   string
	c         *basecluster.Cluster
	home      string
	namespace string
}

// helmProgram finds the program, or ends the test.
func helmProgram(t *testing.T) string {
	t.Helper()
	return cptest.Tool(t, binaries.Helm)
}

// run runs a command on the release, until what it does is done.
func (h *helm) run(t *testing.T, command string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), helmTimeout)
	defer cancel()
	all := append([]string{
		command, release, "--kubeconfig", h.c.KubeconfigPath(), "--namespace", h.namespace, "--timeout", helmTimeout.String(),
	}, args...)
	if command != "test" {
		all = append(all, "--wait")
	}
	cmd := exec.CommandContext(ctx, h.program, all...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+h.home, "HELM_CONFIG_HOME="+h.home, "HELM_DATA_HOME="+h.home)
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.show(t)
		t.Fatalf("helm %s: %v: %s", command, err, out)
	}
	t.Logf("helm %s:\n%s", command, out)
}

// show tells what there is to know of a release that did not become what it should.
func (h *helm) show(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), helmTimeout)
	defer cancel()
	for _, args := range [][]string{
		{"get", "all", "--namespace", h.namespace, "--output", "wide"},
		{"get", "events", "--namespace", h.namespace, "--sort-by", ".lastTimestamp"},
		{"logs", "--namespace", h.namespace, "--selector", "app.kubernetes.io/name=burstlet", "--prefix", "--tail", "60"},
	} {
		out, err := h.c.Command(ctx, args...).CombinedOutput()
		t.Logf("kubectl %q: %v\n%s", args, err, out)
	}
}

// withValues are the arguments of a command that takes the chart.
func withValues(t *testing.T, v values) []string {
	t.Helper()
	content, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{chart, "--values", path}
}
