package helper

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/burstlet/burstlet/backend/class"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// Log implements [host.Host]. The stream ends with ctx.
func (c *Client) Log(ctx context.Context, r host.LogRequest) (io.ReadCloser, error) {
	args, err := json.Marshal(logArgs{
		Path: r.Path, Follow: r.Follow, Timestamps: r.Timestamps,
		Tail: r.Tail, LimitBytes: r.LimitBytes, Since: r.Since,
	})
	if err != nil {
		return nil, fmt.Errorf("host operation %s: encode arguments: %w", opLog, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var body io.Reader = bytes.NewReader(args)
	if r.Follow {
		// net/http looks at the context when it has read the body.
		request := newLogRequest(args, r.Ended)
		context.AfterFunc(ctx, request.end)
		body = request
	}
	return c.stream(ctx, cancel, opLog, body)
}

// SystemLog implements [host.Host]. The stream ends with ctx.
func (c *Client) SystemLog(ctx context.Context, r host.SystemLogRequest) (io.ReadCloser, error) {
	args, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("host operation %s: encode arguments: %w", opSystem, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	return c.stream(ctx, cancel, opSystem, bytes.NewReader(args))
}

// stream does an operation whose reply is a log. cancel ends ctx.
func (c *Client) stream(
	ctx context.Context, cancel context.CancelFunc, op string, body io.Reader,
) (io.ReadCloser, error) {
	resp, err := c.roundTrip(ctx, op, body) //nolint:bodyclose // The stream closes it.
	if err != nil {
		cancel()
		return nil, err
	}
	failed := func(err error) error { return c.failed(ctx, op, err) }
	return &logStream{cancel: cancel, failed: failed, resp: resp}, nil
}

// logRequest is the body of a request to follow a log: its arguments, and an end
// when the container has ended.
type logRequest struct {
	args   *bytes.Reader
	ended  <-chan struct{}
	once   sync.Once
	closed chan struct{}
}

func newLogRequest(args []byte, ended <-chan struct{}) *logRequest {
	return &logRequest{args: bytes.NewReader(args), ended: ended, closed: make(chan struct{})}
}

func (r *logRequest) Read(p []byte) (int, error) {
	if r.args.Len() > 0 {
		return r.args.Read(p)
	}
	select {
	case <-r.ended:
		return 0, io.EOF
	case <-r.closed:
		return 0, net.ErrClosed
	}
}

func (r *logRequest) end() { r.once.Do(func() { close(r.closed) }) }

func (r *logRequest) Close() error {
	r.end()
	return nil
}

// logStream is the body of a log's response.
type logStream struct {
	cancel context.CancelFunc
	// failed is the error of a stream that broke or whose context ended.
	failed func(error) error
	resp   *http.Response
}

// Read returns the error with which the log ended on the host.
func (s *logStream) Read(p []byte) (int, error) {
	n, err := s.resp.Body.Read(p)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		return n, s.end()
	default:
		return n, s.failed(err)
	}
}

// end is io.EOF unless the trailer has an error.
func (s *logStream) end() error {
	encoded := s.resp.Trailer.Get(errorTrailer)
	if encoded == "" {
		return io.EOF
	}
	text, err := base64.StdEncoding.DecodeString(encoded)
	var w wireError
	if err != nil || decode(text, &w) != nil {
		return class.Errorf(class.ErrUnavailable, "host operation %s: the log ended with an error that cannot be read", opLog)
	}
	return w.error()
}

// Close ends the stream on both sides.
func (s *logStream) Close() error {
	s.cancel()
	return s.resp.Body.Close()
}
