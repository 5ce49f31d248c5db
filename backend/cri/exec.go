package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
)

// commands implements [backend.Exec] by ExecSync, as the kubelet runs its probes
// and hooks: the runtime kills the command when the call ends. It gathers the
// output, at most 16 MiB, and gives it out at the end; that of a command which
// was killed is lost.
type commands struct{ *remote }

// Exec runs a command without input. Errors: Unsupported with Stdin.
func (c commands) Exec(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
	if spec.Stdin != nil {
		return 0, backend.Errorf(backend.ErrUnsupported,
			"run command in container %s: input needs a streaming exec, which comes with the kubelet's exec API", ref.Name)
	}
	if len(spec.Command) == 0 {
		return 0, backend.Errorf(backend.ErrInvalid, "run command in container %s: the command is empty", ref.Name)
	}
	id, err := c.idOf(ctx, ref)
	if err != nil {
		return 0, c.execFailed(ctx, ref, "", err)
	}
	reply, err := c.runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{
		ContainerId: id, Cmd: spec.Command, Timeout: secondsLeft(ctx, time.Now()),
	}, unbounded{})
	if err != nil {
		return 0, c.execFailed(ctx, ref, id, err)
	}
	err = errors.Join(writeAll(spec.Stdout, reply.GetStdout()), writeAll(spec.Stderr, reply.GetStderr()))
	if err != nil {
		return 0, fmt.Errorf("pass on the output of a command in container %s: %w", ref.Name, err)
	}
	return reply.GetExitCode(), nil
}

// secondsLeft is the timeout of a command for the runtime, which counts in
// seconds: it ends the command should the end of the call not reach it. 0 is none.
func secondsLeft(ctx context.Context, now time.Time) int64 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(1, int64(math.Ceil(deadline.Sub(now).Seconds())))
}

func writeAll(w io.Writer, b []byte) error {
	if w == nil || len(b) == 0 {
		return nil
	}
	_, err := w.Write(b)
	return err
}

// idOf is the runtime's id of a container. Errors: NotFound.
func (r *remote) idOf(ctx context.Context, ref backend.ContainerRef) (string, error) {
	if ref.ID != "" {
		return ref.ID, nil
	}
	found, err := r.findContainer(ctx, ref.Pod.UID, ref.Name, ref.Attempt)
	if err != nil {
		return "", err
	}
	return found.GetId(), nil
}

// execFailed classes the error of a command that was not run to its end. The
// runtime has one code for nearly all of them: what the container is doing and
// the text have to tell.
func (c commands) execFailed(ctx context.Context, ref backend.ContainerRef, id string, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("run command in container %s: %w", ref.Name, ctx.Err())
	case id != "" && status.Code(err) == codes.DeadlineExceeded:
		// The runtime's clock was ahead of ours.
		return fmt.Errorf("run command in container %s: %w", ref.Name, context.DeadlineExceeded)
	case id == "" || lost(err) || isNotFound(err):
		return failed(err, "run command in container %s", ref.Name)
	}
	s, lookErr := c.askContainer(ctx, id)
	switch {
	case lookErr != nil:
		return errors.Join(failed(err, "run command in container %s", ref.Name), lookErr)
	case s.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING:
		return backend.Errorf(backend.ErrNotFound, "run command in container %s: it is not running: %w", ref.Name, err)
	case cannotStart(err.Error()):
		return backend.Errorf(backend.ErrInvalid, "run command in container %s: %w", ref.Name, err)
	default:
		return failed(err, "run command in container %s", ref.Name)
	}
}

// cannotStart tells a command that can never be started from other failures, by
// the words of the kernel and of runc or crun.
func cannotStart(text string) bool {
	if !strings.Contains(text, "OCI runtime exec failed") && !strings.Contains(text, "unable to start container process") {
		return false
	}
	text = strings.ToLower(text)
	for _, why := range []string{
		"executable file not found", "no such file or directory", "not a directory", "is a directory",
		"permission denied", "exec format error", "argument list too long", "file name too long",
	} {
		if strings.Contains(text, why) {
			return true
		}
	}
	return false
}
