// Package hostile is a client that a kubelet API must bear: it keeps the node as busy as it can, as somebody who
// knows none of its secrets (Tokens, Idle) or as one who may do all (Streams).
package hostile

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Client attacks one kubelet API.
type Client struct {
	// Address is the API's host and port.
	Address string
	// Pause is how long one flood of tokens waits between two; 0: not at all.
	Pause time.Duration

	sent, refused   atomic.Int64 // tokens
	opened, crowded atomic.Int64 // streams
}

// Sent is how many tokens were sent.
func (c *Client) Sent() int64 { return c.sent.Load() }

// Refused is how many of them the node had no room to look at: it answered 429.
func (c *Client) Refused() int64 { return c.refused.Load() }

// Tokens sends one token after the other, none of which is any, until ctx ends.
func (c *Client) Tokens(ctx context.Context) {
	//nolint:gosec // a test's
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 8}
	defer transport.CloseIdleConnections()
	for ctx.Err() == nil {
		if c.Pause > 0 && !rest(ctx, c.Pause) {
			return
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+c.Address+"/pods", nil)
		if err != nil {
			return
		}
		req.Header.Set("Authorization", fmt.Sprint("Bearer token-", c.sent.Add(1)))
		resp, err := transport.RoundTrip(req)
		if err != nil {
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusTooManyRequests {
			c.refused.Add(1)
		}
	}
}

// Idle holds n connections and says nothing on them, until ctx ends. It opens another for
// each that is closed.
func (c *Client) Idle(ctx context.Context, n int) {
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			for c.silence(ctx); rest(ctx, 100*time.Millisecond); {
				c.silence(ctx)
			}
		})
	}
	group.Wait()
}

// silence holds one connection until either side has had enough.
func (c *Client) silence(ctx context.Context) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return // nobody listens just now
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_, _ = conn.Read(make([]byte, 1))
	_ = conn.Close()
}

// rest is false when ctx has ended.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
