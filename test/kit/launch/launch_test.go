package launch

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/child"
	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/kit/wait"
)

const patience = 3 * time.Minute

func TestProgram(t *testing.T) {
	t.Setenv(RaceEnv, "")
	t.Setenv(ProgramEnv, "")
	path := Program(t)
	if again := Program(t); again != path {
		t.Errorf("a second one: %s and %s", path, again)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil || info.Path != pkg {
		t.Fatalf("%s: %v, error %v", path, info, err)
	}

	t.Run("built before", func(t *testing.T) {
		before := filepath.Join(t.TempDir(), "burstlet")
		if err := os.Link(path, before); err != nil {
			t.Fatal(err)
		}
		t.Setenv(ProgramEnv, before)
		for _, tt := range []struct {
			flags []string
			want  string
		}{{nil, before}, {[]string{Race}, ""}, {[]string{"-tags=a"}, ""}} {
			if got, err := prebuilt(tt.flags); got != tt.want || err != nil {
				t.Errorf("with flags %q: %q, want %q, error %v", tt.flags, got, tt.want, err)
			}
		}
	})
	t.Run("with the race detector", func(t *testing.T) {
		raced := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: Race, Value: "true"}}}
		if !serves(raced, nil) || !serves(raced, []string{Race}) {
			t.Error("it does not serve")
		}
	})
	t.Run("not burstlet", func(t *testing.T) {
		t.Setenv(ProgramEnv, os.Args[0])
		if got, err := Build(); err == nil || !strings.Contains(err.Error(), "not burstlet") {
			t.Errorf("program %s, error %v", got, err)
		}
	})
	t.Run("runs", func(t *testing.T) { runs(t) })
}

// runs: a node that is told what is wrong with its configuration, and a simulated remote.
func runs(t *testing.T) {
	var log logs.Buffer
	c, err := Run(Config{Program: Program(t), File: File(t, "apiVersion: unheard.of\n"), Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if err := c.Err(); !strings.Contains(fmt.Sprint(err), "burstlet ended by itself: exit status 1") ||
		!strings.Contains(log.String(), "unheard.of") {
		t.Errorf("%v; it prints %s", err, log.String())
	}
	sim := NewSim(t)
	sim.Kill()
	sim.Start()
}

func TestWithin(t *testing.T) {
	var log logs.Buffer
	c, err := Run(Config{Program: "it", File: "file", Args: []string{"--flag"}, Within: []string{"echo", "in"}, Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if got := log.String(); got != "in it run --config file --flag\n" {
		t.Errorf("it runs %q", got)
	}
}

// TestNothingIsLeft: a process that is killed leaves no program behind.
func TestNothingIsLeft(t *testing.T) {
	const asOwner = "BURSTLET_TEST_AS_OWNER"
	if os.Getenv(asOwner) != "" {
		dir, held, err := tempDir()
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		_, _ = os.Stdout.WriteString("dir " + dir + "\n")
		time.Sleep(patience)
	}
	var log logs.Buffer
	owner, err := child.Start(child.Config{
		Program: os.Args[0], Args: []string{"-test.run=^TestNothingIsLeft$"}, Env: append(os.Environ(), asOwner+"=1"),
		Log: &log,
	})
	if err != nil {
		t.Fatal(err)
	}
	var dir string
	wait.For(t, patience, "a directory", func() error {
		_, rest, _ := strings.Cut(log.String(), "dir ")
		var ok bool
		if dir, _, ok = strings.Cut(rest, "\n"); !ok {
			return errors.Join(errors.New(log.String()), owner.Err())
		}
		return nil
	})
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
	if err := owner.Kill(); err != nil {
		t.Error(err)
	}
	wait.For(t, patience, "the directory is removed", func() error {
		switch _, err := os.Stat(dir); {
		case err == nil:
			return fmt.Errorf("%s is there", dir)
		case errors.Is(err, os.ErrNotExist):
			return nil
		default:
			return err
		}
	})
}

func TestEnviron(t *testing.T) {
	got := Environ(
		[]string{
			"PATH=/bin", "KUBECONFIG=/home/anna/.kube/config", "BURSTLET_NODE_NAME=a", "KUBECONFIGS=b", "BURSTLET_BACKEND=ecs",
		},
	)
	if want := []string{"PATH=/bin", "KUBECONFIGS=b"}; !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
}

// TestReleaseWithoutHistory: a commit that is not there skips the test and says why.
func TestReleaseWithoutHistory(t *testing.T) {
	skipped := false
	t.Run("", func(t *testing.T) {
		t.Cleanup(func() { skipped = t.Skipped() })
		Release(t, strings.Repeat("0", 40))
	})
	if !skipped {
		t.Error("the test went on")
	}
}
