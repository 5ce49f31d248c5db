package binaries

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/test/kit/need"
)

func TestVersionsArePinned(t *testing.T) {
	for _, tool := range All() {
		version, err := tool.Version()
		if err != nil || !regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(version) {
			t.Errorf("%s: got %q, %v", tool, version, err)
		}
		mod, err := pins.ReadFile(tool.pinName() + ".mod")
		main, mainErr := tool.mainSource()
		if mainErr != nil {
			t.Error(mainErr)
		}
		if main != nil {
			if !bytes.Contains(main, []byte("package main")) || !bytes.Contains(main, []byte(tool.module())) {
				t.Errorf("%s: what is put together is no program of %s", tool, tool.module())
			}
			continue
		}
		if err != nil || !bytes.Contains(mod, []byte(tool.pkg()+"\n")) {
			t.Errorf("%s: package %s is no tool of the pin: %v", tool, tool.pkg(), err)
		}
	}
}

// TestOtherKubernetes: each has the minor version that it is found by, which is not that
// of the others' Kubernetes, and a name of its own in the cache.
func TestOtherKubernetes(t *testing.T) {
	ours, err := KubeAPIServer.Version()
	if err != nil {
		t.Fatal(err)
	}
	others := OtherKubernetes()
	if len(others) == 0 {
		t.Fatal("there are none")
	}
	for minor, tool := range others {
		version, err := tool.Version()
		if err != nil || !strings.HasPrefix(version, "v"+minor+".") || strings.HasPrefix(ours, "v"+minor+".") {
			t.Errorf("%s is of %q, %v", tool, version, err)
		}
		if name, err := tool.fileName(); err != nil || name != "kube-apiserver-"+minor+"-"+version {
			t.Errorf("%s is kept as %q, %v", tool, name, err)
		}
	}
	err = Pin(t.Context(), PinConfig{OtherKubernetes: []string{"v1.99.1"}})
	if err == nil || !strings.Contains(err.Error(), "1.99") {
		t.Errorf("a version that no program has: %v", err)
	}
}

func TestRequiredVersion(t *testing.T) {
	const mod = "module x\n\ntool example.test/m\n\nrequire example.test/one v1.0.0\n\n" +
		"require (\n\texample.test/m v2.3.4 // indirect\n)\n\nreplace example.test/m => example.test/m v9.9.9\n"
	for module, want := range map[string]string{
		"example.test/one": "v1.0.0", "example.test/m": "v2.3.4", "example.test/none": "",
	} {
		got, err := requiredVersion([]byte(mod), module)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v", module, got, err)
		}
	}
}

