package local

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host"
)

const (
	// maxCallMessage is the kubelet's limit for one CRI message, in bytes.
	maxCallMessage = 16 << 20
	// framePrefix is what gRPC puts before a message: whether it is compressed, and its
	// length (gRPC over HTTP/2, "Length-Prefixed-Message").
	framePrefix = 5
)

// calls are the calls of runtimes that are under way.
type calls struct {
	dial func(ctx context.Context, socket string) (net.Conn, error)
	mu   sync.Mutex
	// sockets has a client for each runtime that was called.
	sockets map[string]*http.Client
	open    sync.WaitGroup
}

// Call implements [host.Host].
func (h *Host) Call(ctx context.Context, c host.Call) ([]byte, error) {
	if c.Bound {
		return h.calls.client(c.Socket).unary(ctx, c)
	}
	if err := h.begin(ctx, c.Owner); err != nil {
		return nil, err
	}
	// It may have waited for those of a successor.
	if err := h.led(ctx); err != nil {
		h.finish(c.Owner)
		return nil, err
	}
	type result struct {
		reply []byte
		err   error
	}
	ended := make(chan result, 1)
	h.calls.open.Go(func() {
		defer h.finish(c.Owner)
		lasting := context.WithoutCancel(ctx)
		if c.Timeout > 0 {
			var cancel context.CancelFunc
			lasting, cancel = context.WithTimeout(lasting, c.Timeout)
			defer cancel()
		}
		reply, err := h.calls.client(c.Socket).unary(lasting, c)
		ended <- result{reply, err}
	})
	select {
	case r := <-ended:
		return r.reply, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("call %s: %w", c.Method, context.Cause(ctx))
	}
}

// AwaitCalls returns when no call is under way, whoever waits for its reply. None may
// begin meanwhile.
func (h *Host) AwaitCalls() { h.calls.open.Wait() }

// runtimeClient speaks gRPC without its library, which is larger than the host helper.
type runtimeClient struct{ *http.Client }

func (c *calls) client(socket string) runtimeClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.sockets[socket]; known != nil {
		return runtimeClient{known}
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	made := &http.Client{Transport: &http.Transport{
		Protocols: protocols, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx, socket) },
	}}
	if c.sockets == nil {
		c.sockets = map[string]*http.Client{}
	}
	c.sockets[socket] = made
	return runtimeClient{made}
}

// unary makes one call.
func (r runtimeClient) unary(ctx context.Context, c host.Call) ([]byte, error) {
	if len(c.Request) > maxCallMessage {
		return nil, fmt.Errorf("call %s: the request has %d bytes, more than %d", c.Method, len(c.Request), maxCallMessage)
	}
	frame := make([]byte, framePrefix, framePrefix+len(c.Request))
	binary.BigEndian.PutUint32(frame[1:], uint32(len(c.Request)))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+c.Method,
		bytes.NewReader(append(frame, c.Request...)))
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", c.Method, err)
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("Te", "trailers")
	if deadline, ok := ctx.Deadline(); ok && !c.Bound { // a bound one ends with its caller, who says why
		request.Header.Set("Grpc-Timeout", strconv.FormatInt(max(1, time.Until(deadline).Milliseconds()), 10)+"m")
	}
	response, err := r.Do(request)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // the URL says nothing
		}
		return nil, fmt.Errorf("call %s: %w", c.Method, err)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, framePrefix+maxCallMessage+1))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, fmt.Errorf("call %s: read the reply: %w", c.Method, err)
	}
	reply, err := answer(c.Method, response, body)
	if err != nil || c.MaxField <= 0 {
		return reply, err
	}
	if reply, err = cutFields(reply, int(min(c.MaxField, maxCallMessage))); err != nil {
		return nil, fmt.Errorf("call %s: %w", c.Method, err)
	}
	return reply, nil
}

// answer takes a response apart. Its status stands in the trailer, or in the header of
// a response without a message.
func answer(method string, response *http.Response, body []byte) ([]byte, error) {
	state := response.Trailer.Get("Grpc-Status")
	text := response.Trailer.Get("Grpc-Message")
	if state == "" {
		state, text = response.Header.Get("Grpc-Status"), response.Header.Get("Grpc-Message")
	}
	code, err := strconv.ParseUint(state, 10, 32)
	switch {
	case err != nil:
		return nil, fmt.Errorf("call %s: the runtime's socket answered %s and no status of gRPC", method, response.Status)
	case code != 0:
		// It is percent-encoded; what is not is shown as it came.
		if plain, err := url.PathUnescape(text); err == nil {
			text = plain
		}
		return nil, &host.CallError{Code: uint32(code), Message: text}
	case len(body) < framePrefix || body[0] != 0 ||
		int64(binary.BigEndian.Uint32(body[1:])) != int64(len(body)-framePrefix):
		return nil, fmt.Errorf(
			"call %s: the reply of %d bytes is not one message of at most %d", method, len(body), maxCallMessage,
		)
	default:
		return body[framePrefix:], nil
	}
}
