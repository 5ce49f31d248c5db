package script

import "strings"

// Statement is one simple command of a script.
type Statement struct {
	Words     []string // the command and its arguments, after assignments
	When      Condition
	Redirects []Redirect
	// Opaque marks shell syntax beyond the convention.
	Opaque bool
	// Fed takes its input from the output of the statement before, which pipes.
	Fed, Pipes bool
}

// Given is the value that a variable gets by the words so far, all of which are assignments:
// each sees those before it.
func (s *Statement) Given(name string) (value string, ok bool) {
	for _, word := range s.Words {
		if !Assigns(word) {
			return "", false
		}
		if n, v, _ := strings.Cut(word, "="); n == name {
			value, ok = v, true
		}
	}
	return value, ok
}

// Condition says after which status of the command before a statement runs.
type Condition int

// The conditions, by what stands before the statement.
const (
	Always    Condition = iota
	OnSuccess           // &&
	OnFailure           // ||
)

// Skips is true when the condition keeps a command from running.
func (c Condition) Skips(status int32) bool {
	return (c == OnSuccess && status != 0) || (c == OnFailure && status == 0)
}

// Redirect sends a stream of a command to a file, to whose end with Add, or, with Dup, to where
// another stream goes.
type Redirect struct {
	FD     int
	Target string
	Dup    bool
	Add    bool
}

// Parse splits a script into statements, minding quotes and expanding
// $NAME, ${NAME} and $? by env. A statement is expanded only when it is asked
// for, so that those before it have had their effect.
func Parse(src string, env func(string) string) *Parser {
	return &Parser{env: env, src: src}
}

// Next returns the next statement; false at the end.
func (p *Parser) Next() (Statement, bool) {
	for len(p.out) == 0 && p.src != "" {
		c, rest := p.src[0], p.src[1:]
		p.src = rest[p.feed(c, rest):]
	}
	if len(p.out) == 0 && !p.over {
		p.over = true
		p.cur.Opaque = p.cur.Opaque || p.quote != 0 || p.cur.Fed && p.bare()
		p.endStatement(Always)
	}
	if len(p.out) == 0 {
		return Statement{}, false
	}
	s := p.out[0]
	p.out = p.out[1:]
	return s, true
}

// Parser reads one script.
type Parser struct {
	env    func(string) string
	src    string // what is still to be read
	over   bool
	out    []Statement
	cur    Statement
	word   strings.Builder
	inWord bool
	quote  byte
	// awaits is a redirect whose target is the next word.
	awaits *Redirect
}

// feed takes one byte and returns how many of the following it took as well.
func (p *Parser) feed(c byte, rest string) int {
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
func (p *Parser) operator(c byte, rest string) int {
	switch {
	case c == ';' || c == '\n':
		p.endStatement(Always)
	case c == '&' && strings.HasPrefix(rest, "&"):
		p.endStatement(OnSuccess)
		return 1
	case c == '|' && strings.HasPrefix(rest, "|"):
		p.endStatement(OnFailure)
		return 1
	case c == '|':
		p.pipe()
	case c == '>' || c == '<':
		return p.redirection(c, rest)
	case c == '$':
		return p.expand(rest, false)
	default:
		p.cur.Opaque = true
	}
	return 0
}

// bare is true before the first word of a statement.
func (p *Parser) bare() bool {
	return !p.inWord && len(p.cur.Words) == 0 && len(p.cur.Redirects) == 0 && p.awaits == nil
}

// pipe ends a statement whose output the next one reads.
func (p *Parser) pipe() {
	if p.bare() {
		p.cur.Opaque = true
		return
	}
	p.cur.Pipes = true
	p.endStatement(Always)
	p.cur.Fed = true
}

func lineEnd(s string) int {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return i
	}
	return len(s)
}

func (p *Parser) add(c byte) {
	p.word.WriteByte(c)
	p.inWord = true
}

// quoted takes one byte within quotes.
func (p *Parser) quoted(c byte, rest string) int {
	switch {
	case c == p.quote:
		p.quote = 0
	case p.quote == '"' && c == '$':
		return p.expand(rest, true)
	case p.quote == '"' && c == '`':
		p.cur.Opaque = true
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
func (p *Parser) expand(rest string, quoted bool) int {
	name, taken := variable(rest)
	if name == "" {
		p.cur.Opaque = true
		return 0
	}
	value, given := p.cur.Given(name)
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

// Assigns is true for NAME=value.
func Assigns(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	read, taken := variable(name)
	return ok && read != "" && taken == len(name)
}

func letter(c byte) bool { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') }

// redirection takes ">", ">>", ">&N" or "<", with a number right before it.
func (p *Parser) redirection(c byte, rest string) int {
	r := Redirect{FD: 1}
	if c == '<' {
		r.FD = 0
	}
	if word := p.word.String(); p.inWord && (word == "1" || word == "2") {
		r.FD = int(word[0] - '0')
		p.word.Reset()
		p.inWord = false
	}
	p.endWord()
	switch {
	case p.awaits != nil || strings.HasPrefix(rest, "<"):
		p.cur.Opaque = true
	case strings.HasPrefix(rest, "&1"), strings.HasPrefix(rest, "&2"):
		r.Dup, r.Target = true, rest[1:2]
		p.cur.Redirects = append(p.cur.Redirects, r)
		return 2
	case c == '>' && strings.HasPrefix(rest, ">"):
		r.Add = true
		p.awaits = &r
		return 1
	default:
		p.awaits = &r
	}
	return 0
}

func (p *Parser) endWord() {
	switch {
	case p.inWord && p.awaits != nil:
		p.awaits.Target = p.word.String()
		p.cur.Redirects = append(p.cur.Redirects, *p.awaits)
		p.awaits = nil
	case p.inWord:
		p.cur.Words = append(p.cur.Words, p.word.String())
	}
	p.word.Reset()
	p.inWord = false
}

// endStatement ends one statement; the next runs on a condition.
func (p *Parser) endStatement(next Condition) {
	p.endWord()
	if p.awaits != nil {
		p.cur.Opaque = true
	}
	fed := false
	if len(p.cur.Words) > 0 || len(p.cur.Redirects) > 0 || p.cur.Opaque {
		p.out = append(p.out, p.cur)
	} else if next == Always {
		next, fed = p.cur.When, p.cur.Fed // the line goes on after "&&" and "|"
	}
	p.cur, p.awaits = Statement{When: next, Fed: fed}, nil
}
