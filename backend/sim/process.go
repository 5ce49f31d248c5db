package sim

import (
	"path"
	"strconv"
	"strings"
	"time"
)

// machine is what a process runs on: paper, for a container's own program, or
// time, for a command in a running container.
type machine interface {
	// sleep is false when the process does not live to see its end.
	sleep(d time.Duration) bool
	emit(fd int, text string)
	read(name string) ([]byte, bool)
	list(dir string) ([]string, bool)
	// change returns what a kernel says against it.
	change(name string, op writeOp, data string) string
	// input copies the standard input; false as for sleep.
	input(out func(string)) bool
	listen(l listener)
	ignoreTerm()
	// unknown runs a command that is beyond the convention.
	unknown(name string, shell bool) (int32, flow)
}

// flow is how a script goes on after a command.
type flow int

const (
	goesOn flow = iota
	ends
	// stays is a process that runs until it is stopped.
	stays
)

// process is one command line being run.
type process struct {
	machine
	env    environment
	status int32
	inside bool // of a shell
}

// environment is a container's, in its order.
type environment []variableOf

type variableOf struct{ name, value string }

func (e environment) get(name string) (string, bool) {
	for i := len(e) - 1; i >= 0; i-- {
		if e[i].name == name {
			return e[i].value, true
		}
	}
	return "", false
}

func (e environment) value(name string) string {
	value, _ := e.get(name)
	return value
}

// environmentOf is what a runtime adds to, and then the container's own.
func environmentOf(c *container) environment {
	e := environment{{"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, {"HOSTNAME", c.hostname()}}
	for _, v := range c.spec.Container.Env {
		e = append(e, variableOf{v.Name, v.Value})
	}
	return e
}

// runArgv runs a command line.
func (p *process) runArgv(argv []string) flow {
	if len(argv) > 0 && isShell(argv[0]) {
		return p.runShell(argv)
	}
	return p.step(statement{words: argv})
}

func isShell(arg string) bool {
	switch path.Base(arg) {
	case "sh", "ash", "dash", "bash":
		return true
	}
	return false
}

// runShell runs a script; a shell without one reads its input, which is none of
// the convention.
func (p *process) runShell(argv []string) flow {
	if len(argv) < 3 || argv[1] != "-c" {
		return p.beyond(argv[0])
	}
	outer := p.inside
	p.inside = true
	defer func() { p.inside = outer }()
	p.status = 0
	f := p.run(parseScript(argv[2], p.env.value))
	if f == ends && outer {
		return goesOn // only the inner shell has
	}
	return f
}

// run runs statements until one ends the process.
func (p *process) run(script []statement) flow {
	for _, s := range script {
		if s.when.skips(p.status) {
			continue
		}
		if f := p.step(s); f != goesOn {
			return f
		}
	}
	return goesOn
}

func (p *process) beyond(name string) flow {
	status, f := p.unknown(name, p.inside)
	p.status = status
	return f
}

// step runs one statement.
func (p *process) step(s statement) flow {
	if s.opaque {
		return p.beyond("")
	}
	io, ok := p.open(s.redirects)
	if !ok {
		p.status = 1
		return goesOn
	}
	if len(s.words) == 0 {
		p.status = 0
		return goesOn
	}
	return p.call(path.Base(s.words[0]), s.words, io)
}

// call runs a command whose streams are open.
func (p *process) call(name string, argv []string, io streams) flow {
	args := argv[1:]
	switch name {
	case "exit":
		return p.exit(args)
	case "sleep":
		return p.pause(args)
	case "trap":
		if len(args) != 2 || args[0] != "" || strings.TrimPrefix(args[1], "SIG") != "TERM" {
			return p.beyond(argv[0])
		}
		p.ignoreTerm()
		p.status = 0
	case "cat":
		return p.cat(args, io)
	case "serve", "httpd":
		return p.serve(name, args)
	default:
		if isShell(name) {
			return p.runShell(argv)
		}
		return p.simple(name, argv, io)
	}
	return goesOn
}

// simple runs a command that takes no time.
func (p *process) simple(name string, argv []string, io streams) flow {
	args := argv[1:]
	switch name {
	case "true", ":":
		p.status = 0
	case "false":
		p.status = 1
	case "echo":
		p.status = echo(args, io)
	case "env":
		if len(args) > 0 {
			return p.beyond(argv[0])
		}
		p.status = p.printenv(nil, io)
	case "printenv":
		p.status = p.printenv(args, io)
	case "hostname":
		io.out(p.env.value("HOSTNAME") + "\n")
		p.status = 0
	case "test", "[":
		p.status = p.test(name, args, io)
	case "ls":
		p.status = p.ls(args, io)
	case "touch", "rm":
		p.status = p.touch(name, args, io)
	default:
		return p.beyond(argv[0])
	}
	return goesOn
}

func (p *process) exit(args []string) flow {
	if len(args) == 0 {
		return ends // with the status of the last command
	}
	n, err := strconv.ParseUint(args[0], 10, 8)
	if err != nil {
		return p.beyond("exit " + args[0])
	}
	p.status = int32(n)
	return ends
}

func (p *process) pause(args []string) flow {
	d, ok := seconds(args)
	if !ok || !p.sleep(d) {
		return stays
	}
	p.status = 0
	return goesOn
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

// streams are where a command reads and writes.
type streams struct {
	in       string // a file; "" is the standard input
	out, err func(string)
}

// open makes the redirects of a command, in their order; false when one cannot
// be.
func (p *process) open(redirects []redirect) (streams, bool) {
	io := streams{
		out: func(text string) { p.emit(1, text) },
		err: func(text string) { p.emit(2, text) },
	}
	for _, r := range redirects {
		switch {
		case r.fd == 0:
			if _, ok := p.read(r.target); !ok {
				p.emit(2, "sh: can't open "+r.target+": no such file\n")
				return io, false
			}
			io.in = r.target
			continue
		case r.dup && r.target == "1":
			io.err = io.out
			continue
		case r.dup:
			io.out = io.err
			continue
		}
		if !r.add {
			if why := p.change(r.target, replace, ""); why != "" {
				p.emit(2, "sh: can't create "+r.target+": "+why+"\n")
				return io, false
			}
		}
		sink := func(text string) { p.change(r.target, appendTo, text) }
		if r.fd == 2 {
			io.err = sink
		} else {
			io.out = sink
		}
	}
	return io, true
}
