package kubeletapi

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/provider/bound"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// from makes requests with a token from an address of this machine. Those that follow the
// first share its connection.
func (s *served) from(t *testing.T, address string) func(path, token string) (int, http.Header) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := s.transport(t)
	transport.DialContext = dialer.DialContext
	return func(path, token string) (int, http.Header) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
		if err != nil {
			t.Error(err)
			return 0, nil
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return 0, nil
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode, resp.Header
	}
}

// A client that sends token after token to an API server that takes its time has a few of
// them reviewed and is refused beyond that; callers with a certificate, and those from
// elsewhere, do not notice.
func TestTokensOfOneAddressLeaveRoomForOthers(t *testing.T) {
	r := &reviews{
		tokens: map[string]string{"good": "u"},
		rights: map[string]map[string]bool{"u": {"proxy": true}, "admin": {"proxy": true}}, hold: make(chan struct{}),
	}
	s := serve(t, &fakeEngine{}, r, nil)
	release := sync.OnceFunc(func() { close(r.hold) })
	defer release()
	flood := s.from(t, "127.0.0.1")
	// One connection for all that follow: as many handshakes at once would take a busy machine
	// longer than a handshake may.
	if code, _ := flood("/pods", "good"); code != http.StatusOK {
		t.Fatalf("the first request: %d", code)
	}
	const sent = 3 * (reviewsOfOne + reviewsOfOneQueued)
	codes := make(chan int, sent)
	var group sync.WaitGroup
	for i := range sent {
		group.Go(func() {
			code, header := flood("/pods", fmt.Sprint("bad", i))
			if code == http.StatusTooManyRequests && header.Get("Retry-After") == "" {
				t.Error("refused without Retry-After")
			}
			codes <- code
		})
	}
	for range sent - reviewsOfOne - reviewsOfOneQueued {
		if code := <-codes; code != http.StatusTooManyRequests {
			t.Fatalf("a token too many: %d", code)
		}
	}
	wait.For(t, patience, "reviews of one address", func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.held != reviewsOfOne {
			return fmt.Errorf("%d tokens are being reviewed, want %d", r.held, reviewsOfOne)
		}
		return nil
	})
	if code, _ := s.from(t, "127.0.0.2")("/pods", "good"); code != http.StatusOK {
		t.Errorf("a caller from elsewhere: %d", code)
	}
	admin, _, _ := s.ca.issue(t, "admin", x509.ExtKeyUsageClientAuth)
	if got := s.caller(t, &admin, "")("/pods").StatusCode; got != http.StatusOK {
		t.Errorf("a caller with a certificate: %d", got)
	}
	release()
	group.Wait()
	for range reviewsOfOne + reviewsOfOneQueued {
		if code := <-codes; code != http.StatusUnauthorized {
			t.Errorf("a token that was reviewed: %d", code)
		}
	}
}

// Reviews are bounded whoever asks for them.
func TestTokenReviewsAreBounded(t *testing.T) {
	r := &reviews{hold: make(chan struct{})}
	b := newBounds()
	b.tokenReviews = bound.NewSlots("token_reviews", 2)
	s := serve(t, &fakeEngine{}, r, func(c *Config) { c.bounds = b })
	codes := make(chan int, 3)
	var group sync.WaitGroup
	for i := range 3 {
		from := s.from(t, fmt.Sprint("127.0.0.", i+1))
		group.Go(func() {
			code, _ := from("/pods", fmt.Sprint(i))
			codes <- code
		})
	}
	if code := <-codes; code != http.StatusTooManyRequests {
		t.Errorf("one too many: %d", code)
	}
	close(r.hold)
	group.Wait()
}

