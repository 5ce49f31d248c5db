package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	// programEnv names a burstlet that was built already; its tests take it as it is.
	programEnv = "BURSTLET_PROGRAM"
	// raceEnv, set to 1, has burstlet built with the race detector.
	raceEnv = "BURSTLET_RACE"
)

// program is burstlet, built once, and a directory for this and other programs.
var program struct {
	once sync.Once
	dir  string
	path string
	err  error
}

func burstlet(t *testing.T) string {
	t.Helper()
	program.once.Do(func() { program.path, program.err = buildBurstlet() })
	if program.err != nil {
		t.Fatal(program.err)
	}
	return program.path
}

func buildBurstlet() (string, error) {
	var err error
	if program.dir, err = os.MkdirTemp("", "burstlet-e2e-"); err != nil {
		return "", err
	}
	if given := os.Getenv(programEnv); given != "" {
		path, err := filepath.Abs(given)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", programEnv, err)
		}
		return path, nil
	}
	path := filepath.Join(program.dir, "burstlet")
	args := []string{"build", "-trimpath", "-o", path}
	env := append(os.Environ(), "CGO_ENABLED=0")
	if os.Getenv(raceEnv) == "1" {
		args, env = append(args, "-race"), append(os.Environ(), "CGO_ENABLED=1")
	}
	cmd := exec.Command("go", append(args, "github.com/burstlet/burstlet/cmd/burstlet")...)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build burstlet: %w\n%s", err, out)
	}
	return path, nil
}

// raced fails the test for the first data race that a process told of. One that ends
// by itself tells so by its exit code too; one that is killed does not.
func raced(t *testing.T, of, log string) {
	t.Helper()
	if race := firstRace(log); race != "" {
		t.Errorf("a data race in %s:\n%s", of, race)
	}
}

// firstRace is what the race detector says of the first race, "" for none.
func firstRace(log string) string {
	at := strings.Index(log, "WARNING: DATA RACE")
	if at < 0 {
		return ""
	}
	race, _, _ := strings.Cut(log[at:], "\n==================")
	return race[:min(len(race), 4000)]
}

func TestFirstRace(t *testing.T) {
	const race = "WARNING: DATA RACE\nWrite at 0x00c0 by goroutine 7:\n  main.main.func1()"
	for log, want := range map[string]string{
		"all is well\n": "",
		"before\n==================\n" + race + "\n==================\nafter\n": race,
		"killed in the middle\n==================\n" + race:                     race,
	} {
		if got := firstRace(log); got != want {
			t.Errorf("of %q: %q, want %q", log, got, want)
		}
	}
}
