package session

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/burstlet/burstlet/backend"
)

// pipeSession is a session with a server whose connections only echo; lose cuts the way
// between them.
func pipeSession(t *testing.T) (session *taskSession, lose func()) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") // both sides write first, for which a net.Pipe has no room
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		if far, err := listener.Accept(); err == nil {
			echo(far, signer, &work)
		}
	})
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	line := &lineConn{in: near, out: near}
	c, channels, requests, err := ssh.NewClientConn(pipeConn{line, near}, "pipe", &ssh.ClientConfig{
		HostKeyCallback: ssh.FixedHostKey(signer.PublicKey()),
	})
	if err != nil {
		t.Fatal(err)
	}
	pool := New(t.Context(), Config{}, nil)
	life, end := context.WithCancel(t.Context())
	session = &taskSession{
		pool: pool, client: ssh.NewClient(c, channels, requests), broken: line.broken.Load, dead: make(chan struct{}),
	}
	work.Go(func() {
		pool.keep(session.client)
		close(session.dead)
	})
	work.Go(func() { _ = pool.Run(life) })
	t.Cleanup(func() { _ = near.Close(); end(); work.Wait() })
	return session, func() { _ = near.Close() }
}

// pipeConn closes the pipe.
type pipeConn struct {
	*lineConn
	pipe net.Conn
}

func (p pipeConn) Close() error { return p.pipe.Close() }

// echo serves a connection.
func echo(conn net.Conn, signer ssh.Signer, work *sync.WaitGroup) {
	cfg := &ssh.ServerConfig{NoClientAuth: true}
	cfg.AddHostKey(signer)
	_, channels, requests, err := ssh.NewServerConn(conn, cfg)
	if err != nil {
		return
	}
	work.Go(func() { ssh.DiscardRequests(requests) })
	for offered := range channels {
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		work.Go(func() { ssh.DiscardRequests(requests) })
		work.Go(func() {
			_, _ = io.Copy(channel, channel)
			_ = channel.Close()
		})
	}
}

// TestALostSessionIsNoEnd: what is cut off is not taken for all that there was, and an end
// of the other side is one.
func TestALostSessionIsNoEnd(t *testing.T) {
	session, lose := pipeSession(t)
	open := func() (net.Conn, *bool) {
		done := false
		conn, err := session.connect(t.Context(), "127.0.0.1:80", func() { done = true })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("half")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		return conn, &done
	}
	whole, done := open()
	if err := whole.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(whole); err != nil || len(rest) > 0 {
		t.Errorf("an end of the other side reads as %q, %v", rest, err)
	}
	if err := whole.Close(); err != nil || !*done {
		t.Errorf("closed: %v, given back: %v", err, *done)
	}
	cut, _ := open()
	lose()
	if _, err := io.ReadAll(cut); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("a lost session reads as an end: %v", err)
	}
	if err := cut.Close(); err != nil {
		t.Error(err)
	}
}
