package kubeletapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/test/kit/wait"
)

const secret = "hunter2"

// trail returns the audit lines so far, without what differs from run to run.
func (s *served) trail(t *testing.T) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for text := range strings.Lines(s.logged.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if _, ok := line["audit"]; !ok {
			continue
		}
		if from, _ := line["from"].(string); !strings.HasPrefix(from, "127.0.0.1:") || line["level"] != "info" {
			t.Errorf("from %q, level %v", from, line["level"])
		}
		ended := line["msg"] == auditEnded
		if _, timed := line["duration"]; timed != ended || (line["session"] == nil) != (line["msg"] == auditRefused) {
			t.Errorf("a line without its duration or session: %v", line)
		}
		for _, key := range []string{"time", "level", "from", "duration", "session"} {
			delete(line, key)
		}
		lines = append(lines, line)
	}
	return lines
}

// expectTrail waits for so many audit lines, compares them, and looks for what must not be in the log.
func (s *served) expectTrail(t *testing.T, want ...map[string]any) {
	t.Helper()
	wait.For(t, patience, "audit lines", func() error {
		if n := len(s.trail(t)); n < len(want) {
			return fmt.Errorf("%d lines", n)
		}
		return nil
	})
	if diff := cmp.Diff(want, s.trail(t)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if strings.Contains(s.logged.String(), secret) {
		t.Errorf("the log tells what was typed:\n%s", s.logged)
	}
}

// line is an audit line of user u about container c, changed by pairs of keys and values.
func line(msg, verb string, pairs ...any) map[string]any {
	m := map[string]any{"msg": msg, "audit": verb, "user": "u", "pod": "ns/p", "uid": "uid-p", "container": "c"}
	for i := 0; i < len(pairs); i += 2 {
		if key := pairs[i].(string); pairs[i+1] == nil {
			delete(m, key)
		} else {
			m[key] = pairs[i+1]
		}
	}
	return m
}

func TestAuditOfCommands(t *testing.T) {
	for _, tt := range []struct {
		name string
		code int32
		err  error
		want []any
	}{
		{"ends well", 0, nil, []any{"outcome", "completed", "exitCode", 0.0}},
		{"fails", 3, nil, []any{"outcome", "completed", "exitCode", 3.0}},
		{
			"cannot be run", 0, backend.Errorf(backend.ErrInvalid, "exec: %q: executable file not found", secret),
			[]any{"outcome", "failed", "class", "Invalid"},
		},
	} {
		for _, protocol := range append(protocols, "run") {
			t.Run(tt.name+"/"+protocol, func(t *testing.T) {
				engine := &fakeEngine{}
				engine.exec = func(_ context.Context, _ backend.Ref, _ string, spec backend.ExecSpec) (int32, error) {
					if spec.Stdin != nil {
						if _, err := io.ReadFull(spec.Stdin, make([]byte, len(secret))); err != nil {
							t.Error(err)
						}
					}
					return tt.code, tt.err
				}
				s := streaming(t, engine, nil)
				if protocol == "run" {
					resp := s.caller(t, nil, "t")("POST /run/ns/p/c?cmd=" + secret + "+x")
					if text := body(t, resp); tt.err != nil && !strings.Contains(text, secret) {
						t.Errorf("the caller is not told what failed: %q", text)
					}
					s.expectTrail(t, line(auditBegan, "run"), line(auditEnded, "run", tt.want...))
					return
				}
				err := command(t, s, protocol, "/exec/ns/p/c?command=mysql&command=-p"+secret+"&input=1&output=1",
					streams{stdin: io.MultiReader(strings.NewReader(secret), never(t))})
				if (err != nil) != (tt.code != 0 || tt.err != nil) {
					t.Errorf("the client got %v", err)
				}
				s.expectTrail(t, line(auditBegan, "exec"), line(auditEnded, "exec", tt.want...))
			})
		}
	}
}

func TestAuditOfAttachThatItsClientEnds(t *testing.T) {
	attached := make(chan struct{})
	engine := &fakeEngine{}
	engine.attach = func(ctx context.Context, _ backend.Ref, _ string, _ backend.AttachSpec) error {
		close(attached)
		<-ctx.Done()
		return ctx.Err()
	}
	s := streaming(t, engine, nil)
	ctx, hangUp := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- command(t, s, "SPDY", "/attach/ns/p/c?output=1", streams{ctx: ctx})
	}()
	<-attached
	s.expectTrail(t, line(auditBegan, "attach")) // before it ends: a trail survives a crash
	hangUp()
	if err := <-ended; err == nil {
		t.Error("the client that hung up got no error")
	}
	s.expectTrail(t, line(auditBegan, "attach"), line(auditEnded, "attach", "outcome", "closed"))
}

