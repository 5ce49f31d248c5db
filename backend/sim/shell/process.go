package shell

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend/sim/shell/script"
)

// ExitInterrupted is the exit code of a command that ^C ended: 128 + SIGINT.
const ExitInterrupted = 130

// Run runs a command line in a container. status is its exit code; ended is false
// for a command that runs until it is stopped, or did not live to see its end.
func Run(m Machine, c Container, argv []string) (status int32, ended bool) {
	p := &process{Machine: m, of: c, env: environmentOf(c), dir: path.Join("/", c.Dir)}
	f := p.runArgv(argv)
	return p.status, f != Stay
}

// process is one command line being run.
type process struct {
	Machine
	of     Container
	env    environment
	dir    string
	status int32
	inside bool   // of a shell
	exited bool   // by the command exit
	rest   []byte // of the standard input: read, and not yet used
}

// environment is a container's, in its order.
type environment []variableOf

type variableOf struct {
	name, value string
	// exported is true for what commands get; others are the shell's own.
	exported bool
}

func (e environment) get(name string) (string, bool) {
	for i := len(e) - 1; i >= 0; i-- {
		if e[i].name == name {
			return e[i].value, true
		}
	}
	return "", false
}

// exports is true for a variable that commands get.
func (e environment) exports(name string) bool {
	return slices.ContainsFunc(e, func(v variableOf) bool { return v.name == name && v.exported })
}

// set adds a value of a variable, which is exported once it was.
func (e environment) set(name, value string, exported bool) environment {
	return append(e, variableOf{name, value, exported || e.exports(name)})
}

// forCommands is without what is not exported.
func (e environment) forCommands() environment {
	return slices.DeleteFunc(slices.Clone(e), func(v variableOf) bool { return !e.exports(v.name) })
}

func (e environment) value(name string) string {
	value, _ := e.get(name)
	return value
}

// environmentOf is what a runtime adds, and then the container's own.
func environmentOf(c Container) environment {
	e := environment{
		{"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", true}, {"HOSTNAME", c.Hostname, true},
	}
	for _, v := range c.Env {
		name, value, _ := strings.Cut(v, "=")
		e = append(e, variableOf{name, value, true})
	}
	return e
}

// expand is what a dollar sign and a name stand for.
func (p *process) expand(name string) string {
	if name == "?" {
		return strconv.Itoa(int(p.status))
	}
	return p.env.value(name)
}

// abs is the absolute path of a name.
func (p *process) abs(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(p.dir, name)
}

// read is the contents of a file; false when there is none.
func (p *process) read(name string) ([]byte, bool) {
	e := p.Lookup(p.abs(name))
	return e.Data, e.Kind == File
}

// runArgv runs a command line.
func (p *process) runArgv(argv []string) Flow {
	if len(argv) > 0 && isShell(argv[0]) {
		return p.runShell(argv, streams{in: p.stdin})
	}
	return p.step(script.Statement{Words: argv}, nil, nil)
}

func isShell(arg string) bool {
	switch path.Base(arg) {
	case "sh", "ash", "dash", "bash":
		return true
	}
	return false
}

// runShell runs a script, or what a shell without one reads from its input.
func (p *process) runShell(argv []string, io streams) Flow {
	given := len(argv) > 2 && argv[1] == "-c"
	if !given && !readsInput(argv[1:]) {
		return p.beyond(argv[0])
	}
	outer := p.inside
	p.inside = true
	defer p.within()()
	p.env = p.env.forCommands()
	defer func() { p.inside = outer }()
	p.status = 0
	var f Flow
	switch {
	case given:
		f = p.run(argv[2])
	case io.redirected:
		held := p.rest
		p.rest = nil
		f = p.session(io.in, nil)
		p.rest = held
	default:
		f = p.session(p.stdin, p.Interactive())
	}
	if f == Exit && outer {
		p.exited = false
		return Continue // only the inner shell has
	}
	return f
}

// within begins a process of its own: what it does to its directory and variables ends with it.
func (p *process) within() (end func()) {
	dir, env := p.dir, slices.Clone(p.env)
	return func() { p.dir, p.env = dir, env }
}

// readsInput is true for a shell's arguments that name no script.
func readsInput(args []string) bool {
	for _, arg := range args {
		if arg != "-i" && arg != "-l" && arg != "-il" && arg != "-li" && arg != "--login" {
			return false
		}
	}
	return true
}

// run runs statements until one ends the process.
func (p *process) run(text string) Flow {
	parser := script.Parse(text, p.expand)
	ran := true
	var carried *pipeline
	for s, ok := parser.Next(); ok; s, ok = parser.Next() {
		if !s.Fed {
			ran, carried = !s.When.Skips(p.status), nil
		}
		if !ran {
			continue
		}
		in := carried
		carried = nil
		if s.Pipes {
			carried = &pipeline{}
		}
		end := func() {}
		if s.Pipes || s.Fed {
			end = p.within()
		}
		f := p.step(s, in, carried)
		end()
		if f == Exit && p.exited && (s.Pipes || s.Fed) {
			p.exited, f = false, Continue // only its part of the pipeline has
		}
		if f != Continue {
			return f
		}
	}
	return Continue
}

