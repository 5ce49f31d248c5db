package sshlink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sshchannel"
)

const (
	// marker starts the lines that our scripts write, among what a login shell may
	// say by itself.
	marker = "burstlet:"
	// outputLimit bounds what is kept of a script's output.
	outputLimit = 64 << 10
	// complaintLimit bounds what is kept of its standard error.
	complaintLimit = 1 << 10
)

// session is a command that runs on the host: its standard input and output as a
// net.Conn.
type session struct {
	*sshchannel.Conn
	// on is the connection that it runs on.
	on *connection
	// complained is closed when its standard error has been read to the end.
	complained chan struct{}

	mu     sync.Mutex
	status string
	known  bool
}

// start runs a command by the user's login shell. What it writes to its standard
// error goes to complain.
func (c *connection) start(ctx context.Context, command string, complain io.Writer) (*session, error) {
	ch, err := c.open(ctx, "session", nil)
	if err != nil {
		return nil, explainSession(err)
	}
	s := &session{on: c, complained: make(chan struct{})}
	end := namedEnd{"ssh", c.hop.Address}
	if s.Conn = sshchannel.New(c.link(), ch.Channel, ch.requests, end, end, s.note); s.Conn == nil {
		return nil, c.lost()
	}
	if !c.spawn(func() {
		defer close(s.complained)
		_, _ = io.Copy(complain, ch.Stderr()) // ends with the session
	}) {
		return nil, c.lost()
	}
	granted, err := c.request(ctx, ch, "exec", execRequest{command})
	if err == nil && !granted {
		err = backend.Errorf(backend.ErrDenied, "the host runs no command for this user")
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// hang ends the session without waiting for its command.
func (s *session) hang() { _ = s.Close() } // it never fails

// note takes the exit status.
func (s *session) note(r *ssh.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Type {
	case "exit-status":
		var status struct{ Status uint32 }
		if ssh.Unmarshal(r.Payload, &status) == nil {
			s.known = true
			if status.Status != 0 {
				s.status = fmt.Sprintf("exit status %d", status.Status)
			}
		}
	case "exit-signal":
		var status struct {
			Signal string
			Core   bool
			Error  string
			Lang   string
		}
		if ssh.Unmarshal(r.Payload, &status) == nil {
			s.known, s.status = true, "signal "+status.Signal
		}
	}
}

// result is for when the session is gone; nil after an exit with status 0.
func (s *session) result() error {
	<-s.complained
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.known:
		return errors.New("ended without an exit status")
	case s.status != "":
		return errors.New(s.status)
	default:
		return nil
	}
}

func explainSession(err error) error {
	var refusal *ssh.OpenChannelError
	if errors.As(err, &refusal) {
		return backend.Errorf(
			backend.ErrUnavailable, "the host opens no session: %s (MaxSessions in its sshd_config must be 3 or more)",
			refusal.Message,
		)
	}
	return err
}

// shell runs a script by /bin/sh and returns its output.
func (c *connection) shell(ctx context.Context, script string) (string, error) {
	return c.run(ctx, "exec /bin/sh -c "+quote(script), nil)
}

// run runs a command with an input and returns its output. A failed one is an
// error with its complaint.
func (c *connection) run(ctx context.Context, command string, input []byte) (string, error) {
	complaint := &tail{limit: complaintLimit}
	s, err := c.start(ctx, command, complaint)
	if err != nil {
		return "", err
	}
	defer s.hang()
	stop := context.AfterFunc(ctx, s.hang)
	defer stop()
	output := &tail{limit: outputLimit}
	copied := make(chan error, 1)
	if !c.spawn(func() {
		_, err := io.Copy(output, s)
		copied <- err
	}) {
		return "", c.lost()
	}
	// A command that does not read its input says why by ending.
	_, writeErr := s.Write(input)
	writeErr = errors.Join(writeErr, s.CloseWrite())
	err = <-copied
	if err == nil {
		select {
		case <-s.Gone():
			err = s.result()
		case <-ctx.Done():
		}
	}
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, backend.ErrUnavailable):
		return "", err
	case err != nil:
		if said := oneLine(complaint.String()); said != "" {
			return output.String(), fmt.Errorf("%w: %s", err, said)
		}
		return output.String(), err
	case len(input) > 0 && writeErr != nil:
		return output.String(), writeErr
	}
	return output.String(), nil
}

// quote makes one word of a text for every shell that a user may have.
func quote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// marked is what follows the marker and key on the last line that has them.
func marked(output, key string) string {
	found := ""
	for line := range strings.Lines(output) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), marker+key); ok {
			found = rest
		}
	}
	return found
}

// oneLine is the last line that is not empty.
func oneLine(text string) string {
	found := ""
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			found = line
		}
	}
	return found
}

// tail keeps the end of what is written.
type tail struct {
	limit int
	mu    sync.Mutex
	data  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if over := len(t.data) - t.limit; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

// keep replaces what is kept.
func (t *tail) keep(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data[:0], text...)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.data)
}
