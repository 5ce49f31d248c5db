package ecs

import (
	"strconv"
	"strings"
	"time"
)

// script reads what a shell script does. It knows these statements, separated by
// ; && and new lines:
//
//	true, false, :, exit N, sleep N
//	echo TEXT, seq N                    lines of the log, unless sent to a file
//	trap '' TERM                        ignores SIGTERM
//	trap 'exit K' TERM                  exits K on it
//	while true; do ...; done            with echo, sleep and $i, which counts
//	                                    rounds (i=0 and i=$((i+1)) are passed over)
//	oom                                 ends for want of memory
//	healthy [N], unhealthy [N]          what health checks see for N seconds, then
//	                                    what the next one says, or for ever
//
// A script with any other statement runs from there until it is stopped.
func script(text string) behaviour {
	r := &reader{b: behaviour{outcome: outcome{termExit: exitTerm}, plain: true}}
	all := statements(text)
	for i, st := range all {
		if !r.read(st) {
			continue
		}
		if r.b.after == never { // what it does then may still set traps
			for _, st := range all[i+1:] {
				if len(st.words) > 0 && st.words[0] == "trap" {
					r.trap(st.words)
				}
			}
		}
		return r.b
	}
	if r.inLoop {
		r.forever()
	}
	return r.b
}

// reader is where the reading of a script stands.
type reader struct {
	b       behaviour
	inLoop  bool
	started time.Duration // of the loop
	health  time.Duration // until when phases are known
}

// forever ends the reading with a container that runs until it is stopped.
func (r *reader) forever() bool {
	r.b.after, r.b.exit = never, 0
	return true
}

// unknown is forever of what is not known to the server: it handles SIGTERM.
func (r *reader) unknown() bool {
	r.b.plain = false
	return r.forever()
}

// read adds what one statement does and returns true if nothing follows it.
func (r *reader) read(st statement) (ends bool) {
	w := st.words
	for len(w) > 0 && (w[0] == "do" || w[0] == "exec") {
		w = w[1:]
	}
	if len(w) == 0 {
		return false
	}
	switch w[0] {
	case "echo", "seq":
		return r.output(w, st.toFile)
	case "trap":
		r.trap(w)
	case "while":
		return r.loop(w)
	case "done":
		return r.endLoop()
	case "healthy", "unhealthy":
		r.phase(w)
	case "i=0", "i=$((i+1))", ":", "set":
	default:
		return r.end(w)
	}
	return false
}

// end reads the statements that take time or end the script.
func (r *reader) end(w []string) (ends bool) {
	switch {
	case w[0] == "sleep" && len(w) == 2:
		d, ok := seconds(w[1])
		if !ok {
			return r.unknown()
		}
		r.b.after, r.b.exit = sum(r.b.after, d), 0
		return d == never
	case w[0] == "exit" && len(w) == 2:
		code, err := strconv.ParseUint(w[1], 10, 8)
		if err != nil || r.inLoop {
			return r.unknown()
		}
		r.b.exit = int32(code)
		return true
	case w[0] == "oom" && !r.inLoop:
		r.b.exit, r.b.oom = exitKill, true
		return true
	case w[0] == "true" && len(w) == 1:
		r.b.exit = 0
	case w[0] == "false" && len(w) == 1:
		r.b.exit = 1
	default:
		return r.unknown()
	}
	return false
}

// output reads the statements that write.
func (r *reader) output(w []string, toFile bool) (ends bool) {
	p := printed{text: strings.Join(w[1:], " "), n: 1}
	if w[0] == "seq" {
		n, err := strconv.Atoi(w[len(w)-1])
		if err != nil || len(w) != 2 || n < 1 {
			return r.unknown()
		}
		p = printed{n: n, numbers: true}
	}
	if !toFile {
		r.print(p)
	}
	return false
}

func (r *reader) print(p printed) {
	if r.b.after == never {
		return
	}
	if r.inLoop {
		p.at = r.b.after - r.started
		r.b.cycle = append(r.b.cycle, p)
		return
	}
	p.at = r.b.after
	r.b.once = append(r.b.once, p)
}

// trap reads "trap ” TERM" and "trap 'exit N' TERM".
func (r *reader) trap(w []string) {
	if len(w) < 3 || w[len(w)-1] != "TERM" && w[len(w)-1] != "SIGTERM" && w[len(w)-1] != "15" {
		return
	}
	if w[1] == "" {
		r.b.ignoresTerm = true
		return
	}
	if code, ok := strings.CutPrefix(w[1], "exit "); ok {
		if n, err := strconv.ParseUint(strings.TrimSpace(code), 10, 8); err == nil {
			r.b.termExit, r.b.plain = int32(n), false
		}
	}
}

func (r *reader) loop(w []string) (ends bool) {
	if r.inLoop || len(w) != 2 || w[1] != "true" && w[1] != ":" {
		return r.unknown()
	}
	r.inLoop, r.started = true, r.b.after
	return false
}

// endLoop knows the period of a loop, which never ends. One without a pause would
// write without bound: it writes nothing.
func (r *reader) endLoop() bool {
	if r.inLoop {
		r.b.from, r.b.period = r.started, r.b.after-r.started
		if r.b.period <= 0 || r.b.after == never {
			r.b.cycle, r.b.period = nil, 0
		}
	}
	return r.forever()
}

func (r *reader) phase(w []string) {
	if r.health == never {
		return
	}
	r.b.phases = append(r.b.phases, phase{from: r.health, healthy: w[0] == "healthy"})
	length := never
	if len(w) == 2 {
		if d, ok := seconds(w[1]); ok {
			length = d
		}
	}
	r.health = sum(r.health, length)
}

// statement is a part of a script, as words without their quotes.
type statement struct {
	words  []string
	toFile bool // its output does not come into the log
}

// statements takes a script apart.
func statements(text string) []statement {
	var l lexer
	for i, c := range text {
		l.add(c, text[i:])
	}
	l.endStatement()
	return l.out
}

// lexer is where the taking apart of a script stands.
type lexer struct {
	out        []statement
	st         statement
	word       strings.Builder
	inWord     bool
	quote      rune
	redirected bool // the next word is where output goes
	amp        bool // the last character was the first of &&
}

func (l *lexer) add(c rune, rest string) {
	if l.quote != 0 {
		if c == l.quote {
			l.quote = 0
			return
		}
		l.word.WriteRune(c)
		return
	}
	switch {
	case l.amp:
		l.amp = false
	case strings.HasPrefix(rest, "&&"):
		l.amp = true
		l.endStatement()
	case c == '\'' || c == '"':
		l.quote, l.inWord = c, true
	case c == ';' || c == '\n':
		l.endStatement()
	case c == ' ' || c == '\t':
		l.endWord()
	case c == '>':
		if w := l.word.String(); w == "1" || w == "2" {
			l.word.Reset()
			l.inWord = false
		}
		l.endWord()
		l.redirected = true
	default:
		l.word.WriteRune(c)
		l.inWord = true
	}
}

func (l *lexer) endWord() {
	if !l.inWord {
		return
	}
	w := l.word.String()
	if l.redirected {
		l.st.toFile = l.st.toFile || !strings.HasPrefix(w, "&") && !strings.HasPrefix(w, "/dev/std")
		l.redirected = false
	} else {
		l.st.words = append(l.st.words, w)
	}
	l.word.Reset()
	l.inWord = false
}

func (l *lexer) endStatement() {
	l.endWord()
	l.out = append(l.out, l.st)
	l.st = statement{}
}
