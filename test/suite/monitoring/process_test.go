package monitoring

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

var plane cptest.Shared

// In lane all burstlet has the race detector.
func TestMain(m *testing.M) {
	if lane.Current() == lane.All {
		if err := os.Setenv(launch.RaceEnv, "1"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(plane.Main(m))
}

// building is burstlet, built while other parts start.
func building(t *testing.T) (built func() string) {
	t.Helper()
	var program string
	ended := background.Run(t, func(context.Context) (err error) {
		program, err = launch.Build()
		return err
	})
	return func() string {
		t.Helper()
		if ended(); t.Failed() {
			t.FailNow()
		}
		return program
	}
}

// patience is how long a step may take, many times what it does on an idle machine.
const patience = 3 * time.Minute

// writeFile writes a file of the test's own and returns its path.
func writeFile(t *testing.T, name, format string, args ...any) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, fmt.Appendf(nil, format, args...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