func (p *process) beyond(name string) Flow {
	status, f := p.Unknown(name, p.inside)
	p.status = status
	return f
}

// step runs one statement, whose input and output may be those of a pipeline.
func (p *process) step(s script.Statement, from, to *pipeline) Flow {
	if s.Opaque {
		return p.beyond("")
	}
	io, ok := p.open(s.Redirects, from, to)
	if !ok {
		p.status = 1
		return Continue
	}
	words := s.Words
	for len(words) > 0 && p.inside && script.Assigns(words[0]) && script.Assigns(words[len(words)-1]) {
		name, value, _ := strings.Cut(words[0], "=")
		p.env = p.env.set(name, value, false)
		words = words[1:]
	}
	if len(words) == 0 {
		p.status = 0
		return Continue
	}
	return p.call(path.Base(words[0]), words, io)
}

// call runs a command whose streams are open.
func (p *process) call(name string, argv []string, io streams) Flow {
	args := argv[1:]
	switch name {
	case "exit":
		return p.exit(args)
	case "sleep":
		return p.pause(args, io)
	case "trap":
		if len(args) != 2 || args[0] != "" || strings.TrimPrefix(args[1], "SIG") != "TERM" {
			return p.beyond(argv[0])
		}
		p.IgnoreTerm()
		p.status = 0
	case "use":
		p.use(args, io)
	case "cat":
		return p.cat(args, io)
	case "head", "tail":
		return p.part(name, args, io)
	case "wc":
		return p.count(args, io)
	case "grep":
		return p.grep(args, io)
	case "tar":
		return p.tar(args, io)
	case "serve", "httpd", "nc":
		return p.serve(name, args)
	default:
		if isShell(name) {
			return p.runShell(argv, io)
		}
		return p.simple(name, argv, io)
	}
	return Continue
}

// simple runs a command that takes no time and reads no input.
func (p *process) simple(name string, argv []string, io streams) Flow {
	run, ok := map[string]func(*process, []string, streams) int32{
		"true":     func(*process, []string, streams) int32 { return 0 },
		":":        func(*process, []string, streams) int32 { return 0 },
		"false":    func(*process, []string, streams) int32 { return 1 },
		"echo":     func(_ *process, args []string, io streams) int32 { return echo(args, io) },
		"printenv": (*process).printenv,
		"env":      (*process).printenv,
		"hostname": (*process).hostname,
		"test":     (*process).test,
		"[":        (*process).bracket,
		"ls":       (*process).ls,
		"touch":    (*process).touch,
		"rm":       (*process).rm,
		"mkdir":    (*process).mkdir,
		"pwd":      (*process).pwd,
		"cd":       (*process).cd,
		"export":   (*process).export,
		"date":     (*process).date,
		"id":       (*process).id,
		"whoami":   (*process).whoami,
		"ps":       (*process).ps,
		"stty":     (*process).stty,
		"tty":      (*process).tty,
	}[name]
	if !ok || (name == "env" && len(argv) > 1) || ((name == "cd" || name == "export") && !p.inside) {
		return p.beyond(argv[0])
	}
	p.status = run(p, argv[1:], io)
	return Continue
}

func (p *process) exit(args []string) Flow {
	if len(args) == 0 {
		p.exited = true
		return Exit // with the status of the last command
	}
	n, err := strconv.ParseUint(args[0], 10, 8)
	if err != nil {
		return p.beyond("exit " + args[0])
	}
	p.status, p.exited = int32(n), true
	return Exit
}

// pause sleeps as long as its operands are together.
func (p *process) pause(args []string, io streams) Flow {
	p.status = 1
	if len(args) == 0 {
		io.err("Usage: sleep [N]...\n")
		return Continue
	}
	var all time.Duration
	forever := false
	for _, arg := range args {
		d, ok := seconds(arg)
		if !ok && !isInfinite(arg) {
			io.err("sleep: invalid number '" + arg + "'\n")
			return Continue
		}
		all, forever = all+d, forever || !ok
	}
	if forever || !p.Sleep(all) {
		return Stay
	}
	p.status = 0
	return Continue
}

// isInfinite is true for "infinity", and for more seconds than a clock counts.
func isInfinite(arg string) bool {
	n, err := strconv.ParseFloat(arg, 64)
	return (err == nil || errors.Is(err, strconv.ErrRange)) && n > mostSeconds
}

// mostSeconds are a hundred years.
const mostSeconds = 100 * 365 * 24 * 3600

// seconds reads an operand of sleep; false is one that is too long or no duration.
func seconds(arg string) (time.Duration, bool) {
	if n, err := strconv.ParseFloat(arg, 64); err == nil {
		if n < 0 || !(n <= mostSeconds) {
			return 0, false
		}
		return time.Duration(n * float64(time.Second)), true
	}
	if days, ok := strings.CutSuffix(arg, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 15)
		return time.Duration(n) * 24 * time.Hour, err == nil //nolint:gosec // 15 bits
	}
	d, err := time.ParseDuration(arg)
	return d, err == nil && d >= 0
}
