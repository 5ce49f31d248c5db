package simrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/intercept"
)

// ended is how a streamed body came to its end: nil only when the server says
// that all is there.
func (s *stream) ended(ctx context.Context, call intercept.Name, err error) error {
	if ctx.Err() != nil || !errors.Is(err, io.EOF) {
		return lost(ctx, string(call), err)
	}
	trailer := s.resp.Trailer.Get(errorTrailer)
	if trailer == "" {
		return nil
	}
	wire, err := readHeader(trailer)
	if err != nil {
		return backend.Errorf(backend.ErrUnavailable, "%s: read error: %w", call, err)
	}
	return wire.err()
}

type eventsClient struct{ c *client }

// Run sends hints until the context ends or the stream breaks.
func (e eventsClient) Run(ctx context.Context, hints chan<- types.UID) error {
	s, err := e.c.stream(ctx, intercept.EventsRun, none{}, http.StatusOK)
	if err != nil {
		return err
	}
	defer s.close()
	dec := json.NewDecoder(s.resp.Body)
	for {
		var uid types.UID
		if err := dec.Decode(&uid); err != nil {
			return s.ended(ctx, intercept.EventsRun, err)
		}
		select {
		case hints <- uid:
		case <-ctx.Done():
			return lost(ctx, string(intercept.EventsRun), ctx.Err())
		}
	}
}

type logsClient struct{ c *client }

// Open streams a container's log.
func (l logsClient) Open(
	ctx context.Context, ref backend.ContainerRef, opts backend.LogOptions,
) (io.ReadCloser, error) {
	s, err := l.c.stream(ctx, intercept.LogsOpen, logsRequest{ref, opts}, http.StatusOK)
	if err != nil {
		return nil, err
	}
	failed := func(err error) error { return s.ended(ctx, intercept.LogsOpen, err) }
	return &logStream{stream: s, failed: failed}, nil
}

// logStream is a log on its way.
type logStream struct {
	stream *stream
	failed func(error) error

	mu     sync.Mutex
	closed bool
}

// Read returns the next part; io.EOF only at the true end.
func (l *logStream) Read(p []byte) (int, error) {
	n, err := l.stream.resp.Body.Read(p)
	if err == nil {
		return n, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return n, io.ErrClosedPipe
	}
	if err := l.failed(err); err != nil {
		return n, err
	}
	return n, io.EOF
}

// Close ends the stream and a Read that waits.
func (l *logStream) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.stream.close()
	return nil
}

type dialClient struct{ c *client }

// Dial connects as the remote does. The end of the context is an error of the
// connection, a timeout for example: the remote may have been asked.
func (d dialClient) Dial(ctx context.Context, pod backend.Ref, address string) (net.Conn, error) {
	s, err := d.c.stream(ctx, intercept.DialDial, dialRequest{pod, address}, http.StatusSwitchingProtocols)
	if err == nil && !s.stop() {
		_ = s.conn.Close()
		err = ctx.Err()
	}
	if err == nil {
		return dialled{s.conn, s.in}, nil
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("dial %s: %w", address, ctx.Err())
	}
	return nil, err
}

// dialled hides what else the socket can do: ending one direction alone would
// end the connection.
type dialled struct {
	net.Conn
	in io.Reader
}

// Read begins with what came along with the answer's head.
func (d dialled) Read(p []byte) (int, error) { return d.in.Read(p) }

type execClient struct{ c *client }

// Exec runs a command, handing its streams on.
func (e execClient) Exec(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
	streams := backend.AttachSpec{
		Stdin: spec.Stdin, Stdout: spec.Stdout, Stderr: spec.Stderr, TTY: spec.TTY, Resize: spec.Resize,
	}
	return e.c.join(
		ctx, intercept.ExecExec, execRequest{ref, spec.Command, spec.Live, spec.Timeout, flagsOf(streams)}, streams,
	)
}

