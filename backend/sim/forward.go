package sim

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// echoPort is where every pod that runs a container echoes (RFC 862), so that
// forwarding can be tried on any.
const echoPort = 7

// forwardView lends backend.Forwarder.
type forwardView struct{ *view }

// Forward connects to what listens on a port in the pod: a listener of
// Remote.Listen, a container whose command line serves, an echo on port 7, or a
// greeting over HTTP on a port that a running container declares. The connection
// breaks when its container ends.
func (v forwardView) Forward(ctx context.Context, pod backend.Ref, port uint16) (net.Conn, error) {
	op := fmt.Sprintf("forward to port %d of pod %s", port, pod.UID)
	if err := v.request(ctx, op); err != nil {
		return nil, err
	}
	conn, err := v.connect(ctx, pod, int(port))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if err := v.reply(ctx, op); err != nil {
		_ = conn.Close() // nobody will use it
		return nil, err
	}
	return conn, nil
}

func (v forwardView) connect(ctx context.Context, pod backend.Ref, port int) (net.Conn, error) {
	found, greets, err := v.inside(pod, port)
	switch {
	case err != nil:
		return nil, err
	case found.queue != nil:
		return found.queue.connect(ctx, found.watched)
	case found.listener.Port != 0:
		return found.connect(), nil
	case greets:
		return found.serve(found.greeting(port)), nil
	default:
		return found.echo(), nil
	}
}

// inside finds what listens on a port of the pod: what is made to, then what the
// simulator adds. greets says that it is a greeting.
func (v forwardView) inside(pod backend.Ref, port int) (found server, greets bool, err error) {
	now := v.lock()
	defer v.mu.Unlock()
	a := v.find(v.node, pod, now)
	if a == nil || !a.live(now) || !reached(a.ready, now) {
		return server{}, false, backend.Errorf(backend.ErrNotFound, "the pod has no live sandbox")
	}
	if s, ok := dialView(v).listening(a, port, now); ok {
		return s, false, nil
	}
	for _, c := range a.containers {
		if !c.runs(a, now) {
			continue
		}
		declared := c.declares(port)
		if declared && c.program.serves(port) {
			break // but not yet
		}
		if declared || port == echoPort {
			return server{watched: watched{v.Remote, a, c}}, declared, nil
		}
	}
	return server{}, false, dialError("127.0.0.1", port, syscall.ECONNREFUSED)
}

func (c *container) declares(port int) bool {
	for _, p := range c.spec.Container.Ports {
		if int(p.ContainerPort) == port && (p.Protocol == "" || p.Protocol == corev1.ProtocolTCP) {
			return true
		}
	}
	return false
}

// serves is true for a port that the program listens on at some time.
func (p *program) serves(port int) bool {
	for _, l := range p.listeners {
		if l.Port == port {
			return true
		}
	}
	return false
}

// greeting tells who answers.
func (w watched) greeting(port int) http.Handler {
	name := w.attempt.ref.Namespace + "/" + w.attempt.ref.Name
	text := fmt.Sprintf("hello from simulated pod %s, container %s, port %d\n", name, w.container.name, port)
	return http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(out, text) // the client may be gone
	})
}
