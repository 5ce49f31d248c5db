// Package burstletimage makes burstlet for tests: its container image, with the tool
// that makes those of releases, and the program alone. Where somebody built them for all
// tests at once, it takes those.
package burstletimage

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// Ref is the name under which test hosts have the image once its archive is
// imported, Version what "burstlet version" says in it.
const (
	Ref     = "registry.burstlet.test/burstlet:test"
	Version = "test"
)

// The environment variables that name what is built already: the image's archive, as
// "go run ./tools/image --version test --name [Ref]" makes it for this machine's
// architecture, and the program.
const (
	ImageEnv   = "BURSTLET_IMAGE"
	ProgramEnv = "BURSTLET_PROGRAM"
)

// interruptWait is how long a build that is called off may take to end.
const interruptWait = 10 * time.Second

// Build makes the image for this machine's architecture, unless [ImageEnv] names one,
// and returns the path of its OCI archive, a file in dir. The host helper must be built
// ("make helper").
func Build(ctx context.Context, dir string) (archive string, err error) {
	if built := os.Getenv(ImageEnv); built != "" {
		return built, nil
	}
	archive = filepath.Join(dir, "burstlet-image.tar")
	err = run(ctx, "make burstlet's image", "run", "github.com/burstlet/burstlet/tools/image",
		"--version", Version, "--platform", "linux/"+runtime.GOARCH, "--name", Ref, "--out", archive)
	return archive, err
}

// Program builds burstlet, unless [ProgramEnv] names it, and returns its path, a file in
// dir. With the race detector it is always built, and ends with another exit code than 0
// when it found a race.
func Program(ctx context.Context, dir string, race bool) (program string, err error) {
	if built := os.Getenv(ProgramEnv); built != "" && !race {
		return built, nil
	}
	program = filepath.Join(dir, "burstlet")
	args := []string{"build", "-o", program}
	if race {
		args = append(args, "-race")
	}
	return program, run(ctx, "build burstlet", append(args, "github.com/burstlet/burstlet/cmd/burstlet")...)
}

// run runs the go command.
func run(ctx context.Context, what string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	if slices.Contains(args, "-race") {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	}
	// The tool and its compilers end with the go command.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = interruptWait
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", what, err, bytes.TrimSpace(out))
	}
	return nil
}
