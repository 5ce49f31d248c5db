package backendtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// serving is a pod that listens on port 8080, and its address.
func (s *suite) serving() (backend.Ref, string) {
	s.Helper()
	ref := s.run(s.pod(program{"httpd", "-f", "-p", "8080"}), 0)
	f := s.await(ref, "runs with an address", func(f backend.PodFacts) bool {
		return len(f.IPs) > 0 && allAppsIn(f, backend.Running)
	})
	return ref, f.IPs[0]
}

func dialConnects(s *suite) {
	ref, ip := s.serving()
	s.eventually("an answer over HTTP", func() error {
		ctx, cancel := context.WithTimeout(s.Context(), s.f.Eventually)
		defer cancel()
		conn, err := s.Dial.Dial(ctx, ref, net.JoinHostPort(ip, "8080"))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if err := conn.SetDeadline(time.Now().Add(s.f.Eventually)); err != nil {
			return err
		}
		if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			return err
		}
		answer, err := io.ReadAll(conn)
		if err == nil && !strings.HasPrefix(string(answer), "HTTP/1.") {
			err = fmt.Errorf("answered %q", answer)
		}
		return err
	})
}

func dialRefused(s *suite) {
	ref, ip := s.serving()
	ctx, cancel := context.WithTimeout(s.Context(), s.f.Eventually)
	defer cancel()
	conn, err := s.Dial.Dial(ctx, ref, net.JoinHostPort(ip, "8081"))
	if err == nil {
		s.Fatalf("connected where nobody listens; closing: %v", conn.Close())
	}
	if class := backend.Class(err); class != "Transient" || ctx.Err() != nil {
		s.Errorf("where nobody listens: error of class %q: %v, want the connection's own at once", class, err)
	}
}

func dialContext(s *suite) {
	ref, ip := s.serving()
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if conn, err := s.Dial.Dial(ctx, ref, net.JoinHostPort(ip, "8080")); err == nil {
		s.Errorf("connected although the context had ended; closing: %v", conn.Close())
	}
}
