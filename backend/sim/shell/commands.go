package shell

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// The commands of the convention, as busybox has them. Each returns its status.

func echo(args []string, io streams) int32 {
	end := "\n"
	if len(args) > 0 && args[0] == "-n" {
		args, end = args[1:], ""
	}
	io.out(strings.Join(args, " ") + end)
	return 0
}

func (p *process) cat(args []string, io streams) Flow {
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

// contents is what is in a file, or what a kernel says instead.
func (p *process) contents(name string) (data []byte, why string) {
	switch e := p.Lookup(p.abs(name)); {
	case e.Kind == File:
		return e.Data, ""
	case p.isDir(name):
		return nil, "Is a directory"
	default:
		return nil, "No such file or directory"
	}
}

func (p *process) isDir(name string) bool {
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

// test knows -e, -f, -r, -d, -s, -n, -z, = and !=, and "!" before them.
func (p *process) test(args []string, io streams) int32 {
	not := len(args) > 1 && args[0] == "!"
	if not {
		args = args[1:]
	}
	holds, ok := p.holds(args)
	switch {
	case !ok:
		io.err("sh: test: unknown operand\n")
		return 2
	case holds != not:
		return 0
	default:
		return 1
	}
}

func (p *process) holds(args []string) (holds, known bool) {
	switch len(args) {
	case 0:
		return false, true
	case 1:
		return args[0] != "", true
	case 2:
		return p.holdsOf(args[0], args[1])
	case 3:
		equal := args[0] == args[2]
		switch args[1] {
		case "=", "==":
			return equal, true
		case "!=":
			return !equal, true
		}
	}
	return false, false
}

// holdsOf tests one word or the file that it names.
func (p *process) holdsOf(flag, word string) (holds, known bool) {
	data, isFile := p.read(word)
	switch flag {
	case "-f", "-r":
		return isFile, true
	case "-s":
		return len(data) > 0, true
	case "-n":
		return word != "", true
	case "-z":
		return word == "", true
	case "-d", "-e":
		return p.isDir(word) || (isFile && flag == "-e"), true
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
			l.From, _ = seconds([]string{value})
		case key == "fail-after":
			l.FailingFrom, _ = seconds([]string{value})
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
