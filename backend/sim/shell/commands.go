package shell

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// The commands of the convention, as busybox has them. Each returns its status.

func echo(args []string, io streams) int32 {
	end, escapes := "\n", false
	for len(args) > 0 && echoFlags(args[0]) {
		if strings.Contains(args[0], "n") {
			end = ""
		}
		if i := strings.LastIndexAny(args[0], "eE"); i > 0 {
			escapes = args[0][i] == 'e'
		}
		args = args[1:]
	}
	text := strings.Join(args, " ")
	if escapes {
		text = echoEscapes.Replace(text)
	}
	io.out(text + end)
	return 0
}

// echoEscapes are those of -e, but for numbers of bytes and the end \c.
var echoEscapes = strings.NewReplacer(
	`\\`, `\`, `\n`, "\n", `\t`, "\t", `\r`, "\r", `\a`, "\a", `\b`, "\b", `\f`, "\f", `\v`, "\v",
)

// echoFlags is true for "-n", "-e", "-E" and several of them in one.
func echoFlags(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' && strings.Trim(arg[1:], "neE") == ""
}

func (p *process) cat(args []string, io streams) Flow {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		args = []string{"-"}
	}
	var status int32
	for _, name := range args {
		in := io.in
		if name != "-" {
			data, why := p.contents(name)
			if why != "" {
				io.err("cat: can't open '" + name + "': " + why + "\n")
				status = 1
				continue
			}
			in = contents(data)
		}
		if !copyAll(in, io.out) {
			return Stay
		}
	}
	p.status = status
	return Continue
}

// isADirectory are a kernel's words.
const isADirectory = "Is a directory"

// contents is what is in a file, or what a kernel says instead.
func (p *process) contents(name string) (data []byte, why string) {
	switch e := p.Lookup(p.abs(name)); {
	case e.Kind == File:
		return e.Data, ""
	case p.isDir(name):
		return nil, isADirectory
	default:
		return nil, "No such file or directory"
	}
}

func (p *process) isDir(name string) bool {
	if name == "" {
		return false
	}
	_, ok := p.ReadDir(p.abs(name))
	return ok && p.Lookup(p.abs(name)).Kind != File
}

// copyAll is false when the process does not live to see the end of its input.
func copyAll(in source, out func(string)) bool {
	for {
		part, alive := in()
		if !alive || part == nil {
			return alive
		}
		out(string(part))
	}
}

func (p *process) printenv(names []string, io streams) int32 {
	env := p.env.forCommands()
	if len(names) == 0 {
		for i, v := range env {
			if _, again := env[i+1:].get(v.name); !again {
				io.out(v.name + "=" + v.value + "\n")
			}
		}
		return 0
	}
	var status int32
	for _, name := range names {
		value, ok := env.get(name)
		if !ok {
			status = 1
			continue
		}
		io.out(value + "\n")
	}
	return status
}

func (p *process) hostname(_ []string, io streams) int32 {
	io.out(p.of.Hostname + "\n") // the kernel's, whatever the variable says
	return 0
}

func (p *process) bracket(args []string, io streams) int32 {
	if len(args) == 0 || args[len(args)-1] != "]" {
		io.err("sh: [: missing ]\n")
		return 2
	}
	return p.test(args[:len(args)-1], io)
}

// test knows -e, -f, -r, -w, -x, -d, -s, -L, -n, -z, =, !=, those that compare numbers, and "!".
func (p *process) test(args []string, io streams) int32 {
	holds, ok := p.holds(args)
	switch {
	case !ok:
		io.err("sh: test: unknown operand\n")
		return 2
	case holds:
		return 0
	default:
		return 1
	}
}

// holds decides by the number of words what they mean (POSIX, test).
func (p *process) holds(args []string) (holds, known bool) {
	switch len(args) {
	case 0:
		return false, true
	case 1:
		return args[0] != "", true
	case 2:
		if args[0] == "!" {
			return args[1] == "", true
		}
		return p.holdsOf(args[0], args[1])
	case 3:
		if holds, known = compare(args[0], args[1], args[2]); known {
			return holds, true
		}
	}
	if args[0] != "!" {
		return false, false
	}
	holds, known = p.holds(args[1:])
	return !holds, known
}

// compare compares two words, or numbers.
func compare(a, op, b string) (holds, known bool) {
	switch op {
	case "=", "==":
		return a == b, true
	case "!=":
		return a != b, true
	}
	m, errA := strconv.ParseInt(strings.TrimSpace(a), 10, 64)
	n, errB := strconv.ParseInt(strings.TrimSpace(b), 10, 64)
	if errA != nil || errB != nil {
		return false, false
	}
	switch op {
	case "-eq":
		return m == n, true
	case "-ne":
		return m != n, true
	case "-lt":
		return m < n, true
	case "-le":
		return m <= n, true
	case "-gt":
		return m > n, true
	case "-ge":
		return m >= n, true
	}
	return false, false
}

// holdsOf tests one word or the file that it names. All files here can be read and written
// to, none can be executed, and none is a link.
func (p *process) holdsOf(flag, word string) (holds, known bool) {
	data, isFile := p.read(word)
	isDir := p.isDir(word)
	switch flag {
	case "-f":
		return isFile, true
	case "-e", "-r", "-w":
		return isFile || isDir, true
	case "-d", "-x":
		return isDir, true
	case "-s":
		return isDir || len(data) > 0, true
	case "-L", "-h":
		return false, true
	case "-n":
		return word != "", true
	case "-z":
		return word == "", true
	}
	return false, false
}

// serve reads "serve PORT [ready-after=D] [fail-after=D]", "httpd -p PORT" or "nc
// -ll -p PORT -e cat", which echoes, and runs until it is stopped.
func (p *process) serve(name string, args []string) Flow {
	var l Listener
	for i, arg := range args {
		if name != "serve" {
			if i > 0 && args[i-1] == "-p" {
				l.Port = port(arg)
			}
			continue
		}
		switch key, value, ok := strings.Cut(arg, "="); {
		case !ok:
			l.Port = port(arg)
		case key == "ready-after":
			l.From, _ = seconds(value)
		case key == "fail-after":
			l.FailingFrom, _ = seconds(value)
		}
	}
	if name == "nc" {
		if !slices.Contains(args, "-ll") || !slices.Equal(args[max(0, len(args)-2):], []string{"-e", "cat"}) {
			return p.beyond(name)
		}
		l.Echoes = true
	}
	if l.Port > 0 {
		p.Listen(l)
	}
	return Stay
}

// port reads "8080" or "0.0.0.0:8080"; 0 is none.
func port(s string) int {
	if _, after, err := net.SplitHostPort(s); err == nil {
		s = after
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0
	}
	return int(n)
}
