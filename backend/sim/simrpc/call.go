package simrpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/intercept"
)

// invoke makes a call of one request and one reply.
func (c *client) invoke(ctx context.Context, name intercept.Name, in, out any) error {
	call := string(name)
	if err := c.ready(call); err != nil {
		return err
	}
	w, err := c.warrant(ctx, name)
	if err != nil {
		return err
	}
	return c.post(ctx, call, callPath(name), w, in, out)
}

// post makes a request that has one reply.
func (c *client) post(ctx context.Context, call, path string, w warrant, in, out any) error {
	req, err := c.request(ctx, path, w, in)
	if err != nil {
		return err
	}
	w.hold(req)
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return lost(ctx, call, err)
	}
	defer resp.Body.Close() //nolint:errcheck // what it says has been read
	if resp.StatusCode != http.StatusOK {
		return failure(ctx, call, resp)
	}
	var data bytes.Buffer
	data.Grow(int(max(0, resp.ContentLength)) + bytes.MinRead)
	if _, err := data.ReadFrom(resp.Body); err != nil {
		return lost(ctx, call, err)
	}
	if list, ok := out.(encoding.BinaryUnmarshaler); ok {
		err = list.UnmarshalBinary(data.Bytes())
	} else {
		err = json.Unmarshal(data.Bytes(), out)
	}
	if err != nil {
		return backend.Errorf(backend.ErrUnavailable, "%s: read reply: %w", call, err)
	}
	return nil
}

// request makes the POST of a call. net/http sends it again only where nothing of it was
// written: a POST may have had its effect.
func (c *client) request(ctx context.Context, path string, w warrant, in any) (*http.Request, error) {
	data, err := json.Marshal(in)
	if err != nil {
		return nil, backend.Errorf(backend.ErrInvalid, "%s: encode request: %w", path, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sim"+path, bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: make request: %w", path, err)
	}
	req.Header.Set("Content-Type", typeJSON)
	req.Header.Set(nodeHeader, url.QueryEscape(c.cfg.Node))
	if w.leader != "" {
		req.Header.Set(leaderHeader, url.QueryEscape(w.leader))
	}
	return req, nil
}

// failure is the error of the call, or that of a server that is none of ours.
func failure(ctx context.Context, call string, resp *http.Response) error {
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return lost(ctx, call, err)
	}
	if resp.StatusCode != statusCallFailed {
		return backend.Errorf(
			backend.ErrUnavailable, "%s: the server answers %s %q", call, resp.Status, bytes.TrimSpace(data),
		)
	}
	var wire wireError
	if err := json.Unmarshal(data, &wire); err != nil {
		return backend.Errorf(backend.ErrUnavailable, "%s: read error: %w", call, err)
	}
	return wire.err()
}

// lost is the error of a call whose connection broke: nobody knows whether it
// had its effect. A context that ended is the reason for all that follows. One that was
// refused before it was sent keeps its error.
func lost(ctx context.Context, call string, err error) error {
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return refused.error
	case ctx.Err() != nil:
		return backend.Errorf(backend.ErrUnavailable, "%s: %w", call, ctx.Err())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return backend.Errorf(backend.ErrUnavailable, "%s: the server closed the connection: %w", call, err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return backend.Errorf(backend.ErrUnavailable, "%s: %w (does burstlet sim run?)", call, err)
	}
	return backend.Errorf(backend.ErrUnavailable, "%s: %w", call, err)
}

// stream is a call with a connection of its own.
type stream struct {
	conn net.Conn
	in   *bufio.Reader // what the server sends
	resp *http.Response
	// stop undoes that the end of the context closes conn; false: too late.
	stop func() bool
	// end frees the context; nil where there is nothing to free.
	end context.CancelFunc
}

// close ends the call at both sides.
func (s *stream) close() {
	s.stop()
	_ = s.conn.Close()
	if s.end != nil {
		s.end()
	}
}

// open sends a request on a new connection and reads the head of the answer,
// which must have the status wanted. The end of the context closes the stream.
func (c *client) open(ctx context.Context, path string, w warrant, in any, want int) (*stream, error) {
	req, err := c.request(ctx, path, w, in)
	if err != nil {
		return nil, err
	}
	if want == http.StatusSwitchingProtocols {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", upgradeName)
	} else {
		req.Close = true
	}
	conn, err := c.cfg.dial(ctx)
	if err != nil {
		return nil, lost(ctx, path, err)
	}
	if err := w.permit(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	s := &stream{conn: conn, in: bufio.NewReader(conn)}
	s.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	if err = req.Write(conn); err == nil {
		s.resp, err = http.ReadResponse(s.in, req) //nolint:bodyclose // its end is that of conn
	}
	if err != nil {
		s.close()
		return nil, lost(ctx, path, err)
	}
	if s.resp.StatusCode != want {
		err = failure(ctx, path, s.resp)
		s.close()
		return nil, err
	}
	return s, nil
}

// stream opens a stream of a call.
func (c *client) stream(ctx context.Context, call intercept.Name, in any, want int) (*stream, error) {
	if err := c.ready(string(call)); err != nil {
		return nil, err
	}
	w, err := c.warrant(ctx, call)
	if err != nil {
		return nil, err
	}
	return c.open(ctx, callPath(call), w, in, want)
}
