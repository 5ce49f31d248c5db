package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
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

// Exec runs a command in the container to its end, or until ctx ends, and
// returns its output: stdout, then stderr, bounded to 10 KiB. Errors: ExitError
// for a code other than 0, Unsupported where the backend has no Exec, or the
// backend's own.
func (c *Checker) Exec(ctx context.Context, ref backend.ContainerRef, command []string) (string, error) {
	if c.exec == nil {
		return "", backend.Errorf(backend.ErrUnsupported, "this backend cannot run commands in containers")
	}
	var stdout, stderr bounded
	code, err := c.exec.Exec(ctx, ref, backend.ExecSpec{Command: command, Stdout: &stdout, Stderr: &stderr})
	out, errOut := stdout.String(), stderr.String()
	if err == nil && code != 0 {
		err = &ExitError{Command: command, Code: code, Stderr: errOut}
	}
	return clip(out + errOut), err
}

func (c *Checker) probeExec(ctx context.Context, t Target, command []string, timeout time.Duration) (Verdict, string, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	output, err := c.Exec(limited, t.Ref, expandStatic(command, t.Container))
	expired := limited.Err() != nil && ctx.Err() == nil
	var exit *ExitError
	switch {
	case err == nil:
		return Success, output, nil
	case errors.As(err, &exit):
		return Failure, output, nil
	case expired && late(err):
		// As the spec has it: expanded it could show what the environment holds.
		return Failure, fmt.Sprintf("command timed out: %q timed out after %v", strings.Join(command, " "), timeout), nil
	default:
		return Unknown, "", err
	}
}

// bounded keeps the first bytes written to it and takes the rest, so that a
// command is not disturbed. It locks: a command that was given up may still write.
type bounded struct {
	mu   sync.Mutex
	kept bytes.Buffer
}

// Write never fails.
func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept.Write(p[:min(len(p), maxOutput-b.kept.Len())])
	return len(p), nil
}

// String is what was kept.
func (b *bounded) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept.String()
}

// clip bounds output and makes it text: the API takes nothing but UTF-8.
func clip(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxOutput)], "\uFFFD")
}

// expandStatic replaces $(NAME) in a command by the literal value that the
// container's environment gives it (kubelet: ExpandContainerCommandOnlyStatic).
// Values with a source are empty, unknown references stay, $$ is an escaped $.
func expandStatic(command []string, container *corev1.Container) []string {
	if container == nil || !strings.Contains(strings.Join(command, ""), "$") {
		return command
	}
	values := make(map[string]string, len(container.Env))
	for _, v := range container.Env {
		values[v.Name] = v.Value
	}
	out := make([]string, len(command))
	for i, word := range command {
		out[i] = expand(word, values)
	}
	return out
}

func expand(s string, values map[string]string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		name, rest, closed := strings.Cut(strings.TrimPrefix(after, "("), ")")
		switch {
		case strings.HasPrefix(after, "$"):
			out.WriteByte('$')
			s = after[1:]
		case strings.HasPrefix(after, "(") && closed:
			value, known := values[name]
			if !known {
				value = "$(" + name + ")"
			}
			out.WriteString(value)
			s = rest
		default:
			out.WriteByte('$')
			s = after
		}
	}
}
