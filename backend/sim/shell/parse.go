package shell

import "strings"

// statement is one simple command of a script.
type statement struct {
	words     []string
	when      condition
	redirects []redirect
	// opaque marks shell syntax beyond the convention.
	opaque bool
	// fed takes its input from the output of the statement before, which pipes.
	fed, pipes bool
}

// given is the value that a variable gets by the words so far, all of which are assignments:
// each sees those before it.
func (s *statement) given(name string) (value string, ok bool) {
	for _, word := range s.words {
		if !assigns(word) {
			return "", false
		}
		if n, v, _ := strings.Cut(word, "="); n == name {
			value, ok = v, true
		}
	}
	return value, ok
}

// condition says after which status of the command before a statement runs.
type condition int

const (
	always condition = iota
	onSuccess
	onFailure
)

// skips is true when the condition keeps a command from running.
func (c condition) skips(status int32) bool {
	return (c == onSuccess && status != 0) || (c == onFailure && status == 0)
}

// redirect sends a stream of a command to a file or, with dup, to where another
// stream goes.
type redirect struct {
	fd     int
	target string
	dup    bool
	add    bool
}

// parseScript splits a script into statements, minding quotes and expanding
// $NAME, ${NAME} and $? by env. A statement is expanded only when it is asked
// for, so that those before it have had their effect.
func parseScript(src string, env func(string) string) *scriptParser {
	return &scriptParser{env: env, src: src}
}

// next returns the next statement; false at the end.
func (p *scriptParser) next() (statement, bool) {
	for len(p.out) == 0 && p.src != "" {
		c, rest := p.src[0], p.src[1:]
		p.src = rest[p.feed(c, rest):]
	}
	if len(p.out) == 0 && !p.over {
		p.over = true
		p.cur.opaque = p.cur.opaque || p.quote != 0 || p.cur.fed && p.bare()
		p.endStatement(always)
	}
	if len(p.out) == 0 {
		return statement{}, false
	}
	s := p.out[0]
	p.out = p.out[1:]
	return s, true
}

type scriptParser struct {
	env    func(string) string
	src    string // what is still to be read
	over   bool
	out    []statement
	cur    statement
	word   strings.Builder
	inWord bool
	quote  byte
	// awaits is a redirect whose target is the next word.
	awaits *redirect
}

// feed takes one byte and returns how many of the following it took as well.
func (p *scriptParser) feed(c byte, rest string) int {
	switch {
	case p.quote != 0:
		return p.quoted(c, rest)
	case c == '\'' || c == '"':
		p.quote, p.inWord = c, true
	case c == ' ' || c == '\t':
		p.endWord()
	case c == '#' && !p.inWord:
		return lineEnd(rest)
	case strings.IndexByte(";\n&|<>$()`\\*", c) >= 0:
		return p.operator(c, rest)
	default:
		p.add(c)
	}
	return 0
}

// operator takes a byte that means something to a shell.
func (p *scriptParser) operator(c byte, rest string) int {
	switch {
	case c == ';' || c == '\n':
		p.endStatement(always)
	case c == '&' && strings.HasPrefix(rest, "&"):
		p.endStatement(onSuccess)
		return 1
	case c == '|' && strings.HasPrefix(rest, "|"):
		p.endStatement(onFailure)
		return 1
	case c == '|':
		p.pipe()
	case c == '>' || c == '<':
		return p.redirection(c, rest)
	case c == '$':
		return p.expand(rest, false)
	default:
		p.cur.opaque = true
	}
	return 0
}

// bare is true before the first word of a statement.
func (p *scriptParser) bare() bool {
	return !p.inWord && len(p.cur.words) == 0 && len(p.cur.redirects) == 0 && p.awaits == nil
}

// pipe ends a statement whose output the next one reads.
func (p *scriptParser) pipe() {
	if p.bare() {
		p.cur.opaque = true
		return
	}
	p.cur.pipes = true
	p.endStatement(always)
	p.cur.fed = true
}

