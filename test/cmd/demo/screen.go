package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	// indent is before all that is not a heading.
	indent = "    "
	// stillEvery is how often a long step tells that it goes on.
	stillEvery = 10 * time.Second
	// tailLines is how many lines of a log are shown when something failed.
	tailLines = 20
)

// screen is what people look at. It is safe for concurrent use.
type screen struct {
	began time.Time
	mu    sync.Mutex
	out   io.Writer
}

func newScreen(out io.Writer) *screen { return &screen{began: time.Now(), out: out} }

// heading starts a step and says how long the demo has run.
func (s *screen) heading(format string, args ...any) {
	s.write(fmt.Sprintf("\n[%5.1fs] %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...)))
}

// note says something about the step.
func (s *screen) note(format string, args ...any) {
	s.text(fmt.Sprintf(format, args...))
}

// command shows a command as a person would type it.
func (s *screen) command(name string, args ...string) {
	s.text("$ " + commandLine(name, args...))
}

// text shows lines as they are.
func (s *screen) text(text string) {
	if text = strings.TrimRight(text, "\n"); text == "" {
		return
	}
	s.write(indent + strings.ReplaceAll(text, "\n", "\n"+indent) + "\n")
}

// write ignores errors: there is nowhere else to tell of them, and what was
// started is taken down all the same.
func (s *screen) write(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.out, text)
}

// during runs a long step. The log that the step gets is not shown, but for lines
// that start with one of the prefixes; every few seconds it says how long the
// step has taken and what it logged last. An error quotes the end of the log.
func (s *screen) during(ctx context.Context, prefixes []string, step func(context.Context, io.Writer) error) error {
	began := time.Now()
	log := &stepLog{screen: s, prefixes: prefixes}
	stop := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() {
		ticker := time.NewTicker(stillEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.note("… %s%s", time.Since(began).Round(time.Second), log.last())
			case <-stop:
				return
			}
		}
	})
	err := step(ctx, log)
	close(stop)
	ticking.Wait()
	if tail := log.tail(); err != nil && ctx.Err() == nil && tail != "" {
		return fmt.Errorf("%w; it said last:\n%s", err, tail)
	}
	return err
}

// stepLog is the log of a long step.
type stepLog struct {
	screen   *screen
	prefixes []string

	mu      sync.Mutex
	partial []byte
	lines   []string // the last ones
}

// Write takes any part of the log.
func (l *stepLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, p...)
	for {
		line, rest, found := bytes.Cut(l.partial, []byte("\n"))
		if !found {
			return len(p), nil
		}
		l.take(strings.TrimRight(string(line), " \r"))
		l.partial = rest
	}
}

func (l *stepLog) take(line string) {
	if line == "" {
		return
	}
	l.lines = append(l.lines[max(0, len(l.lines)-tailLines+1):], line)
	for _, prefix := range l.prefixes {
		if strings.HasPrefix(line, prefix) {
			l.screen.text(line)
			return
		}
	}
}

func (l *stepLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == 0 {
		return ""
	}
	return " (" + l.lines[len(l.lines)-1] + ")"
}

func (l *stepLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// commandLine quotes the words that a shell would not take as they are.
func commandLine(name string, args ...string) string {
	words := []string{name}
	for _, arg := range args {
		if arg == "" || strings.ContainsAny(arg, " \t\n\"'`$&|;<>()*?[]{}\\#~!") {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}
