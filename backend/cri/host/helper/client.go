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

	"github.com/burstlet/burstlet/backend/class"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// Client is the host at the other end of a stream. Its methods may be called at
// once.
type Client struct {
	conn *conn
	// ready is closed when http, or the reason why there is none, is set.
	ready chan struct{}
	http  *http.ClientConn
	err   error
}

var _ host.Host = (*Client)(nil)

// NewClient talks to a [Serve] at the other end of rw, and owns rw from now on.
// Whether it is there shows with the first operation, or at Done.
func NewClient(rw io.ReadWriteCloser) *Client { return newClient(rw, version()) }

func newClient(rw io.ReadWriteCloser, version string) *Client {
	c := &Client{conn: newConn(rw, version, maxNoise), ready: make(chan struct{})}
	go c.connect()
	return c
}

// connect begins HTTP/2, which writes: it ends with the stream.
func (c *Client) connect() {
	defer close(c.ready)
	protocols, http2 := settings(clientWindow)
	transport := &http.Transport{
		Protocols: protocols, HTTP2: http2, DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return c.conn, nil },
	}
	//nolint:forbidigo // The connection belongs to no call; Close ends it.
	ctx := context.Background()
	if c.http, c.err = transport.NewClientConn(ctx, "http", "helper:80"); c.err != nil {
		c.conn.end(c.err)
	}
}

// Done is closed when the stream has ended, from whichever side: every call fails
// from then on.
func (c *Client) Done() <-chan struct{} { return c.conn.done }

// Close ends the stream and the calls under way.
func (c *Client) Close() error {
	err := c.conn.Close()
	<-c.ready
	if c.err == nil {
		err = errors.Join(err, c.http.Close())
	}
	return err
}

// roundTrip sends one request. The caller closes the response's body.
func (c *Client) roundTrip(ctx context.Context, op string, body io.Reader) (*http.Response, error) {
	select {
	case <-c.ready:
	case <-ctx.Done():
		return nil, c.failed(ctx, op, ctx.Err())
	}
	if c.err != nil {
		return nil, c.failed(ctx, op, c.err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://helper/"+op, body)
	if err != nil {
		return nil, fmt.Errorf("host operation %s: %w", op, err)
	}
	// Neither compression nor a name is asked for.
	r.Header["User-Agent"] = nil
	if l := host.LeaderOf(ctx); l.Holder != "" {
		value, err := encodeLeader(l)
		if err != nil {
			return nil, fmt.Errorf("host operation %s: %w", op, err)
		}
		r.Header.Set(leaderHeader, value)
	}
	resp, err := c.http.RoundTrip(r)
	if err != nil {
		return nil, c.failed(ctx, op, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	return nil, errors.Join(c.refused(ctx, op, resp), resp.Body.Close())
}

// refused is the error of a response that is one.
func (c *Client) refused(ctx context.Context, op string, resp *http.Response) error {
	text, err := readBody(resp.Body, resp.ContentLength, maxReply)
	if err != nil {
		return c.failed(ctx, op, err)
	}
	var w wireError
	if resp.Header.Get(errorHeader) == "" || decode(text, &w) != nil {
		return class.Errorf(class.ErrUnavailable, "host operation %s: the helper answered %s", op, resp.Status)
	}
	return w.error()
}

// failed is the error of a call whose reply did not come: the context's, or that
// of the stream.
func (c *Client) failed(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("host operation %s: %w", op, context.Cause(ctx))
	}
	switch why := c.conn.reason(); {
	case errors.Is(why, io.EOF):
		err = errEnded
	case why != nil:
		err = why
	}
	return class.Errorf(class.ErrUnavailable, "host operation %s: %w", op, err)
}

// call does an operation that has one reply, of at most that many bytes.
func call[R any](ctx context.Context, c *Client, op string, args any, most int64) (result R, err error) {
	body, err := json.Marshal(args)
	if err != nil {
		return result, fmt.Errorf("host operation %s: encode arguments: %w", op, err)
	}
	resp, err := c.roundTrip(ctx, op, bytes.NewReader(body))
	if err != nil {
		return result, err
	}
	text, err := readBody(resp.Body, resp.ContentLength, most)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return result, c.failed(ctx, op, err)
	}
	var out reply[R]
	if err := decode(text, &out); err != nil {
		return result, class.Errorf(class.ErrUnavailable, "host operation %s: %w", op, err)
	}
	return out.Result, out.Error.error()
}
