package sim

import (
	"fmt"
	"io"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// live is a machine on which time passes: one command in a running container, or
// the container's own program once somebody is attached to its input.
type live struct {
	watched
	done  <-chan struct{}
	stdin *input // nil is empty
	out   map[int]io.Writer
	tty   *terminal // nil is none
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
	l.tty = &terminal{echo: func(text string) { l.emit(1, text) }}
}

// run runs a command line to its end.
func (l *live) run(p *process, argv []string) (int32, error) {
	if p.runArgv(argv) == stays {
		l.hold(time.Time{}, false)
		if l.tty.takeInterrupt() {
			return exitInterrupt, nil
		}
	}
	return p.status, l.err
}

// hold passes time until a moment (zero is never), or until there is input to
// read if that is asked for.
func (l *live) hold(until time.Time, reading bool) wakeup {
	for !l.cut && l.err == nil {
		switch {
		case l.tty != nil && l.tty.interrupt:
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
	wanted := reading || (l.tty != nil && !l.tty.full())
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
		if l.tty != nil && len(l.tty.editing) > 0 {
			l.tty.push(l.tty.editing)
		}
	case l.tty != nil:
		l.tty.typed(part)
	default:
		l.stdin.parts = append(l.stdin.parts, part)
	}
}

// readable is true when a read would not wait.
func (l *live) readable() bool {
	return l.stdin == nil || l.stdin.ended || len(l.stdin.parts) > 0 || (l.tty != nil && len(l.tty.lines) > 0)
}

func (l *live) next() ([]byte, bool) {
	if l.hold(time.Time{}, true) != byInput {
		return nil, false
	}
	in := l.stdin
	switch {
	case l.tty != nil && len(l.tty.lines) > 0:
		return l.tty.line(), true
	case in == nil || len(in.parts) == 0:
		return nil, true
	}
	part := in.parts[0]
	in.parts = in.parts[1:]
	return part, true
}

func (l *live) sleep(d time.Duration) bool {
	var until time.Time
	if d > 0 {
		until = time.Now().Add(d)
	}
	if d == 0 {
		return !l.cut && l.err == nil
	}
	return l.hold(until, false) == byTime
}

func (l *live) emit(fd int, text string) {
	if l.tty != nil {
		fd, text = 1, onTerminal(text)
	}
	w := l.out[fd]
	if w == nil || text == "" || l.cut || l.err != nil {
		return
	}
	if _, err := io.WriteString(w, text); err != nil {
		l.err = fmt.Errorf("write output: %w", err)
	}
}

func (l *live) terminal() *terminal { return l.tty }

func (l *live) interactive() *terminal { return l.tty }

func (l *live) clock() time.Time { return time.Now() }

// ran is how long the container has been running.
func (l *live) ran() time.Duration {
	now := l.remote.lock()
	defer l.remote.mu.Unlock()
	return now.Sub(l.container.started)
}

func (l *live) look(name string) entry {
	now := l.remote.lock()
	defer l.remote.mu.Unlock()
	return l.container.look(name, now)
}

func (l *live) list(dir string) ([]string, bool) {
	now := l.remote.lock()
	defer l.remote.mu.Unlock()
	look := func(name string) entry { return l.container.look(name, now) }
	return l.container.list(dir, look, nil)
}

func (l *live) change(name string, op writeOp, data string) string {
	now := l.remote.lock()
	defer l.remote.mu.Unlock()
	c := l.container
	w, why := c.change(now.Sub(c.started), name, op, data)
	switch {
	case why != "":
		return why
	case !c.fits(w):
		return noSpace
	}
	c.keep(w)
	return ""
}

// listen is for nobody: what a command serves ends with it.
func (l *live) listen(listener) {}

func (l *live) ignoreTerm() {}

// unknown fails as a shell does, or as a runtime that finds no such program.
func (l *live) unknown(name string, shell bool) (int32, flow) {
	switch {
	case !shell:
		l.err = backend.Errorf(backend.ErrInvalid, "exec: %q: executable file not found in $PATH", name)
		return 0, stays
	case name == "":
		l.emit(2, "sh: syntax that the simulator does not know\n")
		return 2, ends
	default:
		l.emit(2, "sh: "+name+": not found\n")
		return 127, goesOn
	}
}
