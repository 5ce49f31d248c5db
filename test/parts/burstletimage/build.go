// Package burstletimage makes burstlet's container image for tests, with the tool
// that makes those of releases.
package burstletimage

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Ref is the name under which test hosts have the image once its archive is
// imported, Version what "burstlet version" says in it.
const (
	Ref     = "registry.burstlet.test/burstlet:test"
	Version = "test"
)

// interruptWait is how long a build that is called off may take to end.
const interruptWait = 10 * time.Second

// Build makes the image for this machine's architecture and returns the path of
// its OCI archive, a file in dir. The host helper must be built ("make helper").
func Build(ctx context.Context, dir string) (archive string, err error) {
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
