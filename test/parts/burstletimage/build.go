// Package burstletimage makes burstlet's container image for tests, with the tool that
// makes those of releases. Where somebody built one for all tests at once, it takes that.
package burstletimage

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Ref is the name under which test hosts have the image once its archive is
// imported, Version what "burstlet version" says in it.
const (
	Ref     = "registry.burstlet.test/burstlet:test"
	Version = "test"
	// TaskRef is the image of tasks.
	TaskRef = "registry.burstlet.test/burstlet-task:test"
)

// TaskArchive is where the tool puts the image of tasks: beside burstlet's own.
func TaskArchive(archive string) string { return strings.TrimSuffix(archive, ".tar") + "-task.tar" }

// ImageEnv names the environment variable that names the image's archive where it is
// built already, as "go run ./tools/image --version test --name [Ref]" makes it for this
// machine's architecture.
const ImageEnv = "BURSTLET_IMAGE"

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
	cmd := exec.CommandContext(ctx, "go", "run", "github.com/burstlet/burstlet/tools/image",
		"--version", Version, "--platform", "linux/"+runtime.GOARCH, "--name", Ref, "--out", archive)
	// The tool and its compilers end with the go command.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = interruptWait
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make burstlet's image: %w: %s", err, bytes.TrimSpace(out))
	}
	return archive, nil
}
