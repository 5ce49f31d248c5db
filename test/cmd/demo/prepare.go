package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// endWait is how long a tool that was interrupted may take to end.
const endWait = 10 * time.Second

// installPackages installs the Debian packages that a container host needs.
func installPackages(ctx context.Context, out *screen) error {
	missing := remotehost.Missing()
	if len(missing) == 0 {
		return nil
	}
	out.heading("Installing Debian packages: %s", strings.Join(missing, " "))
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("packages are missing and this machine has no apt-get; install them, or pass --simulated: %s",
			strings.Join(missing, ", "))
	}
	err := out.during(ctx, nil, func(ctx context.Context, log io.Writer) error {
		if err := runTool(ctx, log, "apt-get", "update"); err != nil {
			return err
		}
		return runTool(ctx, log, "apt-get", append([]string{"install", "--yes", "--no-install-recommends"}, missing...)...)
	})
	if err != nil {
		return fmt.Errorf("install packages: %w", err)
	}
	if missing := remotehost.Missing(); len(missing) > 0 {
		return fmt.Errorf("install packages: still missing: %s", strings.Join(missing, ", "))
	}
	return nil
}

// controlPlanePrograms returns the control plane's programs, built if need be.
func controlPlanePrograms(ctx context.Context, out *screen) (controlplane.Binaries, error) {
	found, err := controlplane.FindBinaries(ctx, "")
	if err == nil || ctx.Err() != nil {
		return found, err
	}
	out.heading("Building the control plane, once; this takes some minutes")
	err = out.during(ctx, []string{"building ", "built "}, func(ctx context.Context, log io.Writer) error {
		var err error
		found, err = controlplane.BuildBinaries(ctx, "", log)
		return err
	})
	if err != nil {
		return controlplane.Binaries{}, fmt.Errorf("build the control plane: %w", err)
	}
	return found, nil
}

// buildBurstlet builds burstlet from the checkout that the demo runs in.
func buildBurstlet(ctx context.Context, out *screen, path string) error {
	out.heading("Building burstlet")
	err := out.during(ctx, nil, func(ctx context.Context, log io.Writer) error {
		return runTool(ctx, log, "go", "build", "-o", path, "github.com/burstlet/burstlet/cmd/burstlet")
	})
	if err != nil {
		return fmt.Errorf("build burstlet (run the demo in the checkout, or pass --burstlet): %w", err)
	}
	return nil
}

// runTool runs a program with its output in a log. The end of ctx interrupts it.
func runTool(ctx context.Context, log io.Writer, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = endWait
	err := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("%s: %w", commandLine(name, args...), err)
	}
	return err
}
