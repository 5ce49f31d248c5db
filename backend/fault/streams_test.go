package fault

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/backend"
)

// streamed notes what it was given.
type streamed struct {
	exec   backend.ExecSpec
	attach backend.AttachSpec
	conn   closable
}

func (s *streamed) Exec(_ context.Context, _ backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
	s.exec = spec
	return 3, nil
}

func (s *streamed) Attach(_ context.Context, _ backend.ContainerRef, spec backend.AttachSpec) error {
	s.attach = spec
	return nil
}

func (s *streamed) Forward(context.Context, backend.Ref, uint16) (net.Conn, error) {
	return &s.conn, nil
}

type closable struct {
	net.Conn
	closed bool
}

func (c *closable) Close() error {
	c.closed = true
	return nil
}

// TestStreamsPass: without a fault the streams are the caller's own.
func TestStreamsPass(t *testing.T) {
	inner := &streamed{}
	b := Wrap(backend.Backend{Exec: inner, Attach: inner, Forward: inner}, &Script{})
	in, out := io.Reader(strings.NewReader("x")), io.Writer(&bytes.Buffer{})
	sizes := (<-chan backend.TerminalSize)(make(chan backend.TerminalSize))
	if code, err := b.Exec.Exec(
		t.Context(), backend.ContainerRef{}, backend.ExecSpec{Stdin: in, Stdout: out, TTY: true, Resize: sizes},
	); code != 3 || err != nil {
		t.Errorf("exec: %d, %v", code, err)
	}
	if s := inner.exec; s.Stdin != in || s.Stdout != out || !s.TTY || s.Resize != sizes {
		t.Errorf("exec got %+v", s)
	}
	if err := b.Attach.Attach(
		t.Context(), backend.ContainerRef{}, backend.AttachSpec{Stdin: in, Stderr: out, TTY: true, Resize: sizes},
	); err != nil {
		t.Error(err)
	}
	if s := inner.attach; s.Stdin != in || s.Stderr != out || !s.TTY || s.Resize != sizes {
		t.Errorf("attach got %+v", s)
	}
	if conn, err := b.Forward.Forward(t.Context(), backend.Ref{}, 1); err != nil || conn != net.Conn(&inner.conn) ||
		inner.conn.closed {
		t.Errorf("forward: %v, %v", conn, err)
	}
}

// TestStreamsFail: a fault keeps the call from the remote, and a lost reply
// leaves no connection open.
func TestStreamsFail(t *testing.T) {
	inner := &streamed{}
	script := &Script{}
	script.Add(AttachAttach, 1, Fault{Err: backend.Errorf(backend.ErrDenied, "no")})
	script.Add(ForwardForward, 1, Fault{LoseReply: true})
	b := Wrap(backend.Backend{Attach: inner, Forward: inner}, script)
	if err := b.Attach.Attach(
		t.Context(), backend.ContainerRef{}, backend.AttachSpec{TTY: true},
	); backend.Class(err) != "Denied" || inner.attach.TTY {
		t.Errorf("attach: %v, %+v", err, inner.attach)
	}
	conn, err := b.Forward.Forward(t.Context(), backend.Ref{}, 1)
	if conn != nil || backend.Class(err) != "Unavailable" || !inner.conn.closed {
		t.Errorf("forward: %v, %v, closed %v", conn, err, inner.conn.closed)
	}
}
