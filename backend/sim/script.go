package sim

import "strings"

// statement is one simple command of a script.
type statement struct {
	words     []string
	when      condition
	redirects []redirect
	// opaque marks shell syntax beyond the convention.
	opaque bool
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
// $NAME and ${NAME} by env.
func parseScript(src string, env func(string) string) []statement {
	p := scriptParser{env: env}
	for i := 0; i < len(src); i++ {
		i += p.feed(src[i], src[i+1:])
	}
	p.cur.opaque = p.cur.opaque || p.quote != 0
	p.endStatement(always)
	return p.out
}

type scriptParser struct {
	env    func(string) string
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
	case c == '>' || c == '<':
		return p.redirection(c, rest)
	case c == '$':
		return p.expand(rest, false)
	default:
		p.cur.opaque = true
	}
	return 0
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
	value := p.env(name)
	p.word.WriteString(value)
	p.inWord = p.inWord || quoted || value != ""
	return taken
}

// variable reads the name after a dollar sign, and how long it is with braces.
func variable(s string) (name string, taken int) {
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
	if len(p.cur.words) > 0 || len(p.cur.redirects) > 0 || p.cur.opaque {
		p.out = append(p.out, p.cur)
	} else if next == always {
		next = p.cur.when // the line goes on after "&&"
	}
	p.cur, p.awaits = statement{when: next}, nil
}
