package kubeletapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/containerd/log"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/burstlet/burstlet/backend"
)

// exec runs a command in a container, its streams on the connection.
func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	opts, err := remotecommand.NewOptions(r)
	if err != nil {
		fail(w, r, backend.Classed(backend.ErrInvalid, err))
		return
	}
	command := r.URL.Query()["command"]
	if len(command) == 0 {
		fail(w, r, invalid("command", "a command to run is required"))
		return
	}
	pod, container := podRef(r), r.PathValue("container")
	if err := s.cfg.Engine.CanExec(pod, container); err != nil {
		s.refuse(w, r, err)
		return
	}
	s.takeOver(w, r, statusTimeout, func(w http.ResponseWriter, r *http.Request) {
		x := s.audit(r)
		defer x.end()
		remotecommand.ServeExec(w, r, executor{s.cfg.Engine, pod, opts, x}, pod.Name, string(pod.UID), container, command,
			opts, s.cfg.StreamIdleTimeout, streamCreationTimeout, remotecommand.SupportedStreamingProtocols)
	})
}

// executor runs the command of one request.
type executor struct {
	engine Engine
	pod    backend.Ref
	opts   *remotecommand.Options
	audit  *session
}

// ExecInContainer runs a command. An exit code other than 0 is an exitError, which
// travels as a Status of reason NonZeroExitCode.
func (e executor) ExecInContainer(ctx context.Context, _, _, container string, command []string,
	in io.Reader, out, errOut io.WriteCloser, _ bool, resize <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	s := streamsOf(ctx, e.opts, in, out, errOut, resize)
	defer s.end()
	code, err := e.engine.Exec(ctx, e.pod, container, backend.ExecSpec{
		Command: command, Stdin: s.stdin, Stdout: s.stdout, Stderr: s.stderr, Live: true, TTY: e.opts.TTY, Resize: s.sizes,
	})
	e.audit.exited(ctx, code, err)
	switch {
	case err != nil:
		return err
	case code != 0:
		return exitError(code)
	}
	return nil
}

// connStreams are those of a connection that were asked for.
type connStreams struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	sizes          <-chan backend.TerminalSize
	// end ends what passes sizes on, and waits for it.
	end func()
}

// streamsOf keeps of a connection's streams those that were asked for: WebSocket
// has the others too.
func streamsOf(ctx context.Context, opts *remotecommand.Options, in io.Reader, out, errOut io.Writer,
	resize <-chan remotecommand.TerminalSize,
) connStreams {
	s := connStreams{end: func() {}}
	if opts.Stdin {
		s.stdin = in
	}
	if opts.Stdout {
		s.stdout = out
	}
	if opts.Stderr {
		s.stderr = errOut
	}
	if opts.TTY && resize != nil {
		s.sizes, s.end = terminalSizes(ctx, resize)
	}
	return s
}

// terminalSizes passes sizes on until there are no more, the context ends, or end
// is called, which waits for that.
func terminalSizes(
	ctx context.Context, from <-chan remotecommand.TerminalSize,
) (sizes <-chan backend.TerminalSize, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	to := make(chan backend.TerminalSize)
	go func() {
		defer close(to)
		for {
			select {
			case size, ok := <-from:
				if !ok {
					return
				}
				select {
				case to <- backend.TerminalSize(size):
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return to, func() {
		cancel()
		for range to { // until it is closed
		}
	}
}

// exitError is an exit code in the form of k8s.io/utils/exec.ExitError.
type exitError int32

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int32(e)) }

// String is the text of the error.
func (e exitError) String() string { return e.Error() }

// Exited is true: the command ended by itself.
func (exitError) Exited() bool { return true }

// ExitStatus is the exit code.
func (e exitError) ExitStatus() int { return int(e) }

// maxRunOutput is what is kept of each stream of /run (CRI: ExecSync, 16 MB).
const maxRunOutput = 16 << 20

// run runs ?cmd=, split at spaces, and answers with its output: stdout, then
// stderr.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	text := r.FormValue("cmd")
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil { // the body has been read
		log.G(r.Context()).WithError(err).Debug("time for a command is bounded")
	}
	if text == "" {
		fail(w, r, invalid("cmd", "a command to run is required"))
		return
	}
	x := s.audit(r)
	defer x.end()
	stdout, stderr := backend.Beginning{Most: maxRunOutput}, backend.Beginning{Most: maxRunOutput}
	code, err := s.cfg.Engine.Exec(r.Context(), podRef(r), r.PathValue("container"), backend.ExecSpec{
		Command: strings.Split(text, " "), Stdout: &stdout, Stderr: &stderr,
	})
	x.exited(r.Context(), code, err)
	if err != nil {
		answerError(w, r, httpStatus(err), err) // which may repeat the command, so the log does not
		return
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	out, errOut := stdout.Bytes(), stderr.Bytes()
	if code != 0 {
		w.WriteHeader(http.StatusInternalServerError)
		out = fmt.Appendf(nil, "command '%s' exited with %d: ", text, code)
	}
	for _, part := range [][]byte{out, errOut} {
		if _, err := w.Write(part); err != nil {
			log.G(r.Context()).WithError(err).Debug("output of a command not sent")
			return
		}
	}
}