// A port-forward says when it began and that it ended, and nothing of what went through it.
func TestAuditOfPortForward(t *testing.T) {
	shouts := ports{80: func(conn *net.TCPConn) {
		said := make([]byte, len(secret))
		if _, err := io.ReadFull(conn, said); err == nil {
			_, _ = conn.Write(bytes.ToUpper(said))
		}
		_, _ = io.Copy(io.Discard, conn)
	}}
	shouted := strings.ToUpper(secret)
	for _, tt := range []struct {
		protocol string
		// talk sends the secret through a forwarded port, returns what came back, and hangs up.
		talk func(t *testing.T, s *served, beforeTheEnd func()) string
	}{
		{"SPDY", func(t *testing.T, s *served, beforeTheEnd func()) string {
			conn, _, err := s.dialer(t, "/portForward/ns/p").Dial("portforward.k8s.io")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			data, _ := open(t, conn, "80", "1")
			if _, err := io.WriteString(data, secret); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(shouted))
			if _, err := io.ReadFull(data, got); err != nil {
				t.Fatal(err)
			}
			beforeTheEnd()
			return string(got)
		}},
		{"WebSocket", func(t *testing.T, s *served, beforeTheEnd func()) string {
			conn := s.webSocket(t, "/portForward/ns/p?port=80", "v4.channel.k8s.io")
			defer conn.(io.Closer).Close()
			if err := conn.WriteMessage(binaryMessage, []byte("\x00"+secret)); err != nil {
				t.Fatal(err)
			}
			for {
				_, frame, err := conn.ReadMessage()
				if err != nil {
					t.Fatal(err)
				}
				if len(frame) > 0 && frame[0] == 0 && string(frame[1:]) != "\x50\x00" { // which is the port's number
					beforeTheEnd()
					return string(frame[1:])
				}
			}
		}},
	} {
		t.Run(tt.protocol, func(t *testing.T) {
			engine := &fakeEngine{}
			engine.forward = shouts.forward(t)
			s := streaming(t, engine, nil)
			began := line(auditBegan, "portForward", "container", nil)
			if got := tt.talk(t, s, func() { s.expectTrail(t, began) }); got != shouted {
				t.Errorf("the port answered %q", got)
			}
			s.expectTrail(t, began, line(auditEnded, "portForward", "container", nil, "outcome", "closed"))
			if strings.Contains(s.logged.String(), shouted) {
				t.Errorf("the log tells what was answered:\n%s", s.logged)
			}
		})
	}
}

func TestAuditOfRefusals(t *testing.T) {
	engine := &fakeEngine{}
	engine.refuse(backend.Errorf(backend.ErrNotFound, "pod does not exist"))
	r := &reviews{tokens: map[string]string{"t": "u", "other": "o"}, rights: all("u")}
	s := serve(t, engine, r, nil)
	s.caller(t, nil, "t")("/portForward/ns/p")
	s.caller(t, nil, "other")("/exec/ns/p/c?command=" + secret)
	s.caller(t, nil, "other")("/pods") // which is no reach into a pod
	s.expectTrail(t,
		line(auditRefused, "portForward", "class", "NotFound", "container", nil),
		line(
			auditRefused, "exec", "user", "o", "class", "Forbidden", "path", "/exec/ns/p/c", "pod", nil, "uid", nil, "container",
			nil,
		))
}

// A flood of forbidden requests does not become one of the log.
func TestAuditOfManyRefusals(t *testing.T) {
	s := serve(t, &fakeEngine{}, &reviews{tokens: map[string]string{"t": "u"}}, nil)
	call := s.caller(t, nil, "t")
	for range 100 {
		_ = body(t, call("/exec/ns/p/c"))
	}
	if n := len(s.trail(t)); n < 10 || n > 50 {
		t.Errorf("%d lines of 100 refusals, want 10 and one a second", n)
	}
}

// The client of the API server is told where it is known.
func TestAuditOfForwardedCallers(t *testing.T) {
	engine := &fakeEngine{}
	engine.refuse(errors.New("no"))
	s := streaming(t, engine, nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/attach/ns/p/c?output=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer t")
	req.Header.Set("X-Forwarded-For", "192.0.2.7"+strings.Repeat(", x", 1000))
	resp, err := (&http.Client{Transport: s.transport(t)}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	lines := s.trail(t)
	if len(lines) != 1 {
		t.Fatalf("lines %v", lines)
	}
	if via, _ := lines[0]["forwardedFor"].(string); !strings.HasPrefix(via, "192.0.2.7, x") ||
		len(via) != maxForwardedFor {
		t.Errorf("forwarded for %q", via)
	}
}
