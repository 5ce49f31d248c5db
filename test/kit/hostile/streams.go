package hostile

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Target is what [Client.Streams] reaches into.
type Target struct {
	// TLS lets the client in: it has a certificate that may do all.
	TLS *tls.Config
	// Pod returns one that may run, as NAMESPACE/NAME.
	Pod func() string
	// Container is one of its containers.
	Container string
}

// streamPause is how long each stream waits until it is opened again.
const streamPause = 2 * time.Second

// speaks is a command that says more than anybody keeps who is not read, and goes on.
const speaks = "head -c 1000000 /dev/zero; sleep 100000"

// Opened is how many streams were opened.
func (c *Client) Opened() int64 { return c.opened.Load() }

// Crowded is how many of them the node had no room for: it answered 429.
func (c *Client) Crowded() int64 { return c.crowded.Load() }

// Streams holds n streams and reads nothing that comes on them, until ctx ends: of ten, one is a command,
// which is a process on the pods' host, five are logs that are followed and four forward ports. It opens another
// for each that is refused or ends.
func (c *Client) Streams(ctx context.Context, n int, target Target) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			for c.stream(ctx, i, target); rest(ctx, streamPause); {
				c.stream(ctx, i, target)
			}
		})
	}
	group.Wait()
}

// stream holds the i-th stream until either side has had enough.
func (c *Client) stream(ctx context.Context, i int, target Target) {
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return // nobody listens just now
	}
	defer func() { _ = raw.Close() }()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	conn := tls.Client(raw, target.TLS)
	if conn.HandshakeContext(ctx) != nil {
		return
	}
	req, err := target.request(ctx, i, c.Address)
	if err != nil || req.Write(conn) != nil {
		return
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req) //nolint:bodyclose // to close it is to read it
	if err != nil {
		return
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusSwitchingProtocols:
		c.opened.Add(1)
	case http.StatusTooManyRequests:
		c.crowded.Add(1)
		return
	default:
		return
	}
	for tcp, ok := raw.(*net.TCPConn); ok && !hungUp(tcp) && rest(ctx, time.Second); {
		continue
	}
}

// request asks for the i-th stream. A SPDY connection is one that forwards ports before any port is named.
func (t Target) request(ctx context.Context, i int, address string) (*http.Request, error) {
	pod := t.Pod()
	method, path, headers := http.MethodGet, "/containerLogs/"+pod+"/"+t.Container+"?follow=true", map[string]string{}
	switch i % 10 {
	case 0:
		command := url.Values{"output": {"1"}, "command": {"sh", "-c", speaks}}
		path = "/exec/" + pod + "/" + t.Container + "?" + command.Encode()
		headers = map[string]string{
			"Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
			"Sec-WebSocket-Protocol": "v4.channel.k8s.io",
		}
	case 1, 2, 3, 4:
		method, path = http.MethodPost, "/portForward/"+pod
		headers = map[string]string{"Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "portforward.k8s.io"}
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://"+address+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask for a stream: %w", err)
	}
	req.Close = len(headers) == 0 // so that the end of a log ends its connection
	for key, value := range headers {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set(key, value)
	}
	return req, nil
}

// hungUp is true once the other side has closed the connection, whatever it said before is not read.
func hungUp(conn *net.TCPConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}, 0) //nolint:gosec // a file's
		gone = err == nil && n > 0
	})
	return gone || err != nil
}