// Streams have places of their own: when all are taken, the rest is served, and the other
// way round. /healthz is served always.
func TestStreamsAndRequestsAreBoundedApart(t *testing.T) {
	r := &reviews{tokens: map[string]string{"t": "u"}, rights: all("u")}
	b := newBounds()
	b.streams, b.requests = bound.NewSlots("streams", 1), bound.NewSlots("requests", 1)
	measuring, measured := make(chan struct{}), make(chan struct{})
	engine := &fakeEngine{logs: endless}
	engine.stats = func(ctx context.Context, _ time.Duration) (backend.StatsFacts, error) {
		close(measuring)
		select {
		case <-measured:
		case <-ctx.Done():
		}
		return backend.StatsFacts{}, nil
	}
	s := serve(t, engine, r, func(c *Config) { c.bounds, c.AlwaysAllow = b, true })
	call := s.caller(t, nil, "t")
	expect := func(path string, code int) {
		t.Helper()
		if resp := call(path); resp.StatusCode != code {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, code)
		}
	}
	expect("/containerLogs/ns/p/c?follow=true", 200) // and lasts
	for _, stream := range []string{
		"/containerLogs/ns/p/c", "/exec/ns/p/c?command=x", "/attach/ns/p/c", "/portForward/ns/p", "POST /run/ns/p/c?cmd=x",
	} {
		expect(stream, 429)
	}
	expect("/pods", 200)
	var group sync.WaitGroup
	group.Go(func() { expect("/stats/summary", 200) })
	<-measuring
	expect("/pods", 429)
	expect("/metrics", 429)
	expect("/healthz", 200)
	close(measured)
	group.Wait()
	text := body(t, call("/metrics"))
	for _, want := range []string{
		`burstlet_http_refused_total{kind="streams",server="kubelet_api"} 5`,
		`burstlet_http_refused_total{kind="requests",server="kubelet_api"} 2`,
		`burstlet_http_in_flight{kind="streams",server="kubelet_api"} 1`,
		`burstlet_http_limit{kind="connections",server="kubelet_api"} 1000`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in:\n%s", want, text)
		}
	}
}

// Connections that do nothing keep nobody out: they are closed when others come.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	r := &reviews{tokens: map[string]string{"t": "u"}, rights: all("u")}
	b := newBounds()
	b.conns = bound.NewConns(3)
	s := serve(t, &fakeEngine{}, r, func(c *Config) { c.bounds = b })
	idle := make([]net.Conn, 3)
	for i := range idle {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		idle[i] = conn
	}
	if got := s.caller(t, nil, "t")("/pods").StatusCode; got != http.StatusOK {
		t.Fatalf("beside idle connections: %d", got)
	}
	// The server has closed the first.
	if _, err := idle[0].Read(make([]byte, 1)); err == nil {
		t.Error("an idle connection is still open")
	}
}

// A body that never comes, of somebody who is not even known, must not keep a connection.
func TestABodyThatDoesNotComeIsNotAwaited(t *testing.T) {
	b := newBounds()
	b.bodyTimeout = 50 * time.Millisecond
	s := serve(t, &fakeEngine{}, &reviews{}, func(c *Config) { c.bounds = b })
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // self-signed here
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST /run/a/b/c HTTP/1.1\r\nHost: n1\r\nContent-Length: 10\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	if _, err := in.ReadByte(); resp.StatusCode != http.StatusUnauthorized || !errors.Is(err, io.EOF) {
		t.Errorf("%s, then %v; want 401, and the connection closed", resp.Status, err)
	}
}

// A request that ends by itself has its time; a stream lasts for as long as its client
// wants.
func TestStreamsAreNotCut(t *testing.T) {
	r := &reviews{tokens: map[string]string{"t": "u"}, rights: all("u")}
	b := newBounds()
	b.answerTimeout = 300 * time.Millisecond
	followed := make(chan *io.PipeWriter, 1)
	engine := &fakeEngine{logs: func(context.Context, string, bool, backend.LogOptions) (io.ReadCloser, error) {
		log, lines := io.Pipe()
		followed <- lines
		return log, nil
	}}
	engine.stats = func(ctx context.Context, _ time.Duration) (backend.StatsFacts, error) {
		timeout := time.NewTimer(2 * b.answerTimeout)
		defer timeout.Stop()
		select {
		case <-timeout.C:
		case <-ctx.Done():
		}
		return backend.StatsFacts{}, nil
	}
	s := serve(t, engine, r, func(c *Config) { c.bounds, c.AlwaysAllow = b, true })
	for _, proto := range []struct {
		name string
		two  bool
	}{{"HTTP/1.1", false}, {"HTTP/2", true}} {
		t.Run(proto.name, func(t *testing.T) {
			transport := s.transport(t)
			transport.ForceAttemptHTTP2 = proto.two
			if !proto.two {
				transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
			}
			get := func(path string) (*http.Response, error) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer t")
				resp, err := transport.RoundTrip(req)
				if err == nil {
					t.Cleanup(func() { _ = resp.Body.Close() })
				}
				return resp, err
			}
			before, err := get("/pods") // on the same connection
			if err != nil {
				t.Fatal(err)
			}
			_ = body(t, before)
			stream, err := get("/containerLogs/ns/p/c?follow=true")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := get("/stats/summary"); err == nil {
				t.Error("an answer that took too long came")
			}
			lines := <-followed
			go func() {
				_, err := io.WriteString(lines, "late\n")
				_ = lines.CloseWithError(err)
			}()
			if line, err := io.ReadAll(stream.Body); string(line) != "late\n" {
				t.Errorf("a stream after that time: %q, %v", line, err)
			}
		})
	}
}
