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

// grep knows -v, -i, -q, -E, -F, -c, -h, -n and -s. A match with -q ends it; else a file that
// cannot be read makes it fail with 2 whatever is found in others.
func (p *process) grep(args []string, io streams) Flow {
	flags, operands := flagsOf(args)
	if len(operands) == 0 || strings.Trim(flags, "viqEFchns") != "" {
		return p.beyond("grep")
	}
	g, err := newGrep(flags, operands[0])
	if err != nil {
		io.err("grep: bad regex '" + operands[0] + "'\n")
		p.status = 2
		return Continue
	}
	files := operands[1:]
	g.named = len(files) > 1 && !strings.Contains(flags, "h")
	if len(files) == 0 {
		files = []string{"-"}
	}
	p.status = 1
	failed := false
	for _, file := range files {
		data, alive, why := p.gather(file, io)
		switch {
		case !alive:
			return Stay
		case why == isADirectory:
			continue // busybox reads nothing of it
		case why != "":
			failed = true
			if !strings.Contains(flags, "s") {
				io.err("grep: " + file + ": " + why + "\n")
			}
			continue
		}
		if g.in(file, string(data), io) {
			p.status = 0
			if g.quiet {
				return Continue
			}
		}
	}
	if failed {
		p.status = 2
	}
	return Continue
}

// grep is one call of it.
type grep struct {
	pattern *regexp.Regexp
	// named says that the file is named before what is found in it.
	named, inverted, quiet, counts, numbers bool
}

func newGrep(flags, expr string) (*grep, error) {
	switch {
	case strings.Contains(flags, "F"):
		expr = regexp.QuoteMeta(expr)
	case !strings.Contains(flags, "E"):
		expr = basicExpression(expr)
	}
	if strings.Contains(flags, "i") {
		expr = "(?i)" + expr
	}
	pattern, err := regexp.Compile(expr)
	return &grep{
		pattern: pattern, inverted: strings.Contains(flags, "v"), quiet: strings.Contains(flags, "q"),
		counts: strings.Contains(flags, "c"), numbers: strings.Contains(flags, "n"),
	}, err
}

// in writes what is found in a file; false is nothing.
func (g *grep) in(file, text string, io streams) (found bool) {
	prefix := ""
	if g.named {
		prefix = file + ":"
	}
	n, lines := 0, 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSuffix(line, "\n")
		if g.pattern.MatchString(line) == g.inverted {
			continue
		}
		lines++
		switch {
		case g.quiet || g.counts:
		case g.numbers:
			io.out(fmt.Sprintf("%s%d:%s\n", prefix, n, line))
		default:
			io.out(prefix + line + "\n")
		}
	}
	if g.counts && !g.quiet {
		io.out(fmt.Sprintf("%s%d\n", prefix, lines))
	}
	return lines > 0
}

// basicExpression is a basic regular expression (POSIX) as an extended one: there the signs
// + ? | ( ) { } mean something without a backslash, here with one. A star that follows nothing
// is itself.
func basicExpression(expr string) string {
	var out strings.Builder
	begins, inSet := true, false
	for i := 0; i < len(expr); i++ {
		c := expr[i]
		switch {
		case inSet:
			out.WriteByte(c)
			inSet = c != ']' || expr[i-1] == '[' || strings.HasSuffix(expr[:i], "[^")
			begins = false
			continue
		case c == '\\' && i+1 < len(expr) && strings.IndexByte("+?|(){}", expr[i+1]) >= 0:
			i++
			out.WriteByte(expr[i])
			begins = expr[i] == '(' || expr[i] == '|'
			continue
		case c == '\\' && i+1 < len(expr):
			i++
			out.WriteString(expr[i-1 : i+1])
		case strings.IndexByte("+?|(){}", c) >= 0, c == '*' && begins:
			out.WriteString("\\" + string(c))
		default:
			inSet = c == '['
			out.WriteByte(c)
		}
		begins = c == '^' && begins
	}
	return out.String()
}
