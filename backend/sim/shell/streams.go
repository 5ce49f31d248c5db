package shell

import (
	"bytes"
	"strings"

	"github.com/burstlet/burstlet/backend/sim/shell/script"
)

// source gives the next part of an input, nil at its end; false when the process
// does not live to see it.
type source func() (part []byte, alive bool)

// streams are where a command reads and writes.
type streams struct {
	in       source
	out, err func(string)
	// redirected says that in is not the standard input of the whole process.
	redirected bool
}

// pipeline carries the output of one command to the next, which runs when the
// first has ended.
type pipeline struct{ text strings.Builder }

// maxPipeline bounds what a pipeline holds; the rest is dropped, as by a reader
// that does not read it.
const maxPipeline = 2 * MaxWritten

func (l *pipeline) add(text string) {
	if l.text.Len()+len(text) <= maxPipeline {
		l.text.WriteString(text)
	}
}

// contents is a source of something that is there already.
func contents(data []byte) source {
	return func() ([]byte, bool) {
		part := data
		data = nil
		if len(part) == 0 {
			return nil, true
		}
		return part, true
	}
}

// stdin is the standard input of the whole process.
func (p *process) stdin() ([]byte, bool) {
	if part := p.rest; len(part) > 0 {
		p.rest = nil
		return part, true
	}
	return p.ReadInput()
}

// maxLine bounds a line of a script that a shell reads.
const maxLine = 64 << 10

// line reads a line, without its end. The rest stays to be read, by whatever the
// line runs, where the input is the process' own.
func (p *process) line(in source) (text string, ended, alive bool) {
	for {
		line, after, found := bytes.Cut(p.rest, []byte("\n"))
		if found || len(p.rest) > maxLine {
			p.rest = after
			return string(line), false, true
		}
		held := p.rest
		p.rest = nil
		part, alive := in()
		p.rest = append(held, part...)
		switch {
		case !alive:
			p.rest = nil // a line that was begun on a terminal is given up
			return "", false, false
		case part == nil:
			p.rest = nil
			return string(held), true, true
		}
	}
}

// open makes the redirects of a command, in their order; false when one cannot
// be.
func (p *process) open(redirects []script.Redirect, from, to *pipeline) (streams, bool) {
	io := streams{
		in:  p.stdin,
		out: func(text string) { p.Write(1, text) },
		err: func(text string) { p.Write(2, text) },
	}
	if from != nil {
		io.in, io.redirected = contents([]byte(from.text.String())), true
	}
	if to != nil {
		io.out = to.add
	}
	for _, r := range redirects {
		switch {
		case r.FD == 0:
			data, ok := p.read(r.Target)
			if !ok {
				p.Write(2, "sh: can't open "+r.Target+": no such file\n")
				return io, false
			}
			io.in, io.redirected = contents(data), true
			continue
		case r.Dup && r.Target == "1":
			io.err = io.out
			continue
		case r.Dup:
			io.out = io.err
			continue
		}
		op := Replace
		if r.Add {
			op = Append
		}
		if why := p.create(r.Target, op); why != "" {
			p.Write(2, "sh: can't create "+r.Target+": "+why+"\n")
			return io, false
		}
		sink := p.sink(p.abs(r.Target))
		if r.FD == 2 {
			io.err = sink
		} else {
			io.out = sink
		}
	}
	return io, true
}

// create opens a file to write to: with Append what is in it stays.
func (p *process) create(name string, op Op) (why string) {
	if p.isDir(name) {
		return isADirectory
	}
	return p.Change(p.abs(name), op, "")
}

// sink appends to a file. What a kernel says against it, it says once.
func (p *process) sink(name string) func(string) {
	said := false
	return func(text string) {
		if why := p.Change(name, Append, text); why != "" && !said {
			said = true
			p.Write(2, "sh: write error: "+why+"\n")
		}
	}
}
