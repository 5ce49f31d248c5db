package binaries

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLines(t *testing.T) {
	var all []program
	for _, tool := range All() {
		src, err := tool.source()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, program{tool, src})
	}
	for name, tc := range map[string]struct {
		programs []program
		want     []string
	}{
		"all": {all, []string{
			"kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, kubelet, kube-proxy, ginkgo, agnhost, " +
				"nonewprivs; " +
				"coredns; metrics-server; helm; e2e.test",
			"etcd; containerd17, containerd17-shim-runc-v2, containerd17-ctr; containerd2, containerd2-shim-runc-v2, " +
				"containerd2-ctr; " +
				"kube-apiserver-1.37; kube-apiserver-1.35; kube-apiserver-1.34",
		}},
		"a control plane": {all[:5], []string{"kube-apiserver, kube-controller-manager, kube-scheduler, kubectl", "etcd"}},
		"one":             {all[9:10], []string{"helm"}},
		"none":            {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, line := range lines(tc.programs) {
				var batches []string
				for _, b := range line {
					batches = append(batches, names(b))
				}
				got = append(got, strings.Join(batches, "; "))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("wanted -, got +:\n%s", diff)
			}
		})
	}
}

// TestNamesOfPackages: where the go command names programs, each is found under the name
// of its package, and kept under its own.
func TestNamesOfPackages(t *testing.T) {
	for want, tools := range map[string][]Tool{
		"containerd containerd-shim-runc-v2 ctr": Containerd2Tools(),
		"kubectl kubelet":                        {Kubectl, Kubelet},
		"etcd":                                   {Etcd},
	} {
		var b batch
		for _, tool := range tools {
			src, err := tool.source()
			if err != nil {
				t.Fatal(err)
			}
			b = append(b, program{tool, src})
		}
		var got []string
		for _, p := range b {
			got = append(got, filepath.Base(b.out("dir", p)))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s are built as %v, want %s", names(b), got, want)
		}
	}
}

// TestOneCommandForAModule builds two programs of a module: by one command, each to
// its own name.
func TestOneCommandForAModule(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"go.mod": "module example.test/two\n\ngo 1.24\n"}
	tools := []Tool{KubeScheduler, Kubectl}
	mod := "module example.test/pin\n\ngo 1.24\n\nrequire example.test/two v1.0.0\n\nreplace example.test/two => " + dir +
		"\n"
	var programs []program
	for _, tool := range tools {
		files["cmd/"+string(tool)+"/main.go"] = fmt.Sprintf("package main\n\nfunc main() { print(%q) }\n", tool)
		pkg := "example.test/two/cmd/" + string(tool)
		mod += "\ntool " + pkg + "\n"
		programs = append(
			programs, program{tool, source{pkg: pkg, module: "example.test/two", version: "v1.0.0", ldflags: "-s -w"}},
		)
	}
	for i := range programs {
		programs[i].mod = []byte(mod)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	c := newCache(t, &log)
	if err := c.buildAll(t.Context(), programs); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(log.String(), "building "); got != 1 ||
		!strings.Contains(log.String(), "building kube-scheduler, kubectl v1.0.0") {
		t.Errorf("%d commands:\n%s", got, &log)
	}
	if got := entries(t, c); got != "kube-scheduler kubectl" {
		t.Errorf("cache holds %q", got)
	}
	for _, tool := range tools {
		path, err := c.Lookup(tool)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(path).CombinedOutput(); err != nil || string(out) != string(tool) {
			t.Errorf("%s prints %q, %v", tool, out, err)
		}
	}
}

// fakeGo waits until two of it run, and makes the file it is asked for.
const fakeGo = `#!/bin/sh
touch "$RUNNING/$$"
while [ "$(ls "$RUNNING" | wc -l)" -lt 2 ]; do sleep 0.05; done
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\n' >"$2" && chmod +x "$2"
`

// TestModulesAreBuiltSideBySide builds two modules by commands that wait for each
// other. One is named twice.
func TestModulesAreBuiltSideBySide(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(fakeGo), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	t.Setenv("RUNNING", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := newCache(t, nil)
	if err := c.BuildAll(ctx, Etcd, Kubectl, Etcd); err != nil {
		t.Fatal(err)
	}
	if got := entries(t, c); got != "etcd kubectl" {
		t.Errorf("cache holds %q", got)
	}
	if running, err := os.ReadDir(os.Getenv("RUNNING")); err != nil || len(running) != 2 {
		t.Errorf("%d commands, %v", len(running), err)
	}
	// What is there is not built again.
	t.Setenv("PATH", "")
	if err := c.BuildAll(ctx, Etcd, Kubectl); err != nil {
		t.Error(err)
	}
}
