package sim

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/duplex"
	"github.com/burstlet/burstlet/backend/sim/shell"
)

// dialView lends backend.Dialer.
type dialView struct{ *view }

// Dial connects to what listens on an address: a listener of Remote.Listen, a
// container whose command line serves, or else whatever Config.Dial knows. The
// connection breaks when its container ends.
func (v dialView) Dial(ctx context.Context, pod backend.Ref, address string) (net.Conn, error) {
	op := fmt.Sprintf("dial %s for pod %s", address, pod.UID)
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, backend.Errorf(backend.ErrInvalid, "%s: %w", op, err)
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, backend.Errorf(backend.ErrInvalid, "%s: %w", op, err)
	}
	if err := v.request(ctx, op); err != nil {
		return nil, err
	}
	conn, err := v.connect(ctx, pod, host, int(number))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if err := v.reply(ctx, op); err != nil {
		_ = conn.Close() // nobody will use it
		return nil, err
	}
	return conn, nil
}

func (v dialView) connect(ctx context.Context, pod backend.Ref, host string, port int) (net.Conn, error) {
	found, known := v.server(pod, host, port)
	switch {
	case found.queue != nil:
		return found.queue.connect(ctx, found.watched)
	case found.container != nil:
		return found.connect(), nil
	case v.cfg.Dial != nil && !known:
		return v.cfg.Dial(ctx, pod, net.JoinHostPort(host, strconv.Itoa(port)))
	case known:
		return nil, dialError(host, port, syscall.ECONNREFUSED)
	default:
		return nil, dialError(host, port, syscall.EHOSTUNREACH)
	}
}

// dialError is what the kernel says.
func dialError(host string, port int, why syscall.Errno) error {
	addr := &net.TCPAddr{IP: net.ParseIP(host), Port: port}
	return &net.OpError{Op: "dial", Net: "tcp", Addr: addr, Err: os.NewSyscallError("connect", why)}
}

// server is what listens on a port: a queue of Remote.Listen or a container.
type server struct {
	watched
	listener shell.Listener
	queue    *queue
}

// server finds what listens; known says that the host is one of ours.
func (v dialView) server(pod backend.Ref, host string, port int) (found server, known bool) {
	now := v.lock()
	defer v.mu.Unlock()
	for _, a := range v.at(pod, host, now) {
		known = true
		if s, ok := v.listening(a, port, now); ok {
			return s, true
		}
	}
	return server{}, known || slices.Contains(v.hostNames(), host)
}

func (v dialView) hostNames() []string {
	return append([]string{"localhost", "127.0.0.1", "::1"}, v.cfg.HostIPs...)
}

// at returns the attempts that have an address, the pod's own first. localhost
// is the pod's host: in the pod unit its own, else that of all host network pods.
func (v dialView) at(pod backend.Ref, host string, now time.Time) []*attempt {
	addresses := []string{host}
	if slices.Contains(v.hostNames(), host) {
		addresses = v.cfg.HostIPs
		if a := v.newest(pod, now); v.cfg.PodUnit && a != nil {
			addresses = a.ips
		}
	}
	reachable := func(a *attempt) bool {
		return a != nil && a.live(now) && reached(a.ready, now) && shares(a.ips, addresses)
	}
	for _, a := range v.pods[pod.UID] {
		if reachable(a) && a.release != "" {
			return []*attempt{a} // nobody else has its address
		}
	}
	var out []*attempt
	for _, a := range v.order {
		if reachable(a) {
			out = append(out, a)
		}
	}
	slices.SortStableFunc(out, func(a, b *attempt) int { return own(b, pod) - own(a, pod) })
	return out
}

func own(a *attempt, pod backend.Ref) int {
	if a.ref.UID == pod.UID {
		return 1
	}
	return 0
}

