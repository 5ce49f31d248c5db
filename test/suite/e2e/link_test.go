package e2e

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// link is a way to the API server that can be cut.
type link struct {
	t        *testing.T
	target   string
	listener net.Listener
	group    sync.WaitGroup

	mu     sync.Mutex
	broken bool
	conns  map[net.Conn]struct{}
}

// newLink listens on loopback and passes everything on to the server of a URL.
func newLink(t *testing.T, server string) *link {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{t: t, target: u.Host, listener: listener, conns: map[net.Conn]struct{}{}}
	l.group.Go(l.accept)
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		l.cut()
		l.group.Wait()
	})
	return l
}

func (l *link) url() string { return "https://" + l.listener.Addr().String() }

func (l *link) accept() {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				l.t.Error(err)
			}
			return
		}
		l.group.Go(func() { l.serve(conn) })
	}
}

func (l *link) serve(conn net.Conn) {
	defer conn.Close()
	if !l.keep(conn) {
		return
	}
	defer l.drop(conn)
	server, err := net.Dial("tcp", l.target)
	if err != nil {
		return // the API server is away
	}
	defer server.Close()
	if !l.keep(server) {
		return
	}
	defer l.drop(server)
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{conn, server}, {server, conn}} {
		l.group.Go(func() {
			_, _ = io.Copy(pair[0], pair[1]) // it ends when either side does
			done <- struct{}{}
		})
	}
	<-done
}

// keep is false while the link is cut.
func (l *link) keep(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return false
	}
	l.conns[conn] = struct{}{}
	return true
}

func (l *link) drop(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}

// cut ends all connections and lets no new one through.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = true
	for conn := range l.conns {
		_ = conn.Close() // it may have ended by itself
	}
}

func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = false
}