func TestKubernetesVersionFlags(t *testing.T) {
	got := kubernetesVersionFlags("v1.36.3", time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	for _, want := range []string{
		"-X k8s.io/component-base/version.gitVersion=v1.36.3", "-X k8s.io/client-go/pkg/version.gitVersion=v1.36.3",
		"version.gitMajor=1 ", "version.gitMinor=36 ", "version.buildDate=2030-01-02T03:04:05Z",
	} {
		if !strings.Contains(got+" ", want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
}

func TestModuleFile(t *testing.T) {
	up := upstream{Go: "1.26.0"}
	up.Replace = append(up.Replace, struct{ Old, New struct{ Path string } }{})
	up.Replace[0].Old.Path, up.Replace[0].New.Path = "k8s.io/api", "./staging/src/k8s.io/api"
	mod, err := pin{tool: KubeAPIServer, version: "v1.36.3"}.moduleFile(up)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"replace k8s.io/api => k8s.io/api v0.36.3\n", "require k8s.io/kubernetes v1.36.3\n",
		"\tk8s.io/kubernetes/cmd/kubectl\n",
	} {
		if !strings.Contains(string(mod), want) {
			t.Errorf("%q is missing in:\n%s", want, mod)
		}
	}
	if _, err := (pin{tool: KubeAPIServer, version: "main"}).moduleFile(up); err == nil {
		t.Error("a version without staging modules was accepted")
	}
	mod, err = pin{tool: KubeAPIServer134, version: "v1.34.4"}.moduleFile(up)
	want := "module burstlet.test/kubernetes-1.34\n\ngo 1.26.0\n\ntool (\n\tk8s.io/kubernetes/cmd/kube-apiserver\n)\n\n" +
		"require k8s.io/kubernetes v1.34.4\n\nreplace k8s.io/api => k8s.io/api v0.34.4\n"
	if diff := cmp.Diff(want, string(mod)); err != nil || diff != "" {
		t.Errorf("an API server of another version: %v, wanted -, got +:\n%s", err, diff)
	}
}

// TestLibrariesOfKubernetes: what is built beside Kubernetes has its libraries, and Kubernetes
// those that it has alone.
func TestLibrariesOfKubernetes(t *testing.T) {
	up := upstream{Go: "1.26.0", libraries: []required{
		{"golang.org/x/net", "v0.49.0"}, {"k8s.io/kubernetes", "v1.36.3"}, {"k8s.io/api", "v0.36.3"},
	}}
	up.Replace = append(up.Replace, struct{ Old, New struct{ Path string } }{})
	up.Replace[0].Old.Path, up.Replace[0].New.Path = "k8s.io/api", "./staging/src/k8s.io/api"
	p := pin{tool: KubeAPIServer, version: "v1.36.3", beside: []pin{{tool: Helm, version: "v4.3.1"}}}
	mod, err := p.moduleFile(up)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(mod), "\n)\n")
	want := "\nrequire k8s.io/kubernetes v1.36.3\nrequire helm.sh/helm/v4 v4.3.1\n\n" +
		"replace k8s.io/api => k8s.io/api v0.36.3\nreplace golang.org/x/net => golang.org/x/net v0.49.0\n"
	if diff := cmp.Diff(want, rest); diff != "" || !strings.Contains(string(mod), "\thelm.sh/helm/v4/cmd/helm\n") {
		t.Errorf("wanted -, got +:\n%s\nthe whole:\n%s", diff, mod)
	}
}

// TestPinsOfKubernetes: who names one version of Kubernetes and what is built beside it
// leaves the others as they are.
func TestPinsOfKubernetes(t *testing.T) {
	none, err := PinConfig{Etcd: "v3.6.8"}.kubernetes()
	if len(none) > 0 || err != nil {
		t.Errorf("pinned although none is named: %v, %v", none, err)
	}
	got, err := PinConfig{Helm: "v4.9.9"}.kubernetes()
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	for _, p := range append([]pin{got[0]}, got[0].beside...) {
		want, err := p.tool.Version()
		if p.tool == Helm {
			want = "v4.9.9"
		}
		if err != nil || p.version != want {
			t.Errorf("%s: %s, want %s, %v", p.tool, p.version, want, err)
		}
	}
	if len(got[0].beside) != 3 {
		t.Errorf("beside Kubernetes: %v", got[0].beside)
	}
}

// localSource is a program that needs no module from elsewhere.
func localSource(t *testing.T, main string) source {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		need.Missing(t, "there is no go command: %v", err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.test/hello\n\ngo 1.24\n", "main.go": main} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mod := "module example.test/pin\n\ngo 1.24\n\ntool example.test/hello\n\nrequire example.test/hello v1.0.0\n\n" +
		"replace example.test/hello => " + dir + "\n"
	return source{
		pkg: "example.test/hello", module: "example.test/hello", version: "v1.0.0", mod: []byte(mod),
		ldflags: "-s -w -X main.text=built",
	}
}

const hello = "package main\n\nvar text string\n\nfunc main() { print(text) }\n"

func newCache(t *testing.T, log *bytes.Buffer) *Cache {
	t.Helper()
	cfg := CacheConfig{Dir: filepath.Join(t.TempDir(), "cache")}
	if log != nil {
		cfg.Log = log
	}
	c, err := NewCache(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// entries lists what a cache holds but its lock.
func entries(t *testing.T, c *Cache) string {
	t.Helper()
	list, err := os.ReadDir(c.Dir())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		if e.Name() != ".lock" {
			names = append(names, e.Name())
		}
	}
	return strings.Join(names, " ")
}

func TestBuildOnceForAll(t *testing.T) {
	src := localSource(t, hello)
	var log bytes.Buffer
	first := newCache(t, &log)
	if _, err := first.Lookup(Etcd); !errors.Is(err, ErrNotBuilt) {
		t.Fatalf("got %v, want not built", err)
	}
	if err := os.MkdirAll(filepath.Join(first.Dir(), scratchPrefix+"killed"), 0o755); err != nil {
		t.Fatal(err)
	}
	var logs [3]bytes.Buffer
	var wg sync.WaitGroup
	for i := range logs {
		wg.Go(func() {
			c, err := NewCache(CacheConfig{Dir: first.Dir(), Log: &logs[i]})
			if err != nil {
				t.Error(err)
				return
			}
			if err := c.buildAll(t.Context(), []program{{Etcd, src}}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all := logs[0].String() + logs[1].String() + logs[2].String()
	if got := strings.Count(all, "building etcd v1.0.0"); got != 1 {
		t.Errorf("built %d times:\n%s", got, all)
	}
	path, err := first.Lookup(Etcd)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(path).CombinedOutput(); err != nil || string(out) != "built" {
		t.Errorf("got %q, %v", out, err)
	}
	if got := entries(t, first); got != "etcd" {
		t.Errorf("cache holds %q", got)
	}
}

func TestFailedBuildSaysWhyAndLeavesNothing(t *testing.T) {
	c := newCache(t, nil)
	err := c.buildAll(t.Context(), []program{{Etcd, localSource(t, "package main\n\nfunc main() { undefined() }\n")}})
	if err == nil || !strings.Contains(err.Error(), "undefined: undefined") {
		t.Errorf("got %v", err)
	}
	if got := entries(t, c); got != "" {
		t.Errorf("cache holds %q", got)
	}
}

func TestCancelledBuildLeavesNothing(t *testing.T) {
	c := newCache(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.buildAll(ctx, []program{{Etcd, localSource(t, hello)}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	if got := entries(t, c); got != "" {
		t.Errorf("cache holds %q", got)
	}
}

func TestLockWaitsAndCanBeCancelled(t *testing.T) {
	var log bytes.Buffer
	c := newCache(t, &log)
	if err := os.MkdirAll(c.Dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := c.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want deadline exceeded", err)
	}
	if !strings.Contains(log.String(), "waiting for another build") {
		t.Errorf("log is %q", log.String())
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	unlock, err = c.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestLookupRefusesWhatCannotRun(t *testing.T) {
	c := newCache(t, nil)
	if err := os.MkdirAll(filepath.Join(c.Dir(), string(Etcd)), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Lookup(Etcd); err == nil || errors.Is(err, ErrNotBuilt) {
		t.Errorf("got %v for a directory", err)
	}
}

func TestDefaultDir(t *testing.T) {
	root := t.TempDir()
	t.Setenv(CacheEnv, root)
	c, err := NewCache(CacheConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(c.Dir()) != root ||
		!regexp.MustCompile(`^v1\.\d+\.\d+-v3\.\d+\.\d+-go1\.`).MatchString(filepath.Base(c.Dir())) {
		t.Errorf("got %s", c.Dir())
	}
}
