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

	"github.com/burstlet/burstlet/backend"
)

// hijack answers that the connection changes its protocol and takes it over.
func hijack(w http.ResponseWriter) (net.Conn, io.Reader, error) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", upgradeName)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, buf.Reader, nil
}

// serveExec runs a command whose streams are frames.
func serveExec(w http.ResponseWriter, r *http.Request, b backend.Backend) {
	var in execRequest
	if !read(w, r, &in) {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	conn, buf, err := hijack(w)
	if err != nil {
		return // the client has gone
	}
	closeConn := sync.OnceFunc(func() { _ = conn.Close() })
	defer closeConn()
	// A server that ends must not wait for a client that does not read.
	defer context.AfterFunc(ctx, closeConn)()

	f := &frames{conn: conn, in: buf}
	stdin := &wantedInput{frames: f, parts: make(chan inputPart, 1), gone: ctx.Done()}
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		defer cancel()
		stdin.receive()
	}()
	result := runExec(ctx, b.Exec, in, f, stdin)
	if data, err := json.Marshal(result); err == nil {
		_ = f.write(frameDone, data) // a client that has gone needs no answer
	}
	closeConn()
	<-reading
}

func runExec(ctx context.Context, exec backend.Exec, in execRequest, f *frames, stdin io.Reader) execResult {
	spec := backend.ExecSpec{Command: in.Command}
	if in.Stdin {
		spec.Stdin = stdin
	}
	if in.Stdout {
		spec.Stdout = output{f, frameStdout}
	}
	if in.Stderr {
		spec.Stderr = output{f, frameStderr}
	}
	code, err := exec.Exec(ctx, in.Ref, spec)
	result := execResult{Code: code}
	if err != nil {
		wire := newWireError(ending(ctx, err))
		wire.Text = clip(wire.Text)
		result.Err = &wire
	}
	return result
}

// inputPart is a part of the input, or how it ended.
type inputPart struct {
	data []byte
	err  error
}

// wantedInput is the command's standard input. It asks the client for each part.
type wantedInput struct {
	frames *frames
	parts  chan inputPart
	gone   <-chan struct{}

	rest []byte
	err  error
}

// Read returns a part of the input, as the client has it.
func (s *wantedInput) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		if len(p) == 0 {
			return 0, nil
		}
		if s.err = s.frames.write(frameWant, nil); s.err != nil {
			return 0, s.err
		}
		select {
		case part := <-s.parts:
			s.rest, s.err = part.data, part.err
		case <-s.gone:
			s.err = io.ErrUnexpectedEOF
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// receive hands on what the client sends, until it has gone.
func (s *wantedInput) receive() {
	for {
		kind, data, err := s.frames.read()
		if err != nil {
			return
		}
		part := inputPart{data: data}
		if kind == frameStdinEnd {
			part = inputPart{err: io.EOF}
			if len(data) > 0 {
				part.err = errors.New(string(data))
			}
		}
		select {
		case s.parts <- part:
		case <-s.gone:
			return
		}
	}
}

// serveDial connects, and hands on bytes until both sides have ended.
func serveDial(w http.ResponseWriter, r *http.Request, b backend.Backend) {
	var in dialRequest
	if !read(w, r, &in) {
		return
	}
	remote, err := b.Dial.Dial(r.Context(), in.Pod, in.Address)
	if err != nil {
		fail(w, ending(r.Context(), err))
		return
	}
	closeRemote := sync.OnceFunc(func() { _ = remote.Close() })
	defer closeRemote()
	conn, buf, err := hijack(w)
	if err != nil {
		return // the client has gone
	}
	closeConn := sync.OnceFunc(func() { _ = conn.Close() })
	defer closeConn()
	defer context.AfterFunc(r.Context(), func() { closeConn(); closeRemote() })()
	join(conn, buf, remote, closeRemote)
}

// closeWrite ends what the client reads.
func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = conn.Close()
}

// join copies both ways. A client that ends has closed its connection, so the
// remote's is closed too; a remote that ends may still be written to. How a
// direction broke shows at the other side as its end: bytes carry no errors.
func join(conn net.Conn, buf io.Reader, remote net.Conn, closeRemote func()) {
	down := make(chan struct{})
	go func() {
		defer close(down)
		_, _ = io.Copy(conn, remote)
		closeWrite(conn)
	}()
	_, _ = io.Copy(remote, buf)
	closeRemote()
	<-down
}
