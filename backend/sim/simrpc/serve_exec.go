package simrpc

import (
	"bufio"
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
func hijack(w http.ResponseWriter) (net.Conn, *bufio.Reader, error) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	_, err = fmt.Fprintf(
		conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", upgradeName,
	)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, buf.Reader, nil
}

// raw reads a hijacked connection. Past what is buffered the HTTP server must not
// see the end of the input: it would end the call's context, while what was sent
// before is still on its way.
func raw(conn net.Conn, buf *bufio.Reader) io.Reader {
	return io.MultiReader(io.LimitReader(buf, int64(buf.Buffered())), conn)
}

// serveExec runs a command whose streams are frames.
func serveExec(w http.ResponseWriter, r *http.Request, b backend.Backend) {
	var in execRequest
	if !read(w, r, &in) {
		return
	}
	serveStreams(w, r, in.Streams, func(ctx context.Context, s backend.AttachSpec) (int32, error) {
		return b.Exec.Exec(ctx, in.Ref, backend.ExecSpec{
			Command: in.Command, Live: in.Live, Timeout: in.Timeout,
			Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr, TTY: s.TTY, Resize: s.Resize,
		})
	})
}

// serveAttach attaches streams that are frames.
func serveAttach(w http.ResponseWriter, r *http.Request, b backend.Backend) {
	var in attachRequest
	if !read(w, r, &in) {
		return
	}
	serveStreams(w, r, in.Streams, func(ctx context.Context, s backend.AttachSpec) (int32, error) {
		return 0, b.Attach.Attach(ctx, in.Ref, s)
	})
}

// serveStreams makes a call whose streams are frames. It ends with the client.
func serveStreams(
	w http.ResponseWriter, r *http.Request, flags streamFlags,
	call func(context.Context, backend.AttachSpec) (int32, error),
) {
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
	in := &incoming{
		wantedInput: wantedInput{frames: f, parts: make(chan inputPart, 1), gone: ctx.Done()},
		sizes:       make(chan backend.TerminalSize, 1),
	}
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		defer cancel()
		in.receive()
	}()
	code, err := call(ctx, in.streams(flags))
	result := streamsResult{Code: code}
	if err != nil {
		wire := newWireError(ending(ctx, err))
		wire.Text = clip(wire.Text)
		result.Err = &wire
	}
	if data, err := json.Marshal(result); err == nil {
		_ = f.write(frameDone, data) // a client that has gone needs no answer
	}
	closeConn()
	<-reading
}

// incoming is what a client sends during a call with streams.
type incoming struct {
	wantedInput
	sizes      chan backend.TerminalSize
	sizesEnded bool
}

// streams are those of the call that the client has.
func (in *incoming) streams(flags streamFlags) backend.AttachSpec {
	s := backend.AttachSpec{TTY: flags.TTY}
	if flags.Stdin {
		s.Stdin = &in.wantedInput
	}
	if flags.Stdout {
		s.Stdout = output{in.frames, frameStdout}
	}
	if flags.Stderr {
		s.Stderr = output{in.frames, frameStderr}
	}
	if flags.Resize {
		s.Resize = in.sizes
	}
	return s
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
func (in *incoming) receive() {
	defer in.endSizes()
	for {
		kind, data, err := in.frames.read()
		if err != nil {
			return
		}
		if kind == frameResize {
			in.resize(data)
			continue
		}
		part := inputPart{data: data}
		if kind == frameStdinEnd {
			part = inputPart{err: io.EOF}
			if len(data) > 0 {
				part.err = errors.New(string(data))
			}
		}
		select {
		case in.parts <- part:
		case <-in.gone:
			return
		}
	}
}

// resize hands on a size. One that nobody has taken yet is replaced: only the
// latest matters.
func (in *incoming) resize(data []byte) {
	size, ok := readSizeFrame(data)
	if !ok || in.sizesEnded {
		in.endSizes()
		return
	}
	select {
	case <-in.sizes:
	default:
	}
	in.sizes <- size // there is room: nobody else sends
}

func (in *incoming) endSizes() {
	if !in.sizesEnded {
		in.sizesEnded = true
		close(in.sizes)
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
	join(conn, raw(conn, buf), remote, closeRemote)
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