func shares(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// listening finds what listens on a port of an attempt.
func (v dialView) listening(a *attempt, port int, now time.Time) (server, bool) {
	for _, c := range a.containers {
		if !c.runs(a, now) {
			continue
		}
		if q := v.queues[portKey{a.ref.UID, port}]; q != nil {
			return server{watched: watched{v.Remote, a, c}, queue: q}, true
		}
		for _, l := range c.program.listeners {
			if l.Port == port && reached(c.started.Add(l.From), now) {
				return server{watched: watched{v.Remote, a, c}, listener: l}, true
			}
		}
	}
	return server{}, false
}

// connect has the container's own program answer.
func (s server) connect() net.Conn {
	if s.listener.Echoes {
		return s.echo()
	}
	return s.serve(http.HandlerFunc(s.answer))
}

// serve answers HTTP on a new connection.
func (w watched) serve(h http.Handler) net.Conn {
	client, far := duplex.Pipe()
	go w.hangUp(far)
	go func() {
		_ = serveHTTP(far, h) // ends with the connection
	}()
	return client
}

// echo sends back what comes on a new connection, until its end.
func (w watched) echo() net.Conn {
	client, far := duplex.Pipe()
	go w.hangUp(far)
	go func() {
		_, _ = io.Copy(far, far) // ends with the connection
		_ = far.Close()
	}()
	return client
}

func (s server) answer(w http.ResponseWriter, _ *http.Request) {
	_, _, runs := s.state()
	if failing := s.listener.FailingFrom; !runs || failing > 0 && reached(s.since().Add(failing), time.Now()) {
		http.Error(w, "failing", http.StatusInternalServerError)
		return
	}
	_, _ = w.Write([]byte("ok\n")) // the client may be gone
}

func (w watched) since() time.Time {
	w.remote.lock()
	defer w.remote.mu.Unlock()
	return w.container.started
}

// hangUp closes a connection at the end of the container.
func (w watched) hangUp(conn *duplex.Conn) {
	w.wait(time.Time{}, conn.Closed(), nil)
	_ = conn.Close() // a pipe's never fails
}

// serveHTTP serves one connection to its end.
func serveHTTP(conn *duplex.Conn, h http.Handler) error {
	l := &once{conn: conn, closed: conn.Closed()}
	s := http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	return s.Serve(l)
}

// once is a listener that accepts one connection and ends with it.
type once struct {
	mu     sync.Mutex
	conn   net.Conn
	closed <-chan struct{}
}

// Accept returns the connection, then waits for its end.
func (l *once) Accept() (net.Conn, error) {
	if conn := l.take(); conn != nil {
		return conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *once) take() net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	conn := l.conn
	l.conn = nil
	return conn
}

// Close does nothing: the listener ends with its connection.
func (l *once) Close() error { return nil }

// Addr is the connection's.
func (l *once) Addr() net.Addr { return &net.TCPAddr{} }

// portKey is a port of a pod.
type portKey struct {
	uid  types.UID
	port int
}

// queue is a listener of Remote.Listen.
type queue struct {
	remote *Remote
	key    portKey
	conns  chan net.Conn
	closed chan struct{}
	end    sync.Once
}

// Listen makes a port of a pod reachable by Dial while a container of the pod
// runs: whatever serves the listener (an http.Server, a grpc.Server) answers
// instead of the container. Close makes the port refuse again.
func (r *Remote) Listen(uid types.UID, port int) net.Listener {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := &queue{remote: r, key: portKey{uid, port}, conns: make(chan net.Conn), closed: make(chan struct{})}
	r.queues[q.key] = q
	return q
}

func (q *queue) connect(ctx context.Context, w watched) (net.Conn, error) {
	client, far := duplex.Pipe()
	select {
	case q.conns <- far:
		go w.hangUp(far)
		return client, nil
	case <-q.closed:
		return nil, dialError("", q.key.port, syscall.ECONNREFUSED)
	case <-ctx.Done():
		return nil, fmt.Errorf("nobody accepts: %w", ctx.Err())
	}
}

// Accept returns the next connection.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

// Close ends the listener; connections go on.
func (q *queue) Close() error {
	q.end.Do(func() {
		close(q.closed)
		q.remote.mu.Lock()
		defer q.remote.mu.Unlock()
		if q.remote.queues[q.key] == q {
			delete(q.remote.queues, q.key)
		}
	})
	return nil
}

// Addr is the pod's port.
func (q *queue) Addr() net.Addr { return &net.TCPAddr{Port: q.key.port} }
