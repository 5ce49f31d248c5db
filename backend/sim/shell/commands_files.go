package shell

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// The commands that change or list files.

const notFound = "No such file or directory"

// flagsOf splits the letters before the operands from them.
func flagsOf(args []string) (flags string, operands []string) {
	for i, arg := range args {
		switch {
		case arg == "--":
			return flags, append(operands, args[i+1:]...)
		case len(arg) > 1 && arg[0] == '-':
			flags += arg[1:]
		default:
			operands = append(operands, arg)
		}
	}
	return flags, operands
}

// ls lists a name a line, with -l also kind and size: files first, then what is in
// directories, headed by their names where there is more than one operand.
func (p *process) ls(args []string, io streams) int32 {
	flags, names := flagsOf(args)
	headed := len(names) > 1
	if len(names) == 0 {
		names = []string{"."}
	}
	var status int32
	var dirs []string
	said := false
	for _, name := range slices.Sorted(slices.Values(names)) {
		data, isFile := p.read(name)
		switch isDir := p.isDir(name); {
		case isFile || (isDir && strings.Contains(flags, "d")):
			io.out(p.entryLine(flags, name, name, data))
			said = true
		case !isDir:
			io.err("ls: " + name + ": " + notFound + "\n")
			status = 1
		default:
			dirs = append(dirs, name)
		}
	}
	for _, dir := range dirs {
		if said {
			io.out("\n")
		}
		if headed {
			io.out(dir + ":\n")
		}
		said = true
		p.lsDir(flags, dir, io)
	}
	return status
}

// lsDir lists what is in a directory; hidden names only with -a or -A.
func (p *process) lsDir(flags, dir string, io streams) {
	names, _ := p.ReadDir(p.abs(dir))
	if strings.Contains(flags, "a") {
		names = append([]string{".", ".."}, names...)
	}
	for _, name := range names {
		if name[0] == '.' && !strings.ContainsAny(flags, "aA") {
			continue
		}
		in := path.Join(dir, name)
		data, _ := p.read(in)
		io.out(p.entryLine(flags, name, in, data))
	}
}

func (p *process) entryLine(flags, shown, name string, data []byte) string {
	if !strings.Contains(flags, "l") {
		return shown + "\n"
	}
	mode := "-rw-r--r--"
	if p.isDir(name) {
		mode = "drwxr-xr-x"
	}
	return fmt.Sprintf("%s    1 root     root     %9d %s\n", mode, len(data), shown)
}

// usage says how a command is called that was given no operand.
func usage(text string, io streams) int32 {
	io.err("Usage: " + text + "\n")
	return 1
}

// touch makes files; with -c it makes none.
func (p *process) touch(args []string, io streams) int32 {
	flags, names := flagsOf(args)
	if len(names) == 0 {
		return usage("touch [-c] FILE...", io)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		_, isFile := p.read(name)
		return p.isDir(name) || strings.Contains(flags, "c") && !isFile // directories have no times here
	})
	return p.changeAll("touch", names, Append, io)
}

// rm removes files, with -r directories too.
func (p *process) rm(args []string, io streams) int32 {
	flags, names := flagsOf(args)
	if len(names) == 0 && !strings.Contains(flags, "f") {
		return usage("rm [-rf] FILE...", io)
	}
	var status int32
	for _, name := range names {
		_, isFile := p.read(name)
		switch isDir := p.isDir(name); {
		case path.Base(name) == "." || path.Base(name) == "..":
			io.err("rm: can't remove '.' or '..'\n")
			status = 1
		case isFile:
			status = max(status, p.changeAll("rm", []string{name}, Remove, io))
		case isDir && strings.ContainsAny(flags, "rR"):
			status = max(status, p.rmAll(p.abs(name), io))
		case isDir:
			io.err("rm: '" + name + "' is a directory\n")
			status = 1
		case !strings.Contains(flags, "f"):
			io.err("rm: can't remove '" + name + "': " + notFound + "\n")
			status = 1
		}
	}
	return status
}

// rmAll removes a directory from below.
func (p *process) rmAll(dir string, io streams) int32 {
	var status int32
	names, _ := p.ReadDir(dir)
	for _, name := range names {
		if in := path.Join(dir, name); p.isDir(in) {
			status = max(status, p.rmAll(in, io))
		} else {
			status = max(status, p.changeAll("rm", []string{in}, Remove, io))
		}
	}
	if p.Lookup(dir).Kind == Directory {
		status = max(status, p.changeAll("rm", []string{dir}, Remove, io))
	}
	return status
}

// mkdir makes directories, whether or not the one above is there.
func (p *process) mkdir(args []string, io streams) int32 {
	flags, names := flagsOf(args)
	if len(names) == 0 {
		return usage("mkdir [-p] DIRECTORY...", io)
	}
	var status int32
	for _, name := range names {
		_, isFile := p.read(name)
		switch there := p.isDir(name); {
		case name == "":
			io.err("mkdir: can't create directory '': " + notFound + "\n")
			status = 1
		case there && strings.Contains(flags, "p"):
		case there || isFile:
			io.err("mkdir: can't create directory '" + name + "': File exists\n")
			status = 1
		default:
			status = max(status, p.changeAll("mkdir", []string{name}, MakeDir, io))
		}
	}
	return status
}

func (p *process) changeAll(command string, names []string, op Op, io streams) int32 {
	var status int32
	for _, name := range names {
		if why := p.Change(p.abs(name), op, ""); why != "" {
			io.err(command + ": " + name + ": " + why + "\n")
			status = 1
		}
	}
	return status
}

func (p *process) pwd(_ []string, io streams) int32 {
	io.out(p.dir + "\n")
	return 0
}

