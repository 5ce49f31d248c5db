package sim

import (
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// FromArgv reads a Life from a container's command and arguments, as a busybox
// image would run them:
//
//	true, false, echo TEXT     exit at once with 0, 1, 0
//	sleep N, sleep infinity    exit 0 after N seconds (or 5m, 1h), or never
//	exit N                     exit with N (in a script)
//	trap '' TERM               ignore TERM from here on (in a script)
//	sh -c "A; B && C"          a script of these
//
// Anything else, and a script from there on, runs until it is stopped. A Script
// may fall back on it.
func FromArgv(c corev1.Container) Life { return readProgram(c).Life }

// program is a Life and what it writes.
type program struct {
	Life
	lines []line
}

// line is one line of output, written at an offset from the start.
type line struct {
	at   time.Duration
	text string
}

func readProgram(c corev1.Container) program {
	argv := append(append([]string(nil), c.Command...), c.Args...)
	var p program
	switch {
	case len(argv) == 0:
		p.RunFor = -1
	case isShell(argv[0]):
		if len(argv) < 3 || argv[1] != "-c" {
			p.RunFor = -1
			break
		}
		p.run(parseScript(argv[2]))
	default:
		p.run([]statement{{words: argv}})
	}
	return p
}

func isShell(arg string) bool {
	switch path.Base(arg) {
	case "sh", "ash", "dash", "bash":
		return true
	}
	return false
}

// run executes the statements on paper.
func (p *program) run(script []statement) {
	for _, s := range script {
		if s.and && p.ExitCode != 0 {
			continue
		}
		if !p.step(s) {
			return
		}
	}
}

// step executes one statement and is false when the program goes no further.
func (p *program) step(s statement) bool {
	if len(s.words) == 0 || s.opaque {
		return p.forever()
	}
	name, args := path.Base(s.words[0]), s.words[1:]
	switch name {
	case "true", ":":
		p.ExitCode = 0
	case "false":
		p.ExitCode = 1
	case "echo":
		p.lines = append(p.lines, line{p.RunFor, strings.Join(args, " ")})
		p.ExitCode = 0
	case "exit":
		p.exit(args)
		return false
	case "sleep":
		d, ok := seconds(args)
		if !ok || p.RunFor > math.MaxInt64-d {
			return p.forever()
		}
		p.RunFor += d
		p.ExitCode = 0
	case "trap":
		if len(args) != 2 || args[0] != "" || strings.TrimPrefix(args[1], "SIG") != "TERM" {
			return p.forever()
		}
		p.IgnoreTerm = true
	default:
		return p.forever()
	}
	return true
}

func (p *program) forever() bool {
	p.RunFor, p.ExitCode = -1, 0
	return false
}

func (p *program) exit(args []string) {
	if len(args) == 0 {
		return // the status of the last command
	}
	n, err := strconv.ParseUint(args[0], 10, 8)
	if err != nil {
		p.forever()
		return
	}
	p.ExitCode = int32(n)
}

// seconds reads the operand of sleep; false is infinity or not a duration.
func seconds(args []string) (time.Duration, bool) {
	if len(args) != 1 {
		return 0, false
	}
	if n, err := strconv.ParseFloat(args[0], 64); err == nil {
		const most = 100 * 365 * 24 * 3600
		if n < 0 || !(n <= most) {
			return 0, false
		}
		return time.Duration(n * float64(time.Second)), true
	}
	d, err := time.ParseDuration(args[0])
	return d, err == nil && d >= 0
}

// statement is one simple command of a script.
type statement struct {
	words []string
	// and marks a command that runs only after a success.
	and bool
	// opaque marks shell syntax beyond the convention.
	opaque bool
}

// parseScript splits a script into statements, minding quotes.
func parseScript(src string) []statement {
	p := scriptParser{}
	for i := 0; i < len(src); i++ {
		i += p.feed(src[i], src[i+1:])
	}
	p.endStatement()
	return p.out
}

type scriptParser struct {
	out    []statement
	cur    statement
	word   strings.Builder
	inWord bool
	quote  byte
}

// feed takes one byte and returns how many of the following it took as well.
func (p *scriptParser) feed(c byte, rest string) int {
	switch {
	case p.quote != 0:
		if c == p.quote {
			p.quote = 0
		} else {
			p.word.WriteByte(c)
		}
	case c == '\'' || c == '"':
		p.quote, p.inWord = c, true
	case c == ' ' || c == '\t':
		p.endWord()
	case c == ';' || c == '\n':
		p.endStatement()
	case c == '&' && strings.HasPrefix(rest, "&"):
		p.endStatement()
		p.cur.and = true
		return 1
	case strings.IndexByte("&|<>()`\\", c) >= 0:
		p.cur.opaque = true
	default:
		p.word.WriteByte(c)
		p.inWord = true
	}
	return 0
}

func (p *scriptParser) endWord() {
	if p.inWord {
		p.cur.words = append(p.cur.words, p.word.String())
	}
	p.word.Reset()
	p.inWord = false
}

func (p *scriptParser) endStatement() {
	p.endWord()
	if len(p.cur.words) > 0 || p.cur.opaque {
		p.out = append(p.out, p.cur)
	}
	p.cur = statement{}
}
