package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

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

// prepare builds what is missing, side by side: burstlet, and the control plane's
// programs where they are wanted.
func (d *demo) prepare(ctx context.Context, programs *controlplane.Binaries) error {
	ours, plane := d.build || d.burstlet == "", false
	if programs != nil {
		var err error
		*programs, err = controlplane.FindBinaries(ctx, "")
		plane = err != nil
	}
	if err := d.placeBurstlet(); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case plane && ours:
		d.out.heading("Building burstlet, and once a control plane; this takes some minutes")
	case plane:
		d.out.heading("Building a control plane, once; this takes some minutes")
	case ours:
		d.out.heading("Building burstlet")
	default:
		return nil
	}
	return d.out.during(ctx, []string{"building ", "built "}, func(ctx context.Context, log io.Writer) error {
		builds, ctx := errgroup.WithContext(ctx)
		if ours {
			builds.Go(func() error { return d.buildBurstlet(ctx, log) })
		}
		if plane {
			builds.Go(func() error {
				var err error
				if *programs, err = controlplane.BuildBinaries(ctx, "", log); err != nil {
					return fmt.Errorf("build the control plane: %w", err)
				}
				return nil
			})
		}
		return builds.Wait()
	})
}

// placeBurstlet says where the program is, or will be.
func (d *demo) placeBurstlet() error {
	var err error
	if d.burstlet != "" {
		if d.program, err = filepath.Abs(d.burstlet); err != nil {
			return fmt.Errorf("find burstlet: %w", err)
		}
		return nil
	}
	if d.scratch, err = os.MkdirTemp("", "burstlet-demo-build-"); err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	d.program = filepath.Join(d.scratch, "burstlet")
	return nil
}

// buildBurstlet builds burstlet from the checkout that the demo runs in.
func (d *demo) buildBurstlet(ctx context.Context, log io.Writer) error {
	err := runTool(
		ctx, log, "go", "build", "-ldflags", d.ldflags, "-o", d.program, "github.com/burstlet/burstlet/cmd/burstlet",
	)
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
