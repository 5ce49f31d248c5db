package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/parts/burstletimage"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

var plane cptest.Shared

func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }

// building is burstlet, built while other parts start. In lane all it has the race
// detector: a race ends it with an exit code that start complains of.
func building(t *testing.T) (built func() string) {
	t.Helper()
	dir := t.TempDir()
	var program string
	var err error
	var group sync.WaitGroup
	group.Go(func() { program, err = burstletimage.Program(t.Context(), dir, lane.Current() == lane.All) })
	t.Cleanup(group.Wait) // its context has ended by then
	return func() string {
		t.Helper()
		if group.Wait(); err != nil {
			t.Fatal(err)
		}
		return program
	}
}

// start runs a program until the test ends, and wants it to end well then.
func start(t *testing.T, env []string, program string, args ...string) {
	t.Helper()
	name := filepath.Base(program) + " " + args[0]
	log := &logs.Buffer{}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("end %s: %v", name, err)
		}
		timer := time.AfterFunc(time.Minute, func() {
			t.Errorf("%s did not end within a minute", name)
			_ = cmd.Process.Kill() // it may have ended just now
		})
		defer timer.Stop()
		if err := <-done; err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
		logs.Show(t, name, log.Tail(8000))
	})
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
