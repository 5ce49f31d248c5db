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
	// sleep is false when the process does not live to see its end, as after a
	// negative duration.
	sleep(d time.Duration) bool
	emit(fd int, text string)
	look(name string) entry
	list(dir string) ([]string, bool)
	// change returns what a kernel says against it.
	change(name string, op writeOp, data string) string
	// next is the next part of the standard input, nil at its end; false as for
	// sleep.
	next() (part []byte, alive bool)
	// terminal is nil where there is none; interactive is that of a shell that is
	// about to read what to run.
	terminal() *terminal
	interactive() *terminal
	clock() time.Time
	listen(l listener)
	ignoreTerm()
	// uses changes what is used from now on (use.go).
	uses(change func(*load))
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
	of     *container
	env    environment
	dir    string
	status int32
	inside bool   // of a shell
	exited bool   // by the command exit
	rest   []byte // of the standard input: read, and not yet used
}

func newProcess(m machine, c *container) *process {
	return &process{machine: m, of: c, env: environmentOf(c), dir: path.Join("/", c.spec.Container.WorkingDir)}
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
	e := p.look(p.abs(name))
	return e.data, e.kind == regular
}

// runArgv runs a command line.
func (p *process) runArgv(argv []string) flow {
	if len(argv) > 0 && isShell(argv[0]) {
		return p.runShell(argv, streams{in: p.stdin})
	}
	return p.step(statement{words: argv}, nil, nil)
}

func isShell(arg string) bool {
	switch path.Base(arg) {
	case "sh", "ash", "dash", "bash":
		return true
	}
	return false
}

// runShell runs a script, or what a shell without one reads from its input.
func (p *process) runShell(argv []string, io streams) flow {
	given := len(argv) > 2 && argv[1] == "-c"
	if !given && !readsInput(argv[1:]) {
		return p.beyond(argv[0])
	}
	outer := p.inside
	p.inside = true
	defer func() { p.inside = outer }()
	p.status = 0
	var f flow
	switch {
	case given:
		f = p.run(argv[2])
	case io.redirected:
		held := p.rest
		p.rest = nil
		f = p.session(io.in, nil)
		p.rest = held
	default:
		f = p.session(p.stdin, p.interactive())
	}
	if f == ends && outer {
		p.exited = false
		return goesOn // only the inner shell has
	}
	return f
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
func (p *process) run(script string) flow {
	parser := parseScript(script, p.expand)
	ran := true
	var carried *pipeline
	for s, ok := parser.next(); ok; s, ok = parser.next() {
		if !s.fed {
			ran, carried = !s.when.skips(p.status), nil
		}
		if !ran {
			continue
		}
		in := carried
		carried = nil
		if s.pipes {
			carried = &pipeline{}
		}
		f := p.step(s, in, carried)
		if f == ends && p.exited && (s.pipes || s.fed) {
			p.exited, f = false, goesOn // only its part of the pipeline has
		}
		if f != goesOn {
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

// step runs one statement, whose input and output may be those of a pipeline.
func (p *process) step(s statement, from, to *pipeline) flow {
	if s.opaque {
		return p.beyond("")
	}
	io, ok := p.open(s.redirects, from, to)
	if !ok {
		p.status = 1
		return goesOn
	}
	words := s.words
	for len(words) > 0 && p.inside && assigns(words[0]) && assigns(words[len(words)-1]) {
		name, value, _ := strings.Cut(words[0], "=")
		p.env = append(p.env, variableOf{name, value})
		words = words[1:]
	}
	if len(words) == 0 {
		p.status = 0
		return goesOn
	}
	return p.call(path.Base(words[0]), words, io)
}

// assigns is true for NAME=value.
func assigns(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	read, taken := variable(name)
	return ok && read != "" && taken == len(name)
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
	return goesOn
}

// simple runs a command that takes no time and reads no input.
func (p *process) simple(name string, argv []string, io streams) flow {
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
	return goesOn
}

func (p *process) exit(args []string) flow {
	if len(args) == 0 {
		p.exited = true
		return ends // with the status of the last command
	}
	n, err := strconv.ParseUint(args[0], 10, 8)
	if err != nil {
		return p.beyond("exit " + args[0])
	}
	p.status, p.exited = int32(n), true
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
