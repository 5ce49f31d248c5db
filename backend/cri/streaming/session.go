package streaming

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// copyBuffer is how much is copied at once.
const copyBuffer = 32 << 10

// Needs says which streams are opened for a spec; the runtime has to be asked for the
// same. There always is a standard output: its end is that of the session.
func Needs(spec backend.AttachSpec) (stdin, stdout, stderr bool) {
	return spec.Stdin != nil, true, spec.Stderr != nil && !spec.TTY
}

// Exec runs the command of a URL that CRI's Exec returned, with the streams of spec,
// and returns its exit code. Output has been written when it returns; a Read of Stdin
// may go on. When the context ends, all streams are closed, which ends the command
// where the runtime makes it so. Errors: the context's; Unavailable when the runtime
// cannot be reached or broke off; that of writing output; an [Error] for a command
// that it did not run.
func Exec(ctx context.Context, dial host.Dialer, url string, spec backend.ExecSpec) (code int32, err error) {
	return run(ctx, dial, url, backend.AttachSpec{
		Stdin: spec.Stdin, Stdout: spec.Stdout, Stderr: spec.Stderr, TTY: spec.TTY, Resize: spec.Resize,
	})
}

// Attach joins the streams of spec to those of a URL that CRI's Attach returned,
// until the container or its output ends. It is as Exec in all else.
func Attach(ctx context.Context, dial host.Dialer, url string, spec backend.AttachSpec) error {
	_, err := run(ctx, dial, url, spec)
	return err
}

// session has the streams by what they carry; nil is none.
type session struct {
	*streams
	status, stdin, stdout, stderr, resize httpstream.Stream
}

func run(ctx context.Context, dial host.Dialer, url string, spec backend.AttachSpec) (int32, error) {
	s, err := begin(ctx, dial, url, spec)
	if err != nil {
		return 0, err
	}
	defer context.AfterFunc(ctx, func() { _ = s.link.Close() })()
	status, err := s.copyAll(ctx, spec)
	if err != nil {
		return 0, err
	}
	code, err := readStatus(status)
	if err != nil && ctx.Err() != nil {
		return 0, ctx.Err() //nolint:wrapcheck // the caller knows what was going on
	}
	return code, err
}

func begin(ctx context.Context, dial host.Dialer, url string, spec backend.AttachSpec) (*session, error) {
	s := &session{}
	var headers []http.Header
	var to []*httpstream.Stream
	add := func(wanted bool, kind string, stream *httpstream.Stream) {
		if wanted {
			headers, to = append(headers, http.Header{http.CanonicalHeaderKey(corev1.StreamType): {kind}}), append(to, stream)
		}
	}
	stdin, stdout, stderr := Needs(spec)
	add(true, corev1.StreamTypeError, &s.status)
	add(stdin, corev1.StreamTypeStdin, &s.stdin)
	add(stdout, corev1.StreamTypeStdout, &s.stdout)
	add(stderr, corev1.StreamTypeStderr, &s.stderr)
	add(spec.TTY, corev1.StreamTypeResize, &s.resize)
	opened, err := open(ctx, dial, url, remotecommand.StreamProtocolV4Name, headers...)
	if err != nil {
		return nil, err
	}
	s.streams = opened
	for i, stream := range opened.each {
		*to[i] = stream
	}
	return s, nil
}

// copyAll copies until the output and the status have ended, and returns the status.
func (s *session) copyAll(ctx context.Context, spec backend.AttachSpec) (status []byte, err error) {
	over := make(chan struct{})
	var resizing sync.WaitGroup
	if spec.Stdin != nil {
		// It may outlive the call in a Read of the caller's, as os/exec's does.
		go sendInput(s.stdin, spec.Stdin)
	}
	if spec.TTY && spec.Resize != nil {
		resizing.Go(func() { sendSizes(s.resize, spec.Resize, over) })
	}
	var g errgroup.Group
	g.Go(func() error { return s.output(ctx, spec.Stdout, s.stdout) })
	if s.stderr != nil {
		g.Go(func() error { return s.output(ctx, spec.Stderr, s.stderr) })
	}
	g.Go(func() error {
		// A stream's only error is its end.
		status, _ = io.ReadAll(io.LimitReader(s.status, maxStatus))
		return nil
	})
	err = g.Wait()
	close(over)
	s.end()
	resizing.Wait()
	return status, err
}

// output copies what comes to w, and ends the session when that takes no more. What
// comes after the end of the context is dropped: nobody waits for it.
func (s *session) output(ctx context.Context, w io.Writer, stream io.Reader) error {
	if w == nil {
		w = io.Discard
	}
	buf := make([]byte, copyBuffer)
	var failed error
	for {
		n, err := stream.Read(buf)
		if n > 0 && failed == nil && ctx.Err() == nil {
			if _, werr := w.Write(buf[:n]); werr != nil {
				failed = fmt.Errorf("pass on output: %w", werr)
				_ = s.link.Close()
			}
		}
		if errors.Is(err, io.EOF) {
			return failed
		}
	}
}

// sendInput copies the input and its end. An input that fails has ended, too: the
// protocol has no word for it. A connection that broke shows where output is read.
func sendInput(stream io.WriteCloser, input io.Reader) {
	defer func() { _ = stream.Close() }()
	buf := make([]byte, copyBuffer)
	for {
		n, err := input.Read(buf)
		if n > 0 {
			if _, werr := stream.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// sendSizes passes on sizes until their end or that of the session.
func sendSizes(stream io.Writer, sizes <-chan backend.TerminalSize, over <-chan struct{}) {
	to := json.NewEncoder(stream)
	for {
		select {
		case size, more := <-sizes:
			if !more || to.Encode(size) != nil {
				return // a connection that broke shows where output is read
			}
		case <-over:
			return
		}
	}
}
