package sim

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// The commands that tell of the container and its terminal.

func (p *process) export(args []string, _ streams) int32 {
	for _, arg := range args {
		if name, value, ok := strings.Cut(arg, "="); ok {
			p.env = append(p.env, variableOf{name, value})
		}
	}
	return 0
}

func (p *process) date(_ []string, io streams) int32 {
	io.out(p.clock().UTC().Format("Mon Jan _2 15:04:05 UTC 2006") + "\n")
	return 0
}

// user is whom the security contexts say, or root.
func (p *process) user() (uid, gid int64) { return userOf(&p.of.spec) }

// linuxUser is what the facts say of it.
func linuxUser(spec *backend.ContainerSpec) *corev1.LinuxContainerUser {
	uid, gid := userOf(spec)
	u := &corev1.LinuxContainerUser{UID: uid, GID: gid, SupplementalGroups: []int64{gid}}
	if spec.Pod == nil || spec.Pod.Spec.SecurityContext == nil {
		return u
	}
	sc := spec.Pod.Spec.SecurityContext
	u.SupplementalGroups = append(u.SupplementalGroups, sc.SupplementalGroups...)
	if sc.FSGroup != nil {
		u.SupplementalGroups = append(u.SupplementalGroups, *sc.FSGroup)
	}
	slices.Sort(u.SupplementalGroups)
	u.SupplementalGroups = slices.Compact(u.SupplementalGroups)
	return u
}

func userOf(spec *backend.ContainerSpec) (uid, gid int64) {
	if spec.Pod != nil && spec.Pod.Spec.SecurityContext != nil {
		if sc := spec.Pod.Spec.SecurityContext; sc.RunAsUser != nil {
			uid = *sc.RunAsUser
		}
		if sc := spec.Pod.Spec.SecurityContext; sc.RunAsGroup != nil {
			gid = *sc.RunAsGroup
		}
	}
	if sc := spec.Container.SecurityContext; sc != nil {
		if sc.RunAsUser != nil {
			uid = *sc.RunAsUser
		}
		if sc.RunAsGroup != nil {
			gid = *sc.RunAsGroup
		}
	}
	return uid, gid
}

// named adds the one name that a busybox image surely knows.
func named(id int64) string {
	if id == 0 {
		return "0(root)"
	}
	return fmt.Sprint(id)
}

func (p *process) id(args []string, io streams) int32 {
	uid, gid := p.user()
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
	if uid, _ := p.user(); uid != 0 {
		io.err(fmt.Sprintf("whoami: unknown uid %d\n", uid))
		return 1
	}
	io.out("root\n")
	return 0
}

// ps shows the container's own process: there is no other.
func (p *process) ps(_ []string, io streams) int32 {
	uid, _ := p.user()
	user := fmt.Sprint(uid)
	if uid == 0 {
		user = "root"
	}
	argv := slices.Concat(p.of.spec.Container.Command, p.of.spec.Container.Args)
	if len(argv) == 0 {
		argv = []string{"(the image's own)"}
	}
	io.out(fmt.Sprintf("PID   USER     TIME  COMMAND\n    1 %-8s  0:00 %s\n", user, strings.Join(argv, " ")))
	return 0
}

// stty says the size of the terminal: "stty size", or what stty says of it.
func (p *process) stty(args []string, io streams) int32 {
	tty := p.terminal()
	if tty == nil {
		io.err("stty: standard input: Inappropriate ioctl for device\n")
		return 1
	}
	size := tty.size.Load()
	if size == nil {
		size = &backend.TerminalSize{}
	}
	if slices.Equal(args, []string{"size"}) {
		io.out(fmt.Sprintf("%d %d\n", size.Height, size.Width))
	} else {
		io.out(fmt.Sprintf("speed 38400 baud; rows %d; columns %d; line = 0;\n", size.Height, size.Width))
	}
	return 0
}

func (p *process) tty(_ []string, io streams) int32 {
	if p.terminal() == nil {
		io.out("not a tty\n")
		return 1
	}
	io.out("/dev/pts/0\n")
	return 0
}

// grep knows -v, -i and -q.
func (p *process) grep(args []string, io streams) flow {
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
		return goesOn
	}
	files := operands[1:]
	if len(files) == 0 {
		files = []string{"-"}
	}
	p.status = 1
	for _, file := range files {
		data, alive, why := p.gather(file, io)
		if !alive {
			return stays
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
	return goesOn
}
