// Package terminal is a terminal's line discipline, as a kernel has it, between
// what a user types and what a program reads. It imports the rest of the project
// for the size of the user's terminal alone.
package terminal

import (
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/burstlet/burstlet/backend"
)

// Terminal echoes what is typed, lets the user edit a line, hands on whole lines,
// and turns ^C into an interrupt and ^D into an end of input. But for the size it
// belongs to the goroutine of its process. A nil Terminal is none: it has no size
// to follow and no interrupts.
type Terminal struct {
	// echo shows the user what was typed.
	echo func(string)
	// editing is the line being typed; lines are complete and not yet read, an
	// empty one being an end of input; held is their length.
	editing []byte
	lines   [][]byte
	held    int
	escape  escapeState
	// interrupt says that ^C was typed and nobody took it yet.
	interrupt bool

	size atomic.Pointer[backend.TerminalSize]
}

// escapeState is how much of an escape sequence (an arrow key's) was typed.
type escapeState int

const (
	noEscape escapeState = iota
	afterEscape
	inSequence
)

// What a user types beside text.
const (
	ctrlC     = 0x03
	ctrlD     = 0x04
	ctrlU     = 0x15
	backspace = 0x08
	escapeKey = 0x1b
	deleteKey = 0x7f
)

// maxTyped is how much may be typed ahead before the terminal takes no more.
const maxTyped = 64 << 10

// New makes a terminal that shows its user what was typed with echo.
func New(echo func(string)) *Terminal { return &Terminal{echo: echo} }

// Full is true while the terminal takes no more.
func (t *Terminal) Full() bool { return t.held+len(t.editing) > maxTyped }

// Type takes in what the user typed.
func (t *Terminal) Type(data []byte) {
	var shown strings.Builder
	for _, b := range data {
		switch {
		case t.escaped(b):
		case b == '\r' || b == '\n':
			shown.WriteByte('\n')
			t.push(append(t.editing, '\n'))
		case b == ctrlC:
			shown.WriteString("^C\n")
			t.editing, t.lines, t.held, t.interrupt = nil, nil, 0, true
		case b == ctrlD:
			t.push(t.editing)
		case b == deleteKey || b == backspace:
			shown.WriteString(t.erase(false))
		case b == ctrlU:
			shown.WriteString(t.erase(true))
		case b >= ' ' || b == '\t':
			t.editing = append(t.editing, b)
			shown.WriteByte(b)
		}
	}
	if shown.Len() > 0 {
		t.echo(shown.String())
	}
}

// escaped swallows escape sequences: there is no history to move in.
func (t *Terminal) escaped(b byte) bool {
	switch {
	case b == escapeKey:
		t.escape = afterEscape
	case t.escape == afterEscape && (b == '[' || b == 'O'):
		t.escape = inSequence
	case t.escape == afterEscape, t.escape == inSequence && b >= '@' && b <= '~':
		t.escape = noEscape
	case t.escape == noEscape:
		return false
	}
	return true
}

// EndInput hands on a line that was begun: nothing more will be typed.
func (t *Terminal) EndInput() {
	if len(t.editing) > 0 {
		t.push(t.editing)
	}
}

func (t *Terminal) push(line []byte) {
	t.lines, t.held, t.editing = append(t.lines, line), t.held+len(line), nil
}

// erase takes back the last character, or all, and returns what shows it.
func (t *Terminal) erase(all bool) string {
	n := 0
	for len(t.editing) > 0 && (all || n == 0) {
		_, size := utf8.DecodeLastRune(t.editing)
		t.editing = t.editing[:len(t.editing)-size]
		n++
	}
	return strings.Repeat("\b \b", n)
}

// HasLine is true when a line or an end of input can be taken.
func (t *Terminal) HasLine() bool { return len(t.lines) > 0 }

// Line takes the oldest complete line, which there must be; nil is an end of
// input.
func (t *Terminal) Line() []byte {
	line := t.lines[0]
	t.lines, t.held = t.lines[1:], t.held-len(line)
	if len(line) == 0 {
		return nil
	}
	return line
}

// Interrupted is true when ^C was typed and nobody took it yet.
func (t *Terminal) Interrupted() bool { return t != nil && t.interrupt }

// TakeInterrupt is true once for each ^C.
func (t *Terminal) TakeInterrupt() bool {
	if !t.Interrupted() {
		return false
	}
	t.interrupt = false
	return true
}

// follow takes over the sizes of the user's terminal until they or the call end.
func (t *Terminal) follow(sizes <-chan backend.TerminalSize, quit <-chan struct{}) {
	for {
		select {
		case size, ok := <-sizes:
			if !ok {
				return
			}
			t.size.Store(&size)
		case <-quit:
			return
		}
	}
}

// Size is the last that is known of the user's terminal; zero where none is.
func (t *Terminal) Size() backend.TerminalSize {
	if size := t.size.Load(); size != nil {
		return *size
	}
	return backend.TerminalSize{}
}

// Follow takes over sizes in the background until they end or quit is closed. The
// size that is there already is that of the terminal from the start.
func (t *Terminal) Follow(sizes <-chan backend.TerminalSize, quit <-chan struct{}) {
	if t == nil || sizes == nil {
		return
	}
	select {
	case size, ok := <-sizes:
		if !ok {
			return
		}
		t.size.Store(&size)
	default:
	}
	go t.follow(sizes, quit)
}

// Shown is how a terminal shows text: it ends lines as a typewriter does.
func Shown(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }
