package check

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"go.uber.org/goleak"
	"google.golang.org/grpc/test/bufconn"

	"github.com/burstlet/burstlet/backend"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// target is a pod with an address and a container with ports.
var target = Target{
	Ref:   backend.ContainerRef{Name: "web", Pod: backend.Ref{UID: "u1", Namespace: "ns", Name: "p"}},
	PodIP: "10.0.0.1",
	Container: &corev1.Container{
		Name:  "web",
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "bad", ContainerPort: 70000}},
		Env:   []corev1.EnvVar{{Name: "FILE", Value: "/ready"}, {Name: "SECRET", ValueFrom: &corev1.EnvVarSource{}}},
	},
}

type execFunc func(context.Context, backend.ContainerRef, backend.ExecSpec) (int32, error)

func (f execFunc) Exec(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
	return f(ctx, ref, spec)
}

type dialFunc func(context.Context, backend.Ref, string) (net.Conn, error)

func (f dialFunc) Dial(ctx context.Context, pod backend.Ref, address string) (net.Conn, error) {
	return f(ctx, pod, address)
}

// network is a listener in memory that notes what was dialled.
type network struct {
	*bufconn.Listener
	mu       sync.Mutex
	dialled  []string
	pod      backend.Ref
	openness int
}

func newNetwork(t *testing.T) *network {
	n := &network{Listener: bufconn.Listen(64 << 10)}
	t.Cleanup(func() { n.Close() })
	return n
}

func (n *network) Dial(ctx context.Context, pod backend.Ref, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialled, n.pod = append(n.dialled, address), pod
	n.openness++
	n.mu.Unlock()
	conn, err := n.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	return &counted{Conn: conn, closed: sync.OnceFunc(func() {
		n.mu.Lock()
		n.openness--
		n.mu.Unlock()
	})}, nil
}

func (n *network) addresses() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dialled
}

func (n *network) open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.openness
}

type counted struct {
	net.Conn
	closed func()
}

func (c *counted) Close() error {
	c.closed()
	return c.Conn.Close()
}

// serve answers HTTP on the network; use TLS after setting it up by start.
func serve(t *testing.T, n *network, h http.HandlerFunc, start func(*httptest.Server)) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	s.Listener = n
	start(s)
	t.Cleanup(s.Close)
}

func plain(s *httptest.Server) { s.Start() }

func httpGet(path string) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(80)}}
}

// refused is what a connection to a closed port gives.
func refused(_ context.Context, _ backend.Ref, address string) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: addr(address), Err: errRefused{}}
}

// hangs never connects.
func hangs(ctx context.Context, _ backend.Ref, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// cut is a remote out of reach.
func cut(context.Context, backend.Ref, string) (net.Conn, error) {
	return nil, backend.Errorf(backend.ErrUnavailable, "the host does not answer")
}

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

type errRefused struct{}

func (errRefused) Error() string { return "connect: connection refused" }

// probe carries out one probe with a minute's time.
func probe(t *testing.T, c *Checker, h corev1.ProbeHandler) (Verdict, string, error) {
	t.Helper()
	return c.Probe(t.Context(), target, h, time.Minute)
}
