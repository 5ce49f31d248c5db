package session

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"golang.org/x/crypto/ssh"

	"github.com/burstlet/burstlet/backend"
)

// slowConn opens channels when it is let.
type slowConn struct {
	ssh.Conn
	let     chan struct{}
	channel *closable
}

// OpenChannel returns the one channel.
func (c slowConn) OpenChannel(string, []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	<-c.let
	return c.channel, c.channel.requests, nil
}

// closable is a channel that notes its end.
type closable struct {
	ssh.Channel
	requests chan *ssh.Request
	closed   bool
}

// Close ends the requests too.
func (c *closable) Close() error {
	c.closed = true
	close(c.requests)
	return nil
}

func TestRunWaitsForTheOpeningOfAChannelThatWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := New(t.Context(), Config{}, nil)
		conn := slowConn{let: make(chan struct{}), channel: &closable{requests: make(chan *ssh.Request)}}
		call, giveUp := context.WithCancel(t.Context())
		opened := make(chan error)
		go func() {
			_, _, err := pool.openChannel(call, conn, "session", nil)
			opened <- err
		}()
		synctest.Wait()
		giveUp()
		if err := <-opened; !errors.Is(err, context.Canceled) {
			t.Errorf("the call returned %v", err)
		}

		life, end := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- pool.Run(life) }()
		end()
		synctest.Wait()
		select {
		case err := <-ran:
			t.Fatalf("Run returned %v while a channel is being opened", err)
		default:
		}
		close(conn.let)
		if err := <-ran; err != nil || !conn.channel.closed {
			t.Errorf("Run returned %v; the channel is closed: %t", err, conn.channel.closed)
		}
		if _, _, err := pool.openChannel(t.Context(), conn, "session", nil); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("a channel of a pool that has ended: %v", err)
		}
	})
}
