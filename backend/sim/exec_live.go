package sim

import (
	"fmt"
	"io"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/shell"
	"github.com/burstlet/burstlet/backend/sim/terminal"
)

// live is a machine on which time passes: one command in a running container, or
// the container's own program once somebody is attached to its input.
type live struct {
	watched
	done  <-chan struct{}
	stdin *input // nil is empty
	out   map[int]io.Writer
	tty   *terminal.Terminal // nil is none
	// cut says that the command did not live to its end; err is why it could not
	// go on where that was not its caller's or its container's end.
	cut bool
	err error
}

// input is a standard input that is read only when somebody wants it, but on a
// terminal, where ^C may come at any time.
type input struct {
	open  func() <-chan []byte
	data  <-chan []byte
	parts [][]byte // read, and not yet used
	ended bool
}

// onTerminal gives the machine a terminal, which shows what is typed.
func (l *live) onTerminal() {
	l.tty = terminal.New(func(text string) { l.Write(1, text) })
}

// run runs a command line to its end.
func (l *live) run(argv []string) (int32, error) {
	status, ended := shell.Run(l, l.container.forShell(), argv)
	if !ended {
		l.hold(time.Time{}, false)
		if l.tty.TakeInterrupt() {
			return shell.ExitInterrupted, nil
		}
	}
	return status, l.err
}

// hold passes time until a moment (zero is never), or until there is input to
// read if that is asked for.
func (l *live) hold(until time.Time, reading bool) wakeup {
	for !l.cut && l.err == nil {
		switch {
		case l.tty.Interrupted():
			return byInterrupt
		case reading && l.readable():
			return byInput
		}
		part, why := l.wait(until, l.done, l.listens(reading))
		switch why {
		case byTime:
			return byTime
		case byInput:
			l.take(part)
		default:
			l.cut = true
		}
	}
	return ended
}

// listens is where the next input comes from; nil while none is wanted.
func (l *live) listens(reading bool) <-chan []byte {
	in := l.stdin
	wanted := reading || (l.tty != nil && !l.tty.Full())
	if in == nil || in.ended || !wanted {
		return nil
	}
	if in.data == nil {
		in.data = in.open()
	}
	return in.data
}

// take keeps a part of the input; nil is its end.
func (l *live) take(part []byte) {
	switch {
	case part == nil:
		l.stdin.ended = true
		if l.tty != nil {
			l.tty.EndInput()
		}
	case l.tty != nil:
		l.tty.Type(part)
	default:
		l.stdin.parts = append(l.stdin.parts, part)
	}
}

// readable is true when a read would not wait.
func (l *live) readable() bool {
	return l.stdin == nil || l.stdin.ended || len(l.stdin.parts) > 0 || (l.tty != nil && l.tty.HasLine())
}

// ReadInput waits for the next part of the input, on a terminal for the next line.
func (l *live) ReadInput() ([]byte, bool) {
	if l.hold(time.Time{}, true) != byInput {
		return nil, false
	}
	in := l.stdin
	switch {
	case l.tty != nil && l.tty.HasLine():
		return l.tty.Line(), true
	case in == nil || len(in.parts) == 0:
		return nil, true
	}
	part := in.parts[0]
	in.parts = in.parts[1:]
	return part, true
}

// Sleep passes time; it ends early with the command.
func (l *live) Sleep(d time.Duration) bool {
	var until time.Time
	if d > 0 {
		until = time.Now().Add(d)
	}
	if d == 0 {
		return !l.cut && l.err == nil
	}
	return l.hold(until, false) == byTime
}

// Write writes to what the caller gave.
func (l *live) Write(fd int, text string) {
	if l.tty != nil {
		fd, text = 1, terminal.Shown(text)
	}
	w := l.out[fd]
	if w == nil || text == "" || l.cut || l.err != nil {
		return
	}
	if _, err := io.WriteString(w, text); err != nil {
		l.err = fmt.Errorf("write output: %w", err)
	}
}

// Terminal is the command's own.
func (l *live) Terminal() *terminal.Terminal { return l.tty }

// Interactive is the command's own terminal.
func (l *live) Interactive() *terminal.Terminal { return l.tty }

// Now is the time.
func (l *live) Now() time.Time { return time.Now() }

// ran is how long the container has been running.
func (l *live) ran() time.Duration {
	now := l.remote.lock()
	defer l.remote.mu.Unlock()
	return now.Sub(l.container.started)
}

// Lookup sees what the container does.
func (l *live) Lookup(name string) shell.Entry {
	now := l.remote.lock()
	defer l.remote.mu.Unlock()
	return l.container.lookup(name, now)
}

// ReadDir sees what the container does.
func (l *live) ReadDir(dir string) ([]string, bool) {
	now := l.remote.lock()
	defer l.remote.mu.Unlock()
	lookup := func(name string) shell.Entry { return l.container.lookup(name, now) }
	return l.container.tree().List(dir, lookup, nil)
}

// Change writes as the container.
func (l *live) Change(name string, op shell.Op, data string) string {
	now := l.remote.lock()
	defer l.remote.mu.Unlock()
	c := l.container
	w, why := c.tree().Change(now.Sub(c.started), name, op, data)
	switch {
	case why != "":
		return why
	case !w.Fits(c.program.writes):
		return shell.NoSpace
	}
	c.keep(w)
	return ""
}

// Listen does nothing: what a command serves ends with it.
func (l *live) Listen(shell.Listener) {}

// IgnoreTerm does nothing: nobody sends TERM to a command.
func (l *live) IgnoreTerm() {}

// Unknown fails as a shell does, or as a runtime that finds no such program.
func (l *live) Unknown(name string, inShell bool) (int32, shell.Flow) {
	switch {
	case !inShell:
		l.err = backend.Errorf(backend.ErrInvalid, "exec: %q: executable file not found in $PATH", name)
		return 0, shell.Stay
	case name == "":
		l.Write(2, "sh: syntax that the simulator does not know\n")
		return 2, shell.Exit
	default:
		l.Write(2, "sh: "+name+": not found\n")
		return 127, shell.Continue
	}
}
