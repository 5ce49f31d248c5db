package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// commandTimeout bounds a command that is shown.
	commandTimeout = 2 * time.Minute
	// pollEvery is how often something that is waited for is looked at.
	pollEvery = 200 * time.Millisecond
	// quickly is how long people wait without asking what is going on.
	quickly = time.Second
)

// errTooLate says that something did not come within its limit.
var errTooLate = errors.New("not there within the limit")

// kubectl shows a command and what it prints, and returns that.
func (d *demo) kubectl(ctx context.Context, args ...string) (string, error) {
	d.out.command("kubectl", args...)
	output, err := d.runKubectl(ctx, args...)
	d.out.text(output)
	return output, err
}

// runKubectl runs kubectl as the cluster's administrator in the directory of the
// manifests.
func (c *cluster) runKubectl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.kubectlPath, args...)
	cmd.Dir = c.dir
	cmd.SysProcAttr = apart()
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "KUBECACHEDIR="+filepath.Join(c.dir, "cache"))
	return combined(ctx, cmd, commandLine("kubectl", args...))
}

// apart keeps a terminal's Ctrl-C from a program: it is for the demo, whose end needs
// programs that work.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// ctr shows what containerd itself knows, and returns it.
func (d *demo) ctr(ctx context.Context, args ...string) (string, error) {
	output, err := d.askCtr(ctx, args...)
	d.showCtr(output, args...)
	return output, err
}

// askCtr asks containerd about what Kubernetes runs.
func (d *demo) askCtr(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	args = inK8s(args)
	return combined(ctx, d.host.Command(ctx, "ctr", args...), commandLine("ctr", args...))
}

// showCtr shows what askCtr returned.
func (d *demo) showCtr(output string, args ...string) {
	d.out.note("On %s itself:", hostName)
	d.out.command("ctr", inK8s(args)...)
	d.out.text(output)
}

// inK8s are arguments of ctr about what Kubernetes runs.
func inK8s(args []string) []string { return append([]string{"--namespace", "k8s.io"}, args...) }

// combined runs a command and returns what it printed, errors included, as a
// terminal shows it.
func combined(ctx context.Context, cmd *exec.Cmd, line string) (string, error) {
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return output.String(), fmt.Errorf("%s: %w: %s", line, err, strings.TrimSpace(output.String()))
	}
	return output.String(), nil
}

// await looks until what is waited for is there. look returns nil then, and else
// an error that says what is there instead; await tells of its changes, unless
// they come so soon that nobody waits.
func (s *screen) await(ctx context.Context, what string, limit time.Duration, look func(context.Context) error) error {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTooLate)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	var last error
	shown, told := "", began
	for {
		err := look(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // not the error of a look that was cut short
		}
		if now := time.Now(); now.Sub(began) >= quickly && (last.Error() != shown || now.Sub(told) >= stillEvery) {
			shown, told = last.Error(), now
			s.note("… %s: %s", now.Sub(began).Round(100*time.Millisecond), shown)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errTooLate) {
				return fmt.Errorf("wait for %s: %w of %s: %w", what, errTooLate, limit, last)
			}
			return ctx.Err()
		}
	}
}
