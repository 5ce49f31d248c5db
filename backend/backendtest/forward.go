package backendtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/burstlet/burstlet/backend"
)

const echoPort = 7000

// forwarded connects to a port in a pod, for as long as a step may take.
func (s *suite) forwarded(ref backend.Ref, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(s.Context(), s.f.Eventually)
	defer cancel()
	conn, err := s.Forward.Forward(ctx, ref, port)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(s.f.Eventually))
}

// echoing is a pod that echoes on a port.
func (s *suite) echoing() backend.Ref {
	s.Helper()
	ref := s.run(s.pod(program{"nc", "-ll", "-p", fmt.Sprint(echoPort), "-e", "cat"}), 0)
	s.awaitRunning(ref)
	return ref
}

// forwardEchoes: bytes go both ways at once, and the end of what is sent is not
// that of what comes back.
func forwardEchoes(s *suite) {
	ref := s.echoing()
	sent := bytes.Repeat([]byte("0123456789abcdef"), 16<<10)
	s.eventually("an echo", func() error {
		conn, err := s.forwarded(ref, echoPort)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		writing := s.call(func() error {
			_, err := conn.Write(sent)
			if half, ok := conn.(interface{ CloseWrite() error }); ok && err == nil {
				err = half.CloseWrite()
			}
			return err
		})
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(conn, got); err != nil {
			return errors.Join(err, conn.Close(), <-writing)
		}
		if err := <-writing; err != nil || !bytes.Equal(got, sent) {
			return fmt.Errorf("something else came back, or not all was sent: %w", err)
		}
		if _, half := conn.(interface{ CloseWrite() error }); !half {
			return nil
		}
		if rest, err := io.ReadAll(conn); err != nil || len(rest) > 0 {
			return fmt.Errorf("after the end of what was sent came %d bytes more: %w", len(rest), err)
		}
		return nil
	})
}

func forwardRefused(s *suite) {
	ref := s.echoing()
	conn, err := s.forwarded(ref, echoPort+1)
	if err == nil {
		// A runtime may say so only on the connection.
		_, err = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}
	if class := backend.Class(err); class != "Transient" || errors.Is(err, os.ErrDeadlineExceeded) {
		s.Errorf("where nobody listens: error of class %q: %v, want the connection's own", class, err)
	}
}

func forwardEnded(s *suite) {
	ref := s.run(s.pod(succeed), 0)
	s.stopUntilDead(ref)
	if conn, err := s.forwarded(ref, echoPort); err == nil {
		s.Errorf("connected to what has ended; closing: %v", conn.Close())
	} else {
		s.wantClass("a pod that has ended", err, backend.ErrNotFound)
	}
	ref.UID += "-none"
	if conn, err := s.forwarded(ref, echoPort); err == nil {
		s.Errorf("connected to no pod; closing: %v", conn.Close())
	} else {
		s.wantClass("no such pod", err, backend.ErrNotFound)
	}
}

func forwardContext(s *suite) {
	ref := s.echoing()
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if conn, err := s.Forward.Forward(ctx, ref, echoPort); err == nil {
		s.Errorf("connected although the context had ended; closing: %v", conn.Close())
	}
}
