package backendtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// session is a user at a terminal: what is typed, what is shown, and the
// terminal's sizes.
type session struct {
	keys    *keyboard
	sizes   chan backend.TerminalSize
	screen  *screen
	errors  *screen
	streams backend.AttachSpec
}

func newSession() *session {
	keys := newKeyboard()
	u := &session{keys: keys, sizes: make(chan backend.TerminalSize, 1), screen: &screen{}, errors: &screen{}}
	u.sizes <- backend.TerminalSize{Width: 80, Height: 24}
	u.streams = backend.AttachSpec{Stdin: keys, Stdout: u.screen, Stderr: u.errors, TTY: true, Resize: u.sizes}
	return u
}

// keyboard is an input that waits for what is typed.
type keyboard struct {
	typed  chan string
	rest   string
	closed chan struct{}
	close  func()
}

func newKeyboard() *keyboard {
	k := &keyboard{typed: make(chan string, 1000), closed: make(chan struct{})}
	k.close = sync.OnceFunc(func() { close(k.closed) })
	return k
}

// Read ends when the keyboard is closed.
func (k *keyboard) Read(p []byte) (int, error) {
	if k.rest == "" {
		select {
		case k.rest = <-k.typed:
		case <-k.closed:
			return 0, io.EOF
		}
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}

// line types a line, whether or not anybody reads it.
func (k *keyboard) line(text string) { k.typed <- text + "\n" }

// screen keeps what is written to it.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write never fails.
func (w *screen) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *screen) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// call makes a call in a goroutine; its error comes when it returns.
func (s *suite) call(call func() error) (done <-chan error) {
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	return ended
}

// typeUntil types a line until a screen shows what is wanted. The remote may
// lose what is typed before the program reads, and show a size late. It is typed ever
// more rarely: a busy machine has to work off all of it. It is false when the call
// ended before.
func (s *suite) typeUntil(keys *keyboard, shown *screen, done <-chan error, line, want string) bool {
	s.Helper()
	over := false
	again, pause := time.Now(), s.f.Poll
	s.eventually(fmt.Sprintf("%q shows %q", line, want), func() error {
		if len(done) > 0 {
			over = true
			return nil
		}
		if strings.Contains(shown.String(), want) {
			return nil
		}
		if now := time.Now(); !now.Before(again) {
			keys.line(line)
			again, pause = now.Add(pause), 2*pause
		}
		return fmt.Errorf("shown: %q", shown.String())
	})
	return !over
}

// useTerminal tries a shell at a terminal: both outputs on one screen, in lines
// of a terminal, and the sizes. It is false when the call ended before.
func (s *suite) useTerminal(u *session, done <-chan error) bool {
	s.Helper()
	ok := s.typeUntil(u.keys, u.screen, done, "echo e'r'r >&2", "err\r\n") &&
		s.typeUntil(u.keys, u.screen, done, "stty size", "24 80\r\n")
	if !ok {
		return false
	}
	u.sizes <- backend.TerminalSize{Width: 132, Height: 43}
	close(u.sizes)
	if !s.typeUntil(u.keys, u.screen, done, "stty size", "43 132\r\n") {
		return false
	}
	if text := u.errors.String(); text != "" {
		s.Errorf("beside the terminal's output: %q", text)
	}
	return true
}

// ended waits for the end of a call.
func (s *suite) ended(done <-chan error, what string) error {
	s.Helper()
	var result error
	s.eventually(what+" returns", func() error {
		select {
		case result = <-done:
			return nil
		default:
			return errors.New("it has not")
		}
	})
	return result
}

func execTerminal(s *suite) {
	c := s.inside()
	u := newSession()
	defer u.keys.close()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	var code int32
	done := s.call(func() (err error) {
		code, err = s.Exec.Exec(ctx, c, backend.ExecSpec{
			Command: program{"sh"}, Stdin: u.keys, Stdout: u.screen, Stderr: u.errors, TTY: true, Resize: u.sizes,
		})
		return err
	})
	if s.useTerminal(u, done) {
		u.keys.line("exit 3")
	}
	err := s.ended(done, "a shell that was left")
	switch {
	case errors.Is(err, backend.ErrUnsupported):
		s.refused = err.Error()
	case err != nil || code != 3:
		s.Errorf("a shell that was left: %d, %v, want 3; shown: %q", code, err, u.screen.String())
	}
}

func execBigOutput(s *suite) {
	const size = 1 << 20
	c := s.inside()
	out, code := s.exec(c, "", "head", "-c", fmt.Sprint(size), "/dev/zero")
	if code != 0 || len(out) != size || strings.Trim(out, "\x00") != "" {
		s.Errorf("of %d bytes %d came, exit code %d", size, len(out), code)
	}
}
