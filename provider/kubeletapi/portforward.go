package kubeletapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/containerd/log"
	"k8s.io/cri-streaming/pkg/streaming/portforward"

	"github.com/burstlet/burstlet/backend"
)

// portForward carries connections to ports of a pod over the one connection.
func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	opts, err := portforward.NewV4Options(r)
	if err != nil {
		fail(w, r, backend.Classed(backend.ErrInvalid, err))
		return
	}
	pod := podRef(r)
	if err := s.cfg.Engine.CanForward(pod); err != nil {
		s.refuse(w, r, err)
		return
	}
	s.takeOver(w, r, 0, func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		x := s.audit(r)
		defer x.end() // it lasts for as long as its client wants
		forward := forwarder(func(port uint16, stream io.ReadWriteCloser) error {
			conn, err := s.cfg.Engine.Forward(ctx, pod, port)
			if err != nil {
				// This waits until the client knows that the stream is open: one that is
				// reset before tells nobody why.
				_, unsent := stream.Write(nil)
				return errors.Join(err, unsent)
			}
			return relay(ctx, stream, conn)
		})
		portforward.ServePortForward(w, r, forward, pod.Name+"_"+pod.Namespace, string(pod.UID), opts,
			s.cfg.StreamIdleTimeout, streamCreationTimeout, portforward.SupportedProtocols)
	})
}

// forwarder forwards one connection of a request. It knows the request's context:
// the one that it is given never ends.
type forwarder func(port uint16, stream io.ReadWriteCloser) error

// PortForward carries a stream to a port until both have ended.
func (f forwarder) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	return f(uint16(port), stream) //nolint:gosec // both protocols read it as 16 bits
}

// halfCloseLinger is how long a pod may speak on after its client has ended its
// side. A kubectl whose user has hung up ends its side just so, and says no more;
// the container runtimes of kubelets allow a second.
const halfCloseLinger = time.Minute

// relay copies between a client's stream and a connection to a pod until both
// sides have said all, the client has given up, or the context ends. An end of one
// side is passed on while the other goes on speaking. Errors are those of reading
// from the pod for a client that has not ended its side.
func relay(ctx context.Context, stream io.ReadWriteCloser, conn net.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		<-ctx.Done()
		if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			log.G(ctx).WithError(err).Debug("forwarded connection not closed cleanly")
		}
	}()
	defer func() {
		cancel()
		<-closed
	}()
	go func() {
		toPod(ctx, conn, stream)
		close(ended)
		linger := time.NewTimer(halfCloseLinger)
		defer linger.Stop()
		select {
		case <-linger.C:
			cancel()
		case <-ctx.Done():
		}
	}()
	if _, err := io.Copy(clientStream{stream}, conn); err != nil {
		select {
		case <-ended:
		case <-ctx.Done():
		default:
			if !errors.Is(err, errReset) {
				return fmt.Errorf("read from the pod: %w", err)
			}
		}
		return nil // Nobody listens any more.
	}
	if err := stream.Close(); err != nil {
		log.G(ctx).WithError(err).Debug("forwarded stream not closed cleanly")
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return nil
}

// toPod copies what the client sends, and its end. What the pod does not take is
// read and dropped: unread, it would hold up the other streams of the connection.
func toPod(ctx context.Context, conn net.Conn, stream io.Reader) {
	if _, err := io.Copy(conn, stream); err != nil {
		log.G(ctx).WithError(err).Debug("forwarded connection takes no more")
		if _, err := io.Copy(io.Discard, stream); err != nil {
			log.G(ctx).WithError(err).Debug("forwarded stream broke off")
		}
		return
	}
	end := conn.Close // of both directions, where there is no end of one
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		end = half.CloseWrite
	}
	if err := end(); err != nil {
		log.G(ctx).WithError(err).Debug("end of a forwarded stream not passed on")
	}
}

var errReset = errors.New("the client has given up the stream")

// clientStream is a stream that does not take what its client will never read. A
// SPDY stream says nothing of it in Write.
type clientStream struct{ stream io.Writer }

func (c clientStream) Write(p []byte) (int, error) {
	if s, ok := c.stream.(interface{ IsFinished() bool }); ok && s.IsFinished() {
		return 0, errReset
	}
	return c.stream.Write(p) //nolint:wrapcheck // io.Copy's caller does
}
