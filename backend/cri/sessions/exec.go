package sessions

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
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/streaming"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// Sources are what sessions are opened with.
type Sources struct {
	Runtime runtimeapi.RuntimeServiceClient
	// Streams dials the runtime's streaming server.
	Streams host.Dialer
	// Container finds a container. Errors: NotFound.
	Container func(ctx context.Context, uid types.UID, name string, attempt int) (*runtimeapi.Container, error)
	// Status is that of a container now; nil without an error: not there.
	Status func(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error)
	// Sandboxes are all of a pod.
	Sandboxes func(ctx context.Context, uid types.UID) ([]*runtimeapi.PodSandbox, error)
}

// Opener implements [backend.Exec], [backend.Attacher] and [backend.Forwarder].
type Opener struct{ Sources }

// New opens sessions of one runtime.
func New(from Sources) *Opener { return &Opener{from} }

// Exec runs a command. What has no live output is run by ExecSync, as the
// kubelet runs its probes and hooks: the runtime kills the command when the call ends.
// It gathers the output, at most 16 MiB, of which the host passes on what is wanted, and
// gives it out at the end; that of a command which was killed is lost. All else goes
// through the runtime's streaming server, where the end of a call closes the command's
// streams; whether that ends the command is up to the command, as it is for a kubelet's.
func (o *Opener) Exec(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
	op := "run command in container " + ref.Name
	if len(spec.Command) == 0 {
		return 0, backend.Errorf(backend.ErrInvalid, "%s: the command is empty", op)
	}
	id, err := o.idOf(ctx, ref)
	if err != nil {
		return 0, o.sessionFailed(ctx, op, "", err)
	}
	if spec.Live || spec.TTY || spec.Stdin != nil {
		return o.stream(ctx, op, id, spec)
	}
	reply, err := o.Runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{
		ContainerId: id, Cmd: spec.Command, Timeout: commandTimeout(ctx, spec.Timeout, time.Now()),
	}, transport.Unbounded{}, transport.OutputCut{To: spec.MaxOutput})
	if err != nil {
		return 0, o.sessionFailed(ctx, op, id, err)
	}
	err = errors.Join(writeAll(spec.Stdout, reply.GetStdout()), writeAll(spec.Stderr, reply.GetStderr()))
	if err != nil {
		return 0, fmt.Errorf("%s: pass on output: %w", op, err)
	}
	return reply.GetExitCode(), nil
}

// stream runs a command whose streams are passed on as they come.
func (o *Opener) stream(ctx context.Context, op, id string, spec backend.ExecSpec) (int32, error) {
	ctx, cancel := spec.Within(ctx)
	defer cancel()
	stdin, stdout, stderr := streaming.Needs(backend.AttachSpec{Stdin: spec.Stdin, Stderr: spec.Stderr, TTY: spec.TTY})
	reply, err := o.Runtime.Exec(ctx, &runtimeapi.ExecRequest{
		ContainerId: id, Cmd: spec.Command, Tty: spec.TTY, Stdin: stdin, Stdout: stdout, Stderr: stderr,
	})
	if err != nil {
		return 0, o.sessionFailed(ctx, op, id, err)
	}
	code, err := streaming.Exec(ctx, o.Streams, reply.GetUrl(), spec)
	if err != nil {
		return 0, o.sessionFailed(ctx, op, id, err)
	}
	return code, nil
}

// commandTimeout is the timeout of a command for the runtime, which counts in seconds:
// the command's own, else that of the call, should its end not reach the runtime. 0 is
// none.
func commandTimeout(ctx context.Context, own time.Duration, now time.Time) int64 {
	if own <= 0 {
		deadline, ok := ctx.Deadline()
		if !ok {
			return 0
		}
		own = deadline.Sub(now)
	}
	return max(1, int64(math.Ceil(own.Seconds())))
}

func writeAll(w io.Writer, b []byte) error {
	if w == nil || len(b) == 0 {
		return nil
	}
	_, err := w.Write(b)
	return err
}

// idOf is the runtime's id of a container. Errors: NotFound.
func (o *Opener) idOf(ctx context.Context, ref backend.ContainerRef) (string, error) {
	if ref.ID != "" {
		return ref.ID, nil
	}
	found, err := o.Container(ctx, ref.Pod.UID, ref.Name, ref.Attempt)
	if err != nil {
		return "", err
	}
	return found.GetId(), nil
}

// sessionFailed classes the error of a command that was not run to its end, or of an
// attachment. The runtime has one code for nearly all of them: what the container is
// doing and the text have to tell. Without an id the container was not found.
func (o *Opener) sessionFailed(ctx context.Context, op, id string, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && errors.Is(err, backend.ErrUnavailable) {
		// The time went by on the way there: nothing is known of the command.
		return transport.Failed(err, "%s", op)
	}
	return o.sessionEnded(ctx, op, id, err)
}

// sessionEnded is sessionFailed for what reached the runtime, or was ended before.
func (o *Opener) sessionEnded(ctx context.Context, op, id string, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", op, ctx.Err())
	case id != "" && status.Code(err) == codes.DeadlineExceeded:
		// The command's time is over, or the runtime's clock was ahead of ours.
		return fmt.Errorf("%s: %w", op, context.DeadlineExceeded)
	case id == "" || transport.Lost(err) || transport.IsNotFound(err) || !saidByRuntime(err):
		return transport.Failed(err, "%s", op)
	}
	s, lookErr := o.Status(ctx, id)
	switch {
	case lookErr != nil && ctx.Err() != nil:
		// The runtime saw the end of the call before us, and said so in words.
		return fmt.Errorf("%s: %w", op, ctx.Err())
	case status.Code(lookErr) == codes.DeadlineExceeded && hasDeadline(ctx):
		// The same, with ours still some microseconds behind.
		return fmt.Errorf("%s: %w", op, context.DeadlineExceeded)
	case lookErr != nil:
		return errors.Join(transport.Failed(err, "%s", op), lookErr)
	case s.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING:
		return backend.Errorf(backend.ErrNotFound, "%s: it is not running: %w", op, err)
	case cannotStart(err.Error()):
		return backend.Errorf(backend.ErrInvalid, "%s: %w", op, err)
	default:
		return transport.Failed(err, "%s", op)
	}
}

func hasDeadline(ctx context.Context) bool {
	_, ok := ctx.Deadline()
	return ok
}

// saidByRuntime is true for an answer of the runtime, to a call or on streams.
func saidByRuntime(err error) bool {
	var call *transport.CallError
	var words *streaming.Error
	return errors.As(err, &call) || errors.As(err, &words)
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
