package check

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// ExitError is the error of a command that ran and did not return 0.
type ExitError struct {
	Command []string
	Code    int32
	// Stderr is bounded.
	Stderr string
}

// Error says it as the kubelet does.
func (e *ExitError) Error() string {
	return fmt.Sprintf("command '%s' exited with %d: %s", strings.Join(e.Command, " "), e.Code, e.Stderr)
}

// wayTime is how long a command's remote may take, beyond the command's own time, to say
// how it ended (kubelet: runtimeRequestTimeout).
const wayTime = 2 * time.Minute

// Exec runs a command in the container to its end, or until ctx ends, and
// returns its output: stdout, then stderr, bounded to 10 KiB. Errors: ExitError
// for a code other than 0, Unsupported where the backend has no Exec, or the
// backend's own.
func (c *Checker) Exec(ctx context.Context, ref backend.ContainerRef, command []string) (string, error) {
	return c.execWithin(ctx, ref, command, 0)
}

// execWithin is Exec of a command that the remote kills after timeout, if that is not 0.
func (c *Checker) execWithin(
	ctx context.Context, ref backend.ContainerRef, command []string, timeout time.Duration,
) (string, error) {
	if c.exec == nil {
		return "", backend.Errorf(backend.ErrUnsupported, "this backend cannot run commands in containers")
	}
	stdout, stderr := backend.Beginning{Most: maxOutput}, backend.Beginning{Most: maxOutput}
	code, err := c.exec.Exec(ctx, ref, backend.ExecSpec{
		Command: command, Timeout: timeout, MaxOutput: maxOutput, Stdout: &stdout, Stderr: &stderr,
	})
	out, errOut := string(stdout.Bytes()), string(stderr.Bytes())
	if err == nil && code != 0 {
		err = &ExitError{Command: command, Code: code, Stderr: errOut}
	}
	return clip(out + errOut), err
}

func (c *Checker) probeExec(
	ctx context.Context, t Target, command []string, timeout time.Duration,
) (Verdict, string, error) {
	limited, cancel := context.WithTimeout(ctx, timeout+wayTime)
	defer cancel()
	expanded := command
	if t.Container != nil {
		expanded = resolve.ProbeCommand(t.Container, command)
	}
	output, err := c.execWithin(limited, t.Ref, expanded, timeout)
	// As the spec has it: expanded it could show what the environment holds.
	late := fmt.Sprintf("command timed out: %q timed out after %v", strings.Join(command, " "), timeout)
	var exit *ExitError
	switch {
	case err == nil:
		return Success, output, nil
	case errors.As(err, &exit):
		return Failure, output, nil
	case ctx.Err() != nil || Unasked(err):
		return Unknown, "", err
	case limited.Err() != nil:
		return Silence, late, nil
	case errors.Is(err, context.DeadlineExceeded):
		return Failure, late, nil
	default:
		return Unknown, "", err
	}
}

// clip bounds output and makes it text: the API takes nothing but UTF-8.
func clip(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxOutput)], "\uFFFD")
}
