package kubeletapi

import (
	"context"
	"io"
	"net/http"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/burstlet/burstlet/backend"
)

// attach joins the connection's streams to the main process of a container.
func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	opts, err := remotecommand.NewOptions(r)
	if err != nil {
		fail(w, r, backend.Classed(backend.ErrInvalid, err))
		return
	}
	pod, container := podRef(r), r.PathValue("container")
	if err := s.cfg.Engine.CanAttach(pod, container); err != nil {
		s.refuse(w, r, err)
		return
	}
	s.takeOver(w, r, statusTimeout, func(w http.ResponseWriter, r *http.Request) {
		x := s.audit(r)
		defer x.end()
		remotecommand.ServeAttach(w, r, attacher{s.cfg.Engine, pod, opts, x}, pod.Name, string(pod.UID), container,
			opts, s.cfg.StreamIdleTimeout, streamCreationTimeout, remotecommand.SupportedStreamingProtocols)
	})
}

// attacher serves the streams of one request.
type attacher struct {
	engine Engine
	pod    backend.Ref
	opts   *remotecommand.Options
	audit  *session
}

// AttachContainer attaches until the container, its output or the context ends.
func (a attacher) AttachContainer(ctx context.Context, _, _, container string,
	in io.Reader, out, errOut io.WriteCloser, _ bool, resize <-chan remotecommand.TerminalSize,
) error {
	s := streamsOf(ctx, a.opts, in, out, errOut, resize)
	defer s.end()
	err := a.engine.Attach(ctx, a.pod, container, backend.AttachSpec{
		Stdin: s.stdin, Stdout: s.stdout, Stderr: s.stderr, TTY: a.opts.TTY, Resize: s.sizes,
	})
	a.audit.result(ctx, err)
	return err
}
