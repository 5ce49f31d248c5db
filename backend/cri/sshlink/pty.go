package sshlink

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/containerd/log"
)

// terminalTimeout bounds the session with the pty: without it things work, slower.
const terminalTimeout = 10 * time.Second

// echo and modesEnd are opcodes of RFC 4254, section 8.
const (
	echo     = 53
	modesEnd = 0
)

var errNoTerminal = errors.New("the host grants no pty")

type ptyRequest struct {
	Term                         string
	Columns, Rows, Width, Height uint32
	Modes                        string
}

type execRequest struct{ Command string }

// openTerminal opens the session whose pty makes sshd send small packets at once
// (TCP_NODELAY), and leaves it open. It runs cat, which ends with it. A host that
// gives no pty is used without.
func (c *connection) openTerminal(ctx context.Context) {
	if c.noTerminal = c.requestTerminal(ctx); c.noTerminal != nil && !c.dying() {
		log.G(ctx).WithField("host", c.hop.Address).WithError(c.noTerminal).
			Info("no pty on the pods' host (PermitTTY): each small call takes some milliseconds longer")
	}
}

func (c *connection) requestTerminal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, terminalTimeout)
	defer cancel()
	ch, err := c.open(ctx, "session", nil)
	if err != nil {
		return err
	}
	// Requests and output end with the session.
	c.spawn(func() {
		for r := range ch.requests {
			if r.WantReply {
				_ = r.Reply(false, nil) // a dead connection is noticed elsewhere
			}
		}
	})
	c.spawn(func() { _, _ = io.Copy(io.Discard, ch) })
	granted, err := c.request(ctx, ch, "pty-req", ptyRequest{
		Term: "dumb", Columns: 80, Rows: 24, Modes: string([]byte{echo, 0, 0, 0, 0, modesEnd}),
	})
	if err == nil && granted {
		granted, err = c.request(ctx, ch, "exec", execRequest{"exec cat"})
	}
	if err == nil && granted {
		return nil
	}
	c.spawn(func() { _ = ch.Close() }) // it may block, and nothing is lost
	if err != nil {
		return err
	}
	return errNoTerminal
}
