package transport

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

const (
	// maxMessage is the kubelet's limit for one CRI message.
	maxMessage = 16 << 20
	// CallTimeout bounds a call whose context has no deadline, as the kubelet's
	// runtimeRequestTimeout does.
	CallTimeout = 2 * time.Minute
	// dialTimeout bounds one attempt to connect.
	dialTimeout = 10 * time.Second
)

// DialFunc makes the byte stream to the runtime's socket.
type DialFunc func(context.Context) (net.Conn, error)

// Transport is the connection to the runtime. It exists while run runs; calls
// at any other time fail as Unavailable. It implements
// [grpc.ClientConnInterface], so that the generated clients sit on top of it.
type Transport struct {
	endpoint string
	dial     DialFunc
	// onHost makes the calls that must be finished.
	onHost HostCaller
	may    backend.Permit

	mu      sync.RWMutex
	conn    *grpc.ClientConn
	dialErr error
}

// New prepares the connection that dial makes; endpoint names it in errors. What changes
// something asks may as it is sent.
func New(endpoint string, dial DialFunc, onHost HostCaller, may backend.Permit) *Transport {
	return &Transport{endpoint: endpoint, dial: dial, onHost: onHost, may: may}
}

// DialSocket dials the runtime as its host does.
func DialSocket(from host.Dialer, path string) DialFunc {
	return func(ctx context.Context) (net.Conn, error) { return from.DialContext(ctx, "unix", path) }
}

// Run holds the connection until the context ends. Nothing is dialled before
// the first call.
func (t *Transport) Run(ctx context.Context) error {
	conn, err := grpc.NewClient("passthrough:///cri",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(t.dialContext),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second,
			},
			MinConnectTimeout: dialTimeout,
		}))
	if err != nil {
		return fmt.Errorf("prepare connection to %s: %w", t.endpoint, err)
	}
	t.setConn(conn)
	<-ctx.Done()
	t.setConn(nil)
	if err := conn.Close(); err != nil {
		return fmt.Errorf("close connection to %s: %w", t.endpoint, err)
	}
	return nil
}

func (t *Transport) setConn(conn *grpc.ClientConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conn = conn
}

// dialContext keeps the reason why the last dial failed: gRPC buries it.
func (t *Transport) dialContext(ctx context.Context, _ string) (net.Conn, error) {
	conn, err := t.dial(ctx)
	if err != nil {
		if advice := dialAdvice(err); advice != "" {
			err = fmt.Errorf("%w (%s)", err, advice)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dialErr = err
	return conn, err
}

func dialAdvice(err error) string {
	switch {
	case errors.Is(err, backend.ErrDenied), errors.Is(err, backend.ErrUnavailable):
		return "" // it has said so itself
	case errors.Is(err, fs.ErrNotExist):
		return "the socket is not there: is the container runtime installed and running, and is this its socket?"
	case errors.Is(err, fs.ErrPermission):
		return "run as root or as a member of the socket's group"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens on the socket: start the container runtime"
	default:
		return "is the container runtime running?"
	}
}

// Current is the connection. Errors: Unavailable while Run does not run.
func (t *Transport) Current() (*grpc.ClientConn, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.conn == nil {
		return nil, &CallError{code: codes.Unavailable, msg: "the cri backend is not running", err: net.ErrClosed}
	}
	return t.conn, nil
}

// Unbounded frees a call from the bound of those whose context has no deadline.
type Unbounded struct{ grpc.EmptyCallOption }

func isUnbounded(o grpc.CallOption) bool {
	_, ok := o.(Unbounded)
	return ok
}

// OutputCut has the host cut the texts of a reply to so many bytes, so that they do not
// travel for nothing; 0 cuts nothing.
type OutputCut struct {
	grpc.EmptyCallOption
	To int64
}

func cutTo(opts []grpc.CallOption) int64 {
	for _, o := range opts {
		if cut, ok := o.(OutputCut); ok {
			return cut.To
		}
	}
	return 0
}

// Invoke makes one call, within two minutes if the context sets no deadline and
// the call is not unbounded.
func (t *Transport) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	conn, err := t.Current()
	if err != nil {
		return err
	}
	if _, ok := ctx.Deadline(); !ok && !slices.ContainsFunc(opts, isUnbounded) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, CallTimeout)
		defer cancel()
	}
	if cut := cutTo(opts); cut > 0 || madeOnHost[method] {
		return t.Explain(t.onHost.invoke(ctx, method, args, reply, cut))
	}
	if onlyReads[method] {
		return t.Explain(conn.Invoke(ctx, method, args, reply, opts...))
	}
	asked := &leaving{may: t.may, method: method}
	err = conn.Invoke(ctx, method, args, reply, append(opts, grpc.PerRPCCredentials(asked))...)
	if asked.refused != nil {
		return Refusal(asked.refused)
	}
	return t.Explain(err)
}

// NewStream opens a stream, which lives as long as its context.
func (t *Transport) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	conn, err := t.Current()
	if err != nil {
		return nil, err
	}
	stream, err := conn.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, t.Explain(err)
	}
	return stream, nil
}

// Explain turns gRPC's error into the runtime's words, or into the reason why
// it cannot be reached.
func (t *Transport) Explain(err error) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	e := &CallError{code: st.Code(), msg: st.Message(), err: err}
	if e.code != codes.Unavailable {
		return e
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if known, ok := errors.AsType[*CallError](err); ok {
		e = known // the host said why it could not be called
	} else if t.dialErr != nil {
		e.err = t.dialErr
		e.msg = t.dialErr.Error()
	}
	e.msg = fmt.Sprintf("reach the container runtime at %s: %s", t.endpoint, e.msg)
	return e
}