// cd goes to a directory, to $HOME without one, and to the last one with "-".
func (p *process) cd(args []string, io streams) int32 {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	to := p.env.value("HOME")
	if len(args) > 0 {
		to = args[0]
	}
	back := to == "-"
	if back {
		to = p.env.value("OLDPWD")
	}
	switch _, isFile := p.read(to); {
	case to == "":
		return 0 // busybox stays where it is
	case isFile:
		io.err("sh: cd: can't cd to " + to + ": Not a directory\n")
		return 2
	case !p.isDir(to):
		io.err("sh: cd: can't cd to " + to + ": " + notFound + "\n")
		return 2
	}
	p.env = p.env.set("OLDPWD", p.dir, false)
	if p.dir = p.abs(to); back {
		io.out(p.dir + "\n")
	}
	return 0
}

// part is head and tail: -n lines or -c bytes of the input or of files, headed by their
// names where there is more than one.
func (p *process) part(name string, args []string, io streams) Flow {
	n, bytes, fromStart, files, ok := countOf(name, args)
	if !ok {
		return p.beyond(name)
	}
	headed := len(files) > 1
	if len(files) == 0 {
		files = []string{"-"}
	}
	var status int32
	said := false
	for _, file := range files {
		data, alive, why := p.gather(file, io)
		switch {
		case !alive:
			return Stay
		case why != "" && name == "tail":
			io.err("tail: can't open '" + file + "': " + why + "\n")
			status = 1
			continue
		case why != "":
			io.err("head: " + file + ": " + why + "\n")
			status = 1
			continue
		case file == zeroes && (name != "head" || !bytes || n > MaxWritten):
			return p.beyond(name)
		case file == zeroes:
			data = make([]byte, n)
		}
		if headed {
			if said {
				io.out("\n")
			}
			io.out("==> " + file + " <==\n")
		}
		said = true
		io.out(partOf(name, string(data), n, bytes, fromStart))
	}
	p.status = status
	return Continue
}

func partOf(name, text string, n int, bytes, fromStart bool) string {
	switch {
	case name == "head":
		return text[:offset(text, n, bytes)]
	case fromStart:
		return text[offset(text, max(0, n-1), bytes):]
	case bytes:
		return text[max(0, len(text)-n):]
	default:
		return text[offset(text, max(0, countLines(text)-n), false):]
	}
}

// offset is where the first n lines or bytes end.
func offset(text string, n int, bytes bool) int {
	if bytes {
		return min(n, len(text))
	}
	at := 0
	for range n {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			return len(text)
		}
		at += i + 1
	}
	return at
}

// countLines counts a last line without an end too.
func countLines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

// countOf reads -n N, -nN, -N, -c N, and +N, from the start; 10 lines if none. tail takes +N
// without a dash too.
func countOf(name string, args []string) (n int, bytes, fromStart bool, files []string, ok bool) {
	n = 10
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if name == "tail" && len(arg) > 1 && arg[0] == '+' {
			arg = "-n" + arg
		}
		if len(arg) < 2 || arg[0] != '-' {
			files = append(files, arg)
			continue
		}
		text := strings.TrimPrefix(strings.TrimPrefix(arg[1:], "n"), "c")
		bytes = arg[1] == 'c'
		if text == "" && i+1 < len(args) {
			i++
			text = args[i]
		}
		fromStart = strings.HasPrefix(text, "+")
		read, err := strconv.ParseUint(strings.TrimPrefix(text, "+"), 10, 31)
		if err != nil {
			return 0, false, false, nil, false
		}
		n = int(read)
	}
	return n, bytes, fromStart, files, true
}

// zeroes is a file without end.
const zeroes = "/dev/zero"

// gather reads all of a file, or of the input for "-".
func (p *process) gather(file string, io streams) (data []byte, alive bool, why string) {
	switch file {
	case zeroes:
		return nil, true, ""
	case "-":
		var held pipeline
		alive = copyAll(io.in, held.add)
		return []byte(held.text.String()), alive, ""
	}
	data, why = p.contents(file)
	return data, true, why
}

// counts are what wc counts, by its flags, in its order.
var counts = []struct {
	flag string
	of   func(text string) int
}{
	{"l", func(text string) int { return strings.Count(text, "\n") }},
	{"w", func(text string) int { return len(strings.Fields(text)) }},
	{"c", func(text string) int { return len(text) }},
}

// count is wc. A column alone, of one file or the input, is not padded.
func (p *process) count(args []string, io streams) Flow {
	flags, files := flagsOf(args)
	if strings.Trim(flags, "lwc") != "" {
		return p.beyond("wc")
	}
	several := len(files) > 1
	if len(files) == 0 {
		files = []string{"-"}
	}
	totals := make([]int, len(counts))
	p.status = 0
	line := func(numbers []int, name string) {
		shown := []string{}
		for i, c := range counts {
			if flags == "" || strings.Contains(flags, c.flag) {
				shown = append(shown, fmt.Sprintf("%9d", numbers[i]))
			}
		}
		text := strings.Join(shown, " ")
		if len(shown) == 1 && !several {
			text = strings.TrimSpace(text)
		}
		if name != "-" {
			text += " " + name
		}
		io.out(text + "\n")
	}
	for _, file := range files {
		data, alive, why := p.gather(file, io)
		if !alive {
			return Stay
		}
		if file == zeroes {
			why = notFound
		}
		if why != "" {
			io.err("wc: " + file + ": " + why + "\n")
			p.status = 1
			continue
		}
		numbers := make([]int, len(counts))
		for i, c := range counts {
			numbers[i] = c.of(string(data))
			totals[i] += numbers[i]
		}
		line(numbers, file)
	}
	if several {
		line(totals, "total")
	}
	return Continue
}
