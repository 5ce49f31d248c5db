package streaming

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

const (
	// openTimeout bounds what comes before the first byte. It is less than SPDY's
	// library and a runtime wait for a stream.
	openTimeout = 25 * time.Second
	// maxAnswer is the most that is read of an answer that is not an upgrade.
	maxAnswer = 4 << 10
	// readBuffer holds a frame as runtimes make them.
	readBuffer = 64 << 10
)

// streams are the open streams of one URL, by their headers' order.
type streams struct {
	link *link
	conn httpstream.Connection
	each []httpstream.Stream
}

// end closes everything at once, and what waits for any of it returns.
func (s *streams) end() {
	// The link first: whoever writes would hold up the farewells.
	_ = s.link.Close()
	_ = s.conn.Close()
}

// over is true when the server has ended the connection: it leaves that to clients.
func (s *streams) over() bool {
	select {
	case <-s.conn.CloseChan():
		return true
	default:
		return false
	}
}

// open connects to the server of a URL and opens streams with these headers, all in
// one round trip. Errors: Unavailable when the server cannot be reached or breaks off.
func open(ctx context.Context, dial host.Dialer, rawURL, protocol string, headers ...http.Header) (*streams, error) {
	bounded, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	l, err := upgrade(bounded, dial, rawURL, protocol, len(headers))
	if err != nil {
		return nil, reason(ctx, err)
	}
	defer context.AfterFunc(bounded, func() { _ = l.Close() })()
	conn, err := spdy.NewClientConnection(l)
	if err != nil {
		return nil, reason(ctx, errors.Join(fmt.Errorf("begin to speak SPDY: %w", err), l.Close()))
	}
	s := &streams{link: l, conn: conn, each: make([]httpstream.Stream, len(headers))}
	var g errgroup.Group
	for i, h := range headers {
		g.Go(func() (err error) {
			s.each[i], err = conn.CreateStream(h)
			return err //nolint:wrapcheck // it is below
		})
	}
	err = g.Wait()
	l.opened()
	if err == nil {
		err = bounded.Err()
	}
	if err != nil {
		words := s.lastWords(bounded)
		return nil, reason(ctx, backend.Classed(backend.ErrUnavailable, &notOpenedError{words: words, err: err}))
	}
	return s, nil
}

// notOpenedError is why there are no streams. A runtime may have given up already while
// they are opened: words are then what the first of them carries, which tells errors in
// all protocols.
type notOpenedError struct {
	words string
	err   error
}

func (e *notOpenedError) Error() string {
	return "open streams to the container runtime: " + e.err.Error()
}
func (e *notOpenedError) Unwrap() error { return e.err }

// lastWords reads the first stream to its end, if it was opened, and ends all.
func (s *streams) lastWords(ctx context.Context) string {
	defer s.end()
	if s.each[0] == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, wordsGrace)
	defer cancel()
	defer context.AfterFunc(ctx, s.end)()
	// A stream's only error is its end.
	text, _ := io.ReadAll(io.LimitReader(s.each[0], maxStatus))
	return string(text)
}

// reason is the end of the context where that is why something failed.
func reason(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("reach the container runtime's streaming server: %w", ctx.Err())
	}
	return err
}

// upgrade makes the connection and changes its protocol.
func upgrade(ctx context.Context, dial host.Dialer, rawURL, protocol string, streams int) (*link, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https") {
		// Its path is a token: it is not shown.
		return nil, errors.New("the container runtime gave no usable address of its streaming server")
	}
	conn, err := connect(ctx, dial, u)
	if err != nil {
		return nil, backend.Errorf(backend.ErrUnavailable, "reach the container runtime's streaming server: %w", err)
	}
	in := bufio.NewReaderSize(conn, readBuffer)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err = ask(ctx, conn, in, u, protocol)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(err, ignoreClosed(conn.Close()))
	}
	return newLink(conn, in, streams), nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func connect(ctx context.Context, dial host.Dialer, u *url.URL) (net.Conn, error) {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	conn, err := dial.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil || u.Scheme == "http" {
		return conn, err //nolint:wrapcheck // the caller does
	}
	// The certificate is the runtime's own, signed by nobody; the token in the URL
	// came from the runtime itself (kubelet: proxyStream).
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // see above
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("agree on TLS: %w", err), ignoreClosed(conn.Close()))
	}
	return secure, nil
}

// ask sends the request and reads the answer's head.
func ask(ctx context.Context, conn net.Conn, in *bufio.Reader, u *url.URL, protocol string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), http.NoBody)
	if err != nil {
		return errors.New("the container runtime gave no usable address of its streaming server")
	}
	request.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	request.Header.Set(httpstream.HeaderUpgrade, spdy.HeaderSpdy31)
	request.Header.Set(httpstream.HeaderProtocolVersion, protocol)
	if err := request.Write(conn); err != nil {
		return backend.Errorf(backend.ErrUnavailable, "ask the container runtime for streams: %w", err)
	}
	answer, err := http.ReadResponse(in, request)
	if err != nil {
		return backend.Errorf(backend.ErrUnavailable, "ask the container runtime for streams: %w", err)
	}
	if answer.StatusCode == http.StatusSwitchingProtocols {
		// What follows the head is no body.
		if got := answer.Header.Get(httpstream.HeaderProtocolVersion); got != protocol {
			return fmt.Errorf("the container runtime's streaming server speaks %q, not %s", got, protocol)
		}
		return nil
	}
	defer func() { _ = answer.Body.Close() }() // the connection is closed next
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return backend.Errorf(backend.ErrUnavailable, "read the answer of the container runtime's streaming server: %w", err)
	}
	return fmt.Errorf(
		"the container runtime's streaming server answered %s: %s", answer.Status, strings.TrimSpace(string(text)),
	)
}
