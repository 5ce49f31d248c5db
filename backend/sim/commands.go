package sim

import (
	"net"
	"strconv"
	"strings"
	"time"
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

func (p *process) cat(args []string, io streams) flow {
	if len(args) == 0 && io.in != "" {
		args = []string{io.in}
	}
	if len(args) == 0 {
		if !p.input(io.out) {
			return stays
		}
		p.status = 0
		return goesOn
	}
	p.status = 0
	for _, name := range args {
		data, ok := p.read(name)
		if !ok {
			io.err("cat: can't open '" + name + "': No such file or directory\n")
			p.status = 1
			continue
		}
		io.out(string(data))
	}
	return goesOn
}

func (p *process) printenv(names []string, io streams) int32 {
	if len(names) == 0 {
		for i, v := range p.env {
			if _, again := p.env[i+1:].get(v.name); !again {
				io.out(v.name + "=" + v.value + "\n")
			}
		}
		return 0
	}
	var status int32
	for _, name := range names {
		value, ok := p.env.get(name)
		if !ok {
			status = 1
			continue
		}
		io.out(value + "\n")
	}
	return status
}

// test knows -e, -f, -d, -s, -n, -z, = and !=, and "!" before them.
func (p *process) test(name string, args []string, io streams) int32 {
	if name == "[" {
		if len(args) == 0 || args[len(args)-1] != "]" {
			io.err("sh: [: missing ]\n")
			return 2
		}
		args = args[:len(args)-1]
	}
	not := len(args) > 1 && args[0] == "!"
	if not {
		args = args[1:]
	}
	holds, ok := p.holds(args)
	switch {
	case !ok:
		io.err("sh: " + name + ": unknown operand\n")
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
		_, isDir := p.list(word)
		return (isDir && !isFile) || (isFile && flag == "-e"), true
	}
	return false, false
}

func (p *process) ls(args []string, io streams) int32 {
	if len(args) == 0 {
		args = []string{"/"}
	}
	var status int32
	for _, name := range args {
		if _, ok := p.read(name); ok {
			io.out(name + "\n")
			continue
		}
		names, ok := p.list(name)
		if !ok {
			io.err("ls: " + name + ": No such file or directory\n")
			status = 1
			continue
		}
		for _, n := range names {
			io.out(n + "\n")
		}
	}
	return status
}

// touch also removes, under the name rm.
func (p *process) touch(name string, args []string, io streams) int32 {
	var status int32
	forced := false
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			forced = forced || strings.Contains(arg, "f")
			continue
		}
		op := appendTo
		if name == "rm" {
			op = remove
			if _, ok := p.read(arg); !ok {
				if !forced {
					io.err("rm: can't remove '" + arg + "': No such file or directory\n")
					status = 1
				}
				continue
			}
		}
		if why := p.change(arg, op, ""); why != "" {
			io.err(name + ": " + arg + ": " + why + "\n")
			status = 1
		}
	}
	return status
}

// listener is a port on which a program answers, at offsets from its start.
type listener struct {
	port int
	// from is when it begins to listen.
	from time.Duration
	// failing is when it begins to answer 500; 0 is never.
	failing time.Duration
}

// serve reads "serve PORT [ready-after=D] [fail-after=D]" or "httpd -p PORT",
// and runs until it is stopped.
func (p *process) serve(name string, args []string) flow {
	var l listener
	for i, arg := range args {
		switch key, value, ok := strings.Cut(arg, "="); {
		case name == "httpd":
			if i > 0 && args[i-1] == "-p" {
				l.port = port(arg)
			}
		case !ok:
			l.port = port(arg)
		case key == "ready-after":
			l.from, _ = seconds([]string{value})
		case key == "fail-after":
			l.failing, _ = seconds([]string{value})
		}
	}
	if l.port > 0 {
		p.listen(l)
	}
	return stays
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
