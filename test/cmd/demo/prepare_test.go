package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/parts/binaries"
	"github.com/burstlet/burstlet/test/parts/controlplane"
)

// fakeGo waits until as many of it run as are wanted, and makes the files that it is
// asked for.
const fakeGo = `#!/bin/sh
touch "$RUNNING/$$"
while [ "$(ls "$RUNNING" | wc -l)" -lt "$WANTED" ]; do sleep 0.05; done
while [ "$1" != -o ]; do shift; done
out=$2
shift 2
case $out in
*/) for pkg; do printf '#!/bin/sh\n' >"$out${pkg##*/}" && chmod +x "$out${pkg##*/}"; done ;;
*) printf '#!/bin/sh\n' >"$out" && chmod +x "$out" ;;
esac
`

// TestPrepareBuildsSideBySide builds all that a machine without any program needs, by
// commands that wait for each other, and nothing but burstlet for a user's cluster.
func TestPrepareBuildsSideBySide(t *testing.T) {
	var programs controlplane.Binaries
	for name, tc := range map[string]struct {
		programs *controlplane.Binaries
		commands string
		heading  string
	}{
		"a control plane of its own": {&programs, "3", "Building burstlet, and once a control plane"},
		"a cluster of the user's":    {nil, "1", "Building burstlet\n"},
	} {
		t.Run(name, func(t *testing.T) {
			bin := t.TempDir()
			if err := os.WriteFile(filepath.Join(bin, "go"), []byte(fakeGo), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
			t.Setenv("RUNNING", t.TempDir())
			t.Setenv("WANTED", tc.commands)
			t.Setenv(binaries.CacheEnv, t.TempDir())
			t.Setenv(controlplane.KubectlEnv, "")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var out strings.Builder
			d := newDemo(options{build: true, burstlet: filepath.Join(t.TempDir(), "burstlet")}, newScreen(&out))
			if err := d.prepare(ctx, tc.programs); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), tc.heading) {
				t.Errorf("it says %q", out.String())
			}
			made := []string{d.program}
			if tc.programs != nil {
				made = append(
					made, programs.Etcd, programs.APIServer, programs.ControllerManager, programs.Scheduler, programs.Kubectl,
				)
			}
			for _, path := range made {
				if _, err := os.Stat(path); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestMakeBuildsWhatIsNeeded looks at what "make demo" would do.
func TestMakeBuildsWhatIsNeeded(t *testing.T) {
	for args, tc := range map[string]struct{ has, lacks []string }{
		"":             {[]string{"--build"}, []string{"burstlet-task", "test/cmd/ecs", "controlplane", "--mine"}},
		"BACKEND=ecs":  {[]string{"./cmd/burstlet-task", "./test/cmd/ecs", "--ecs "}, []string{"--mine"}},
		"CLUSTER=mine": {[]string{"--mine"}, []string{"burstlet-task", "controlplane", "--yes", "--address"}},
		"CLUSTER=mine CONFIRM=yes ADDRESS=192.0.2.1": {
			[]string{"--mine --yes --address '192.0.2.1'"}, []string{"burstlet-task"},
		},
		"CLUSTER=yours": {[]string{"there is only CLUSTER=mine"}, nil},
	} {
		cmd := exec.CommandContext(
			t.Context(), "make", append([]string{"--no-print-directory", "-n", "demo"}, strings.Fields(args)...)...,
		)
		cmd.Dir = filepath.Join("..", "..", "..")
		cmd.Env = append(os.Environ(), "MAKEFLAGS=") // of the make that runs the tests
		out, err := cmd.CombinedOutput()
		if (err == nil) == (args == "CLUSTER=yours") {
			t.Errorf("make -n demo %s: %v", args, err)
		}
		for _, text := range tc.has {
			if !strings.Contains(string(out), text) {
				t.Errorf("make -n demo %s lacks %q:\n%s", args, text, out)
			}
		}
		for _, text := range tc.lacks {
			if strings.Contains(string(out), text) {
				t.Errorf("make -n demo %s has %q:\n%s", args, text, out)
			}
		}
	}
}
