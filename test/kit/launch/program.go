// Package launch builds burstlet and runs it, for all suites that try the real program.
package launch

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const (
	// ProgramEnv names the environment variable with the path of a burstlet that was
	// built before, so that not each suite links one.
	ProgramEnv = "BURSTLET_PROGRAM"
	// RaceEnv names the environment variable that, set to 1, makes burstlet one with
	// the race detector. The program of ProgramEnv is then used only if it is such a one.
	RaceEnv = "BURSTLET_RACE"

	// Race is the flag for a burstlet with the race detector.
	Race = "-race"

	pkg = "github.com/burstlet/burstlet/cmd/burstlet"
)

// Program is [Build], which must succeed.
func Program(t testing.TB, flags ...string) string {
	t.Helper()
	path, err := Build(flags...)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Build returns the path of burstlet: the one of ProgramEnv, or one that is built once
// per process from the checkout around the working directory, and removed with the
// process. flags are further ones for "go build", as [Race]; one that was built before
// serves only without others than that. One with the race detector serves all.
func Build(flags ...string) (string, error) {
	if os.Getenv(RaceEnv) == "1" && !slices.Contains(flags, Race) {
		flags = append(slices.Clone(flags), Race)
	}
	path, err := prebuilt(flags)
	if path != "" || err != nil {
		return path, err
	}
	return built.get(flags)
}

// prebuilt is the program of ProgramEnv, "" if there is none or it is not as wanted.
func prebuilt(flags []string) (string, error) {
	path := os.Getenv(ProgramEnv)
	if path == "" || len(slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return f == Race })) > 0 {
		return "", nil
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", ProgramEnv, err)
	}
	if info.Path != pkg {
		return "", fmt.Errorf("%s: %s is %s, not burstlet", ProgramEnv, path, info.Path)
	}
	if !serves(info, flags) {
		return "", nil
	}
	return path, nil
}

func serves(info *debug.BuildInfo, flags []string) bool {
	return !slices.Contains(flags, Race) || slices.Contains(info.Settings, debug.BuildSetting{Key: Race, Value: "true"})
}

// builds are the programs that this process has built.
type builds struct {
	mu   sync.Mutex
	dir  string
	held io.Closer        // open as long as dir is to be there
	all  map[string]build // by their flags
}

type build struct {
	path string
	err  error
}

var built = builds{all: map[string]build{}}

// get returns the program with flags, and builds it at the first call.
func (b *builds) get(flags []string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := strings.Join(flags, "\n")
	done, ok := b.all[key]
	if !ok {
		done.path, done.err = b.build(flags)
		b.all[key] = done
	}
	return done.path, done.err
}

// directory is that of all programs.
func (b *builds) directory() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.makeDir()
}

func (b *builds) makeDir() (string, error) {
	if b.dir != "" {
		return b.dir, nil
	}
	var err error
	b.dir, b.held, err = tempDir()
	return b.dir, err
}

func (b *builds) build(flags []string) (string, error) {
	dir, err := b.makeDir()
	if err != nil {
		return "", fmt.Errorf("build burstlet: %w", err)
	}
	path := filepath.Join(dir, fmt.Sprint(len(b.all)), "burstlet")
	// As "make" builds it, so that what it has compiled is compiled.
	cgo := "CGO_ENABLED=0"
	if slices.Contains(flags, Race) {
		cgo = "CGO_ENABLED=1"
	}
	cmd := exec.Command("go", append(append([]string{"build", "-trimpath", "-o", path}, flags...), pkg)...)
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build burstlet: %w\n%s", err, out)
	}
	return path, nil
}

// tempDir makes a directory that is removed when this process has ended, in whichever
// way: a shell waits for the end of a pipe that only this process holds, as held.
func tempDir() (dir string, held io.Closer, err error) {
	if dir, err = os.MkdirTemp("", "burstlet-program-"); err != nil {
		return "", nil, err
	}
	end, mine, err := os.Pipe()
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	remover := exec.Command("sh", "-c", `read nothing; rm -rf -- "$1"`, "sh", dir)
	remover.Stdin = end
	remover.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is not for it
	if err := errors.Join(remover.Start(), end.Close()); err != nil {
		return "", nil, errors.Join(err, mine.Close(), os.RemoveAll(dir))
	}
	return dir, mine, nil
}
