package shell

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// The commands about the container and its terminal.

func (p *process) export(args []string, _ streams) int32 {
	for _, arg := range args {
		name, value, given := strings.Cut(arg, "=")
		now, known := p.env.get(name)
		if !given {
			value = now
		}
		if given || known {
			p.env = p.env.set(name, value, true)
		}
	}
	return 0
}

func (p *process) date(_ []string, io streams) int32 {
	io.out(p.Now().UTC().Format("Mon Jan _2 15:04:05 UTC 2006") + "\n")
	return 0
}

// named adds the one name that a busybox image surely knows.
func named(id int64) string {
	if id == 0 {
		return "0(root)"
	}
	return fmt.Sprint(id)
}

func (p *process) id(args []string, io streams) int32 {
	uid, gid := p.of.UID, p.of.GID
	switch flags, _ := flagsOf(args); flags {
	case "u":
		io.out(fmt.Sprintln(uid))
	case "g":
		io.out(fmt.Sprintln(gid))
	default:
		io.out("uid=" + named(uid) + " gid=" + named(gid) + " groups=" + named(gid) + "\n")
	}
	return 0
}

func (p *process) whoami(_ []string, io streams) int32 {
	if uid := p.of.UID; uid != 0 {
		io.err(fmt.Sprintf("whoami: unknown uid %d\n", uid))
		return 1
	}
	io.out("root\n")
	return 0
}

// ps shows the container's own process: there is no other.
func (p *process) ps(_ []string, io streams) int32 {
	user := fmt.Sprint(p.of.UID)
	if p.of.UID == 0 {
		user = "root"
	}
	argv := p.of.Argv
	if len(argv) == 0 {
		argv = []string{"(the image's own)"}
	}
	io.out(fmt.Sprintf("PID   USER     TIME  COMMAND\n    1 %-8s  0:00 %s\n", user, strings.Join(argv, " ")))
	return 0
}

// stty says the size of the terminal: "stty size", or what stty says of it.
func (p *process) stty(args []string, io streams) int32 {
	tty := p.Terminal()
	if tty == nil {
		io.err("stty: standard input: Inappropriate ioctl for device\n")
		return 1
	}
	size := tty.Size()
	if slices.Equal(args, []string{"size"}) {
		io.out(fmt.Sprintf("%d %d\n", size.Height, size.Width))
	} else {
		io.out(fmt.Sprintf("speed 38400 baud; rows %d; columns %d; line = 0;\n", size.Height, size.Width))
	}
	return 0
}

func (p *process) tty(_ []string, io streams) int32 {
	if p.Terminal() == nil {
		io.out("not a tty\n")
		return 1
	}
	io.out("/dev/pts/0\n")
	return 0
}

// use reads "use [cpu=250m] [memory=64Mi]": what the container uses from now on.
func (p *process) use(args []string, io streams) {
	p.status = 0
	var cpu, memory *resource.Quantity
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		q, err := resource.ParseQuantity(value)
		switch {
		case err != nil || q.Sign() < 0:
			io.err(fmt.Sprintf("use: %s is no amount\n", arg))
			p.status = 1
			return
		case key == "cpu":
			cpu = &q
		case key == "memory":
			memory = &q
		default:
			io.err(fmt.Sprintf("use: %s is not cpu or memory\n", key))
			p.status = 1
			return
		}
	}
	var milliCPU, bytes *uint64
	if cpu != nil {
		milliCPU = new(uint64(max(0, cpu.MilliValue())))
	}
	if memory != nil {
		bytes = new(uint64(max(0, memory.Value())))
	}
	p.Use(milliCPU, bytes)
}

// grep knows -v, -i and -q.
func (p *process) grep(args []string, io streams) Flow {
	flags, operands := flagsOf(args)
	if len(operands) == 0 || strings.Trim(flags, "viqE") != "" {
		return p.beyond("grep")
	}
	expr := operands[0]
	if strings.Contains(flags, "i") {
		expr = "(?i)" + expr
	}
	pattern, err := regexp.Compile(expr)
	if err != nil {
		io.err("grep: bad regex '" + operands[0] + "'\n")
		p.status = 2
		return Continue
	}
	files := operands[1:]
	if len(files) == 0 {
		files = []string{"-"}
	}
	p.status = 1
	for _, file := range files {
		data, alive, why := p.gather(file, io)
		if !alive {
			return Stay
		}
		if why != "" {
			io.err("grep: " + file + ": " + why + "\n")
			p.status = 2
			continue
		}
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSuffix(line, "\n")
			if pattern.MatchString(line) == strings.Contains(flags, "v") {
				continue
			}
			p.status = 0
			if !strings.Contains(flags, "q") {
				io.out(line + "\n")
			}
		}
	}
	return Continue
}
