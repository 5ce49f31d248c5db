package backend

import (
	"context"
	"io"
	"net"
	"time"
)

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct{ Width, Height uint16 }

// ExecSpec is one command to run in a container. Nil streams are empty or
// dropped.
type ExecSpec struct {
	Command        []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Live asks for the output as it is written; else it may come at the end, which
	// costs less, and not at all when the context ends before. Stdin and TTY imply it.
	Live bool
	// Timeout, if not 0, bounds the command where it runs, from its start: what runs
	// longer is killed, and the error is context.DeadlineExceeded without a class. What
	// the way there takes counts towards the context alone, as for a kubelet's runtime.
	Timeout time.Duration
	// MaxOutput is how many bytes of Stdout, and of Stderr, are wanted where neither is
	// Live: the remote may cut what is more. 0 wants all.
	MaxOutput int64
	// TTY gives the command a terminal. All output then goes to Stdout.
	TTY bool
	// Resize brings the sizes of the user's terminal, the first at once; nil
	// without TTY. It is closed when no more will come.
	Resize <-chan TerminalSize
}

// Within is ctx with the spec's Timeout, for backends that end commands by their context.
// The function is to be called when the command has ended.
func (s ExecSpec) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.Timeout)
}

// Exec runs commands in running containers.
type Exec interface {
	// Exec runs a command to its end and returns its exit code; output has been
	// written by then. It does not wait for Stdin to end. When the context ends,
	// the command is ended as far as the remote can, and the context's error
	// returned. Errors: NotFound for a container that does not run, Invalid for a
	// command that cannot be started.
	Exec(ctx context.Context, ref ContainerRef, spec ExecSpec) (code int32, err error)
}

// AttachSpec joins streams to a container's main process. Nil streams are left
// alone.
type AttachSpec struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// TTY says that the container has a terminal (container.tty): all output then
	// goes to Stdout.
	TTY bool
	// Resize is as in ExecSpec.
	Resize <-chan TerminalSize
}

// Attacher reaches the streams of running containers.
type Attacher interface {
	// Attach copies what the container writes from now on, and sends Stdin to it
	// where container.stdin asks for one, until the container ends, or with the
	// context. With container.stdinOnce the container's stdin is closed when the
	// first attached Stdin ends. It returns nil when the container ended or its
	// output did. Errors: NotFound for a container that does not run.
	Attach(ctx context.Context, ref ContainerRef, spec AttachSpec) error
}

// Dialer reaches addresses as the pods' host does.
type Dialer interface {
	// Dial opens a TCP connection to host:port as seen from the pod's side:
	// "localhost" is the pod's host, as for a kubelet. Errors: the connection's
	// own (refused, timeout); Unavailable when the remote cannot be asked.
	Dial(ctx context.Context, pod Ref, address string) (net.Conn, error)
}

// Forwarder reaches ports from inside pods, as kubectl port-forward does.
type Forwarder interface {
	// Forward opens a TCP connection to a port on the loopback interface of the
	// pod's own network. Errors: NotFound for a pod without a live sandbox; the
	// connection's own (refused); Unavailable when the remote cannot be asked.
	Forward(ctx context.Context, pod Ref, port uint16) (net.Conn, error)
}