type attachClient struct{ c *client }

// Attach joins streams to a container.
func (a attachClient) Attach(ctx context.Context, ref backend.ContainerRef, spec backend.AttachSpec) error {
	_, err := a.c.join(ctx, intercept.AttachAttach, attachRequest{ref, flagsOf(spec)}, spec)
	return err
}

// join makes a call whose streams are frames.
func (c *client) join(ctx context.Context, call intercept.Name, in any, spec backend.AttachSpec) (int32, error) {
	s, err := c.stream(ctx, call, in, http.StatusSwitchingProtocols)
	if err == nil {
		var sizes sync.WaitGroup
		defer sizes.Wait() // once the connection is closed, nothing holds it up
		defer s.close()
		var code int32
		if code, err = relay(call, &frames{conn: s.conn, in: s.in}, spec, &sizes); err == nil {
			return code, nil
		}
	}
	if ctx.Err() != nil {
		return 0, fmt.Errorf("%s: %w", call, ctx.Err())
	}
	return 0, err
}

// relay hands frames on until the call has ended. What sends the terminal's sizes ends
// soon after it: sizes waits for that.
func relay(call intercept.Name, f *frames, spec backend.AttachSpec, sizes *sync.WaitGroup) (int32, error) {
	wanted, over := make(chan struct{}, 1), make(chan struct{})
	defer close(wanted)
	defer close(over)
	if spec.Stdin != nil {
		// It may outlive the call in a Read of the caller's, as os/exec's does.
		go feed(f, spec.Stdin, wanted)
	}
	if spec.Resize != nil {
		sizes.Go(func() { sendSizes(f, spec.Resize, over) })
	}
	for {
		kind, data, err := f.read()
		if err != nil {
			return 0, backend.Errorf(backend.ErrUnavailable, "%s: the server closed the connection: %w", call, err)
		}
		switch kind {
		case frameStdout:
			_, err = spec.Stdout.Write(data)
		case frameStderr:
			_, err = spec.Stderr.Write(data)
		case frameWant:
			wanted <- struct{}{}
		case frameDone:
			return done(call, data)
		}
		if err != nil {
			return 0, fmt.Errorf("%s: write output: %w", call, err)
		}
	}
}

func done(call intercept.Name, data []byte) (int32, error) {
	var result streamsResult
	if err := json.Unmarshal(data, &result); err != nil {
		return 0, backend.Errorf(backend.ErrUnavailable, "%s: read result: %w", call, err)
	}
	if result.Err != nil {
		return result.Code, result.Err.err()
	}
	return result.Code, nil
}

// sendSizes hands on sizes until their end, or that of the call.
func sendSizes(f *frames, sizes <-chan backend.TerminalSize, over <-chan struct{}) {
	for {
		select {
		case size, more := <-sizes:
			var data []byte
			if more {
				data = sizeFrame(size)
			}
			if f.write(frameResize, data) != nil || !more {
				return // a connection that broke ends the call where it is read
			}
		case <-over:
			return
		}
	}
}

// feed sends a part of the input, or its end, each time it is wanted. A
// connection that broke ends the call where its frames are read.
func feed(f *frames, stdin io.Reader, wanted <-chan struct{}) {
	buf := make([]byte, maxFrame)
	var end error
	for range wanted {
		kind, data := frameStdinEnd, []byte(nil)
		if end == nil {
			var n int
			n, end = readSome(stdin, buf)
			if n > 0 {
				kind, data = frameStdin, buf[:n]
			}
		}
		if kind == frameStdinEnd && !errors.Is(end, io.EOF) {
			data = []byte(clip(end.Error()))
		}
		if f.write(kind, data) != nil {
			return
		}
	}
}

// readSome reads at least a byte or an error.
func readSome(from io.Reader, buf []byte) (int, error) {
	for {
		if n, err := from.Read(buf); n > 0 || err != nil {
			return n, err
		}
	}
}