func lineEnd(s string) int {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return i
	}
	return len(s)
}

func (p *scriptParser) add(c byte) {
	p.word.WriteByte(c)
	p.inWord = true
}

// quoted takes one byte within quotes.
func (p *scriptParser) quoted(c byte, rest string) int {
	switch {
	case c == p.quote:
		p.quote = 0
	case p.quote == '"' && c == '$':
		return p.expand(rest, true)
	case p.quote == '"' && c == '`':
		p.cur.opaque = true
	case p.quote == '"' && c == '\\' && strings.HasPrefix(rest, "\n"):
		return 1 // the line goes on
	case p.quote == '"' && c == '\\' && rest != "" && strings.IndexByte("\"\\$`", rest[0]) >= 0:
		p.add(rest[0])
		return 1
	default:
		p.add(c)
	}
	return 0
}

// expand replaces a variable. Its value is one word, even without quotes.
func (p *scriptParser) expand(rest string, quoted bool) int {
	name, taken := variable(rest)
	if name == "" {
		p.cur.opaque = true
		return 0
	}
	value, given := p.cur.given(name)
	if !given {
		value = p.env(name)
	}
	p.word.WriteString(value)
	p.inWord = p.inWord || quoted || value != ""
	return taken
}

// variable reads the name after a dollar sign, and how long it is with braces.
func variable(s string) (name string, taken int) {
	if strings.HasPrefix(s, "?") {
		return "?", 1
	}
	braces := strings.HasPrefix(s, "{")
	if braces {
		s = s[1:]
	}
	n := 0
	for n < len(s) && (s[n] == '_' || letter(s[n]) || (n > 0 && s[n] >= '0' && s[n] <= '9')) {
		n++
	}
	switch {
	case !braces:
		return s[:n], n
	case n < len(s) && s[n] == '}':
		return s[:n], n + 2
	default:
		return "", 0
	}
}

func letter(c byte) bool { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') }

// redirection takes ">", ">>", ">&N" or "<", with a number right before it.
func (p *scriptParser) redirection(c byte, rest string) int {
	r := redirect{fd: 1}
	if c == '<' {
		r.fd = 0
	}
	if word := p.word.String(); p.inWord && (word == "1" || word == "2") {
		r.fd = int(word[0] - '0')
		p.word.Reset()
		p.inWord = false
	}
	p.endWord()
	switch {
	case p.awaits != nil || strings.HasPrefix(rest, "<"):
		p.cur.opaque = true
	case strings.HasPrefix(rest, "&1"), strings.HasPrefix(rest, "&2"):
		r.dup, r.target = true, rest[1:2]
		p.cur.redirects = append(p.cur.redirects, r)
		return 2
	case c == '>' && strings.HasPrefix(rest, ">"):
		r.add = true
		p.awaits = &r
		return 1
	default:
		p.awaits = &r
	}
	return 0
}

func (p *scriptParser) endWord() {
	switch {
	case p.inWord && p.awaits != nil:
		p.awaits.target = p.word.String()
		p.cur.redirects = append(p.cur.redirects, *p.awaits)
		p.awaits = nil
	case p.inWord:
		p.cur.words = append(p.cur.words, p.word.String())
	}
	p.word.Reset()
	p.inWord = false
}

// endStatement ends one statement; the next runs on a condition.
func (p *scriptParser) endStatement(next condition) {
	p.endWord()
	if p.awaits != nil {
		p.cur.opaque = true
	}
	fed := false
	if len(p.cur.words) > 0 || len(p.cur.redirects) > 0 || p.cur.opaque {
		p.out = append(p.out, p.cur)
	} else if next == always {
		next, fed = p.cur.when, p.cur.fed // the line goes on after "&&" and "|"
	}
	p.cur, p.awaits = statement{when: next, fed: fed}, nil
}
