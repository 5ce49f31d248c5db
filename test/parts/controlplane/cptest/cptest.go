// Package cptest gives tests a real control plane, or skips them and says what
// is missing. [New] starts one for one test; [Shared] is one for all tests of a
// package, started by the first that asks.
package cptest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/need"
	"github.com/burstlet/burstlet/test/parts/binaries"
	"github.com/burstlet/burstlet/test/parts/controlplane"
)

// RequireEnv is need.RequireEnv, which callers are to use.
const RequireEnv = need.RequireEnv

const (
	// startTimeout bounds a start on a machine that builds other packages meanwhile.
	startTimeout = 5 * time.Minute
	stopTimeout  = 3 * time.Minute
)

// New starts a control plane for one test and stops it when the test ends. It
// skips the test when the programs are not built.
func New(t testing.TB, cfg controlplane.Config) *controlplane.ControlPlane {
	t.Helper()
	cp, err := start(cfg)
	check(t, err)
	t.Cleanup(func() {
		if err := stop(cp); err != nil {
			t.Error(err)
		}
	})
	return cp
}

// Shared is a control plane that the tests of a package share. The zero value
// is ready for use; see the example in package controlplane.
type Shared struct {
	// Config is what to start. Binaries are found when they are not given.
	Config controlplane.Config

	once sync.Once
	cp   *controlplane.ControlPlane
	err  error
}

// Get returns the control plane and starts it at the first call. It skips the
// test when the programs are not built, and fails it when the start failed.
func (s *Shared) Get(t testing.TB) *controlplane.ControlPlane {
	t.Helper()
	s.once.Do(func() { s.cp, s.err = start(s.Config) })
	check(t, s.err)
	return s.cp
}

// Main runs the tests, stops the control plane and returns the exit code for
// TestMain.
func (s *Shared) Main(m *testing.M) int {
	code := m.Run()
	// No test runs any more: whatever was started stays as it is.
	s.once.Do(func() { s.err = errors.New("all tests are done") })
	if s.cp == nil {
		return code
	}
	if err := stop(s.cp); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

func start(cfg controlplane.Config) (*controlplane.ControlPlane, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if cfg.Binaries == (controlplane.Binaries{}) {
		found, err := controlplane.FindBinaries(ctx, "")
		if err != nil {
			return nil, err
		}
		cfg.Binaries = found
	}
	return controlplane.Start(ctx, cfg)
}

func stop(cp *controlplane.ControlPlane) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return cp.Stop(ctx)
}

// check ends a test that has no control plane: skipped when nobody built it,
// failed otherwise.
func check(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, binaries.ErrNotBuilt):
		need.Missing(t, "control plane binaries are not built: run make test (or go run ./test/cmd/controlplane build): %v", err)
	default:
		t.Fatal(err)
	}
}

// Tool returns the path of a program in the cache, or ends a test without it as
// [need.Missing] does.
func Tool(t testing.TB, tool binaries.Tool) string {
	t.Helper()
	cache, err := binaries.NewCache(binaries.CacheConfig{})
	if err != nil {
		t.Fatal(err)
	}
	path, err := cache.Lookup(tool)
	if errors.Is(err, binaries.ErrNotBuilt) {
		need.Missing(t, "%s is not built: run make gate (or go run ./test/cmd/controlplane build --all): %v", tool, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}
