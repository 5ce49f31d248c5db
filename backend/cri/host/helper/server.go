package helper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// Serve does a client's host operations with h until the stream or ctx ends: both
// end the operations under way, and Serve returns when they have returned. It
// closes rw.
// Errors: why the stream could not be served; nil when the client or ctx ended it.
func Serve(ctx context.Context, rw io.ReadWriteCloser, h host.Host) error {
	return serve(ctx, rw, h, version())
}

func serve(ctx context.Context, rw io.ReadWriteCloser, h host.Host, version string) error {
	// Operations end after the stream: what they return then is no reply.
	operating, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	c := newConn(rw, version, 0)
	s := &server{host: h, operations: operations()}
	protocols, http2 := settings(hostWindow)
	http2.SendPingTimeout, http2.PingTimeout = quiet, quiet
	web := &http.Server{
		Handler: s, Protocols: protocols, HTTP2: http2,
		BaseContext: func(net.Listener) context.Context { return operating },
	}
	stop := context.AfterFunc(ctx, func() {
		c.end(nil)
		cancel()
	})
	defer stop()
	err := web.Serve(newListener(c))
	// It has returned because the stream has ended: the listener lasts as long.
	cancel()
	s.calls.end()
	why := c.reason()
	switch {
	case why == nil && !errors.Is(err, net.ErrClosed):
		return errors.Join(fmt.Errorf("serve host operations: %w", err), c.Close())
	case why == nil, errors.Is(why, net.ErrClosed), errors.Is(why, io.EOF), errors.Is(why, io.ErrClosedPipe):
		return nil
	default:
		return fmt.Errorf("serve host operations: %w", why)
	}
}

type server struct {
	host       host.Host
	operations map[string]operation
	calls      calls
}

// calls counts operations under way.
type calls struct {
	mu    sync.Mutex
	ended bool
	group sync.WaitGroup
}

// begin is false when there must be no more.
func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.group.Add(1)
	return true
}

// end waits for those under way and lets none begin.
func (c *calls) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.group.Wait()
}

// ServeHTTP does one operation.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.calls.begin() {
		return
	}
	defer s.calls.group.Done()
	if value := r.Header.Get(leaderHeader); value != "" {
		l, err := decodeLeader(value)
		if err != nil {
			writeError(w, err)
			return
		}
		r = r.WithContext(host.WithLeader(r.Context(), l))
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	switch name {
	case opLog:
		s.serveLog(w, r)
		return
	case opSystem:
		s.serveSystemLog(w, r)
		return
	}
	out, err := s.do(r, name)
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(out)))
	// A client that has gone does not need its reply.
	_, _ = w.Write(out)
}

// do returns the encoded reply.
func (s *server) do(r *http.Request, name string) (out []byte, err error) {
	op, ok := s.operations[name]
	if !ok {
		return nil, fmt.Errorf("unknown host operation %q", name)
	}
	args, err := readBody(r.Body, r.ContentLength, maxMessage)
	if err != nil {
		return nil, fmt.Errorf("read arguments: %w", err)
	}
	defer recovered(name, &err)
	return json.Marshal(op.do(r.Context(), s.host, args))
}

// readBody reads a message of at most that many bytes, and of a size that may be said
// before. Memory is taken for what comes, not for what is said.
func readBody(r io.Reader, size, most int64) ([]byte, error) {
	if size > most {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", errMalformed, size, most)
	}
	out := bytes.NewBuffer(make([]byte, 0, max(0, min(size, readAtOnce))+bytes.MinRead))
	_, err := out.ReadFrom(io.LimitReader(r, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(out.Len()) > most:
		return nil, fmt.Errorf("%w: more than %d bytes", errMalformed, most)
	case size >= 0 && int64(out.Len()) != size:
		return nil, io.ErrUnexpectedEOF
	}
	return out.Bytes(), nil
}

// recovered makes a panic of an operation its error, with its place. The value is
// told only if it is the Go runtime's: others may hold what is secret.
func recovered(name string, err *error) {
	value := recover()
	if value == nil {
		return
	}
	what := fmt.Sprintf("%T", value)
	if fault, ok := value.(runtime.Error); ok {
		what = fault.Error()
	}
	*err = fmt.Errorf("host operation %s panicked: %s at %s", name, what, panicPlace())
}

// panicPlace is the function and line that panicked.
func panicPlace() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	panicked := false
	for {
		frame, more := frames.Next()
		inRuntime := strings.HasPrefix(frame.Function, "runtime.")
		if panicked && !inRuntime {
			return fmt.Sprintf("%s:%d", frame.Function, frame.Line)
		}
		panicked = panicked || frame.Function == "runtime.gopanic"
		if !more {
			return "an unknown place"
		}
	}
}

// writeError answers with an error and no result.
func writeError(w http.ResponseWriter, err error) {
	body, encodeErr := json.Marshal(toWire(err))
	if encodeErr != nil {
		http.Error(w, "error without a form", http.StatusInternalServerError)
		return
	}
	w.Header().Set(errorHeader, "1")
	w.WriteHeader(http.StatusInternalServerError)
	// As above: nobody may be there to read it.
	_, _ = w.Write(body)
}
