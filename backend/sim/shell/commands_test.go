package shell_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend/sim/shell"
)

// disk is a machine whose directories can be made, and which keeps its outputs apart.
type disk struct {
	machine
	dirs   map[string]bool
	full   bool
	errors strings.Builder
	asked  []string // the unknown commands
	cpu    *uint64
	bytes  *uint64
}

func newDisk() *disk {
	return &disk{
		machine: machine{
			files: map[string]string{
				"/home/a": "one\ntwo\nthree\n", "/home/empty": "", "/home/d/in": "inside", "/etc/ready": "yes\n",
			},
			input: []string{"first line\nsecond", " line\n"},
		},
		dirs: map[string]bool{"/home/made": true},
	}
}

func (d *disk) Now() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("CET", 3600)) }

func (d *disk) Write(fd int, text string) {
	if fd == 2 {
		d.errors.WriteString(text)
	} else {
		d.out.WriteString(text)
	}
}

func (d *disk) Lookup(name string) shell.Entry {
	if d.dirs[name] {
		return shell.Entry{Kind: shell.Directory}
	}
	return d.machine.Lookup(name)
}

func (d *disk) ReadDir(dir string) ([]string, bool) {
	names := map[string]bool{}
	for _, name := range append(slices.Collect(maps.Keys(d.files)), slices.Collect(maps.Keys(d.dirs))...) {
		if rest, ok := strings.CutPrefix(name, strings.TrimSuffix(dir, "/")+"/"); ok {
			first, _, _ := strings.Cut(rest, "/")
			names[first] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), len(names) > 0 || d.dirs[dir]
}

func (d *disk) Change(name string, op shell.Op, data string) string {
	switch {
	case strings.HasPrefix(name, "/etc/"):
		return "Read-only file system"
	case d.full && op == shell.Append && data != "":
		return shell.NoSpace
	case op == shell.MakeDir:
		d.dirs[name] = true
		return ""
	case op == shell.Remove && d.dirs[name]:
		delete(d.dirs, name)
		return ""
	}
	return d.machine.Change(name, op, data)
}

func (d *disk) Use(cpu, memory *uint64) { d.cpu, d.bytes = cpu, memory }

func (d *disk) Unknown(name string, _ bool) (int32, shell.Flow) {
	d.asked = append(d.asked, name)
	return 127, shell.Continue
}

// said is what became of a command line.
type said struct {
	Out, Err string
	Status   int32
	Unknown  []string // commands, "" being syntax
}

var inHome = shell.Container{
	Hostname: "pod", Dir: "/home", UID: 7, GID: 8, Env: []string{"A=1", "B=two words", "A=3"},
	Argv: []string{"sleep", "9"},
}

func says(t *testing.T, d *disk, c shell.Container, argv []string, want said) {
	t.Helper()
	status, ended := shell.Run(d, c, argv)
	if !ended {
		t.Errorf("%q did not end", argv)
	}
	if diff := cmp.Diff(want, said{d.out.String(), d.errors.String(), status, d.asked}); diff != "" {
		t.Errorf("%q (-want +got):\n%s", argv, diff)
	}
}

// TestCommands: what each command prints, where, and its status, as busybox has them.
func TestCommands(t *testing.T) {
	const missing = ": No such file or directory\n"
	for line, want := range map[string]said{
		"echo -n a b; echo; echo -n": {Out: "a b\n"},
		"cat":                        {Out: "first line\nsecond line\n"},
		"cat a - empty":              {Out: "one\ntwo\nthree\nfirst line\nsecond line\n"},
		"cat d a":                    {Out: "one\ntwo\nthree\n", Err: "cat: can't open 'd': Is a directory\n", Status: 1},
		"printenv A B":               {Out: "3\ntwo words\n"},
		"printenv C A":               {Out: "3\n", Status: 1},
		"C=5; export D=6 E; printenv": {
			Out: "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nHOSTNAME=pod\nB=two words\nA=3\nD=6\n",
		},
		"env A":                          {Status: 127, Unknown: []string{"env"}},
		"hostname; tty":                  {Out: "pod\nnot a tty\n", Status: 1},
		"stty size":                      {Err: "stty: standard input: Inappropriate ioctl for device\n", Status: 1},
		"date":                           {Out: "Wed Mar  4 04:06:07 UTC 2026\n"},
		"id; id -u; id -g; whoami":       {Out: "uid=7 gid=8 groups=8\n7\n8\n", Err: "whoami: unknown uid 7\n", Status: 1},
		"ps":                             {Out: "PID   USER     TIME  COMMAND\n    1 7         0:00 sleep 9\n"},
		"pwd; cd d; pwd; cd ..; cd; pwd": {Out: "/home\n/home/d\n/home\n"},
		"cd a":                           {Err: "sh: cd: can't cd to a: Not a directory\n", Status: 2},

		"ls": {Out: "a\nd\nempty\nmade\n"},
		"ls -l": {
			Out: "-rw-r--r--    1 root     root            14 a\ndrwxr-xr-x    1 root     root             0 d\n-rw-r--r--    1 root     root             0 empty\ndrwxr-xr-x    1 root     root             0 made\n",
		},
		"ls -d d a":    {Out: "a\nd\n"},
		"ls d none":    {Out: "d:\nin\n", Err: "ls: none" + missing, Status: 1},
		"ls -- made /": {Out: "/:\netc\nhome\n\nmade:\n"},

		"touch new a; cat new a": {Out: "one\ntwo\nthree\n"},
		"touch made d; cd made":  {},
		"touch /etc/x":           {Err: "touch: /etc/x: Read-only file system\n", Status: 1},
		"rm a; test -e a":        {Status: 1},
		"rm d":                   {Err: "rm: 'd' is a directory\n", Status: 1},
		"rm -r d made; ls":       {Out: "a\nempty\n"},
		"rm none":                {Err: "rm: can't remove 'none'" + missing, Status: 1},
		"rm -f none a":           {},
		"rm /etc/ready":          {Err: "rm: /etc/ready: Read-only file system\n", Status: 1},

		"mkdir x; mkdir -p x x/y; ls x": {Out: "y\n"},
		"mkdir made":                    {Err: "mkdir: can't create directory 'made': File exists\n", Status: 1},
		"mkdir -p a":                    {Err: "mkdir: can't create directory 'a': File exists\n", Status: 1},

		"head -n 1 a; head -2 a; head -c 2 a":     {Out: "one\none\ntwo\non"},
		"head -n9 a; head -c 99 a":                {Out: "one\ntwo\nthree\none\ntwo\nthree\n"},
		"tail -n 1 a; tail -n +2 a; tail -c 3 a":  {Out: "three\ntwo\nthree\nee\n"},
		"tail -n 1":                               {Out: "second line\n"},
		"echo -n x > n; tail -n 1 n; head -n 1 n": {Out: "xx"},
		"head none":                   {Err: "head: none" + missing, Status: 1},
		"head -n many a":              {Status: 127, Unknown: []string{"head"}},
		"head -c 3 /dev/zero | wc -c": {Out: "3\n"},
		"tail -c 3 /dev/zero":         {Status: 127, Unknown: []string{"tail"}},
		"head -c 99999999 /dev/zero":  {Status: 127, Unknown: []string{"head"}},

		"wc a; wc -lc a; wc -w": {Out: "        3         3        14 a\n        3        14 a\n4\n"},
		"wc d":                  {Err: "wc: d: Is a directory\n", Status: 1},
		"wc none a": {
			Out: "        3         3        14 a\n        3         3        14 total\n", Err: "wc: none" + missing, Status: 1,
		},

		"grep t a":          {Out: "two\nthree\n"},
		"grep -v t a":       {Out: "one\n"},
		"grep -i TWO a":     {Out: "two\n"},
		"grep -q two a":     {},
		"grep four a":       {Status: 1},
		"grep 'o$' a":       {Out: "two\n"},
		"grep -E '(' a":     {Err: "grep: bad regex '('\n", Status: 2},
		"grep t none":       {Err: "grep: none" + missing, Status: 2},
		"grep -w t a":       {Status: 127, Unknown: []string{"grep"}},
		"grep":              {Status: 127, Unknown: []string{"grep"}},
		"cat a | grep ^t":   {Out: "two\nthree\n"},
		"grep line | wc -l": {Out: "2\n"},

		"use cpu=lots":     {Err: "use: cpu=lots is no amount\n", Status: 1},
		"use memory=-1":    {Err: "use: memory=-1 is no amount\n", Status: 1},
		"use disk=1":       {Err: "use: disk is not cpu or memory\n", Status: 1},
		"exit 300":         {Status: 127, Unknown: []string{"exit 300"}},
		"false; exit":      {Status: 1},
		"nc -l 8; echo $?": {Out: "127\n", Unknown: []string{"nc"}},
	} {
		t.Run(line, func(t *testing.T) { says(t, newDisk(), inHome, []string{"sh", "-c", line}, want) })
	}
}

// TestRedirects: where outputs go, in the order in which they are redirected.
func TestRedirects(t *testing.T) {
	for line, want := range map[string]said{
		"cat none > o 2>&1; cat o":              {Out: "cat: can't open 'none': No such file or directory\n"},
		"cat none 2>&1 > o; cat o":              {Out: "cat: can't open 'none': No such file or directory\n"},
		"cat none 2> o; wc -l o":                {Out: "1 o\n"},
		"echo to 1>&2":                          {Err: "to\n"},
		"echo a > o; echo b > o; cat o":         {Out: "b\n"},
		"> o; wc -c o":                          {Out: "0 o\n"},
		"cat < a":                               {Out: "one\ntwo\nthree\n"},
		"cat < none; echo $?":                   {Out: "1\n", Err: "sh: can't open none: no such file\n"},
		"echo a > /etc/x; echo $?":              {Out: "1\n", Err: "sh: can't create /etc/x: Read-only file system\n"},
		"sh < a":                                {Status: 127, Unknown: []string{"one", "two", "three"}},
		"echo 'echo in; exit 4' | sh; echo $?":  {Out: "in\n4\n"},
		"sh -c 'exit 3'; echo $?":               {Out: "3\n"},
		"exit 3 | cat; echo $?":                 {Out: "0\n"},
		"echo a | cat > o; cat o":               {Out: "a\n"},
		"echo a >> /etc/x; echo $?":             {Out: "1\n", Err: "sh: can't create /etc/x: Read-only file system\n"},
		"echo a >> o; >> o; cat o; >> p; ls p":  {Out: "a\np\n"},
		"echo a > d; echo $?; cat d/in":         {Out: "1\ninside", Err: "sh: can't create d: Is a directory\n"},
		"echo a >> d; test -d d":                {Err: "sh: can't create d: Is a directory\n"},
		"cat << end":                            {Status: 127, Unknown: []string{""}},
		"echo >":                                {Status: 127, Unknown: []string{""}},
		"a=1 b=2; echo $a$b":                    {Out: "12\n"},
		"sh script":                             {Status: 127, Unknown: []string{"sh"}},
		"true && echo yes || echo no":           {Out: "yes\n"},
		"false && echo yes || echo no; echo $?": {Out: "no\n0\n"},
	} {
		t.Run(line, func(t *testing.T) { says(t, newDisk(), inHome, []string{"sh", "-c", line}, want) })
	}
	full := newDisk()
	full.full = true
	says(t, full, inHome, []string{"sh", "-c", "cat a - > o"}, said{Err: "sh: write error: No space left on device\n"})
}

// TestWithoutAShell: a command line that no shell reads knows neither variables nor cd.
func TestWithoutAShell(t *testing.T) {
	for _, tt := range []struct {
		argv []string
		want said
	}{
		{[]string{"echo", "$A", ">", "o"}, said{Out: "$A > o\n"}},
		{[]string{"/bin/cat", "a"}, said{Out: "one\ntwo\nthree\n"}},
		{[]string{"cd", "/"}, said{Status: 127, Unknown: []string{"cd"}}},
		{[]string{"A=1"}, said{Status: 127, Unknown: []string{"A=1"}}},
		{[]string{"/bin/sh", "-x", "-c", "true"}, said{Status: 127, Unknown: []string{"/bin/sh"}}},
		{[]string{"bash", "-c", "echo $A"}, said{Out: "3\n"}},
		{[]string{"sh"}, said{Status: 127, Unknown: []string{"first", "second"}}},
		{nil, said{}},
	} {
		says(t, newDisk(), inHome, tt.argv, tt.want)
	}
	root := shell.Container{}
	says(t, newDisk(), root, []string{"sh", "-c", "pwd; id; whoami; ps"},
		said{
			Out: "/\nuid=0(root) gid=0(root) groups=0(root)\nroot\nPID   USER     TIME  COMMAND\n    1 root      0:00 (the image's own)\n",
		})
}

// TestServers: which ports a command opens, from when, and what it answers there.
func TestServers(t *testing.T) {
	for line, want := range map[string][]shell.Listener{
		"serve 8080":                            {{Port: 8080}},
		"serve 0.0.0.0:80 ready-after=2":        {{Port: 80, From: 2 * time.Second}},
		"serve fail-after=1m 81":                {{Port: 81, FailingFrom: time.Minute}},
		"httpd -f -p 82":                        {{Port: 82}},
		"nc -ll -p 83 -e cat":                   {{Port: 83, Echoes: true}},
		"serve 99999":                           nil,
		"serve":                                 nil,
		"sleep infinity":                        nil,
		"serve 80 ready-after=never; serve 90 ": {{Port: 80}},
	} {
		d := newDisk()
		if _, ended := shell.Run(d, inHome, []string{"sh", "-c", line}); ended || !slices.Equal(d.ports, want) {
			t.Errorf("%q: %+v, ended: %v; want %+v", line, d.ports, ended, want)
		}
	}
}

// TestUse: what a container uses from now on; what is not named stays as it is.
func TestUse(t *testing.T) {
	amount := func(n uint64) *uint64 { return &n }
	for line, want := range map[string][2]*uint64{
		"use cpu=250m":            {amount(250), nil},
		"use memory=64Mi":         {nil, amount(64 << 20)},
		"use cpu=2 memory=1k":     {amount(2000), amount(1000)},
		"use cpu=1m; use":         {nil, nil},
		"use memory=1 memory=2 ":  {nil, amount(2)},
		"use cpu=1; use cpu=down": {amount(1000), nil},
	} {
		d := newDisk()
		shell.Run(d, inHome, []string{"sh", "-c", line})
		if diff := cmp.Diff(want, [2]*uint64{d.cpu, d.bytes}); diff != "" {
			t.Errorf("%q (-want +got):\n%s", line, diff)
		}
	}
}

// TestArchives: tar makes, lists and unpacks what kubectl cp sends and asks for.
func TestArchives(t *testing.T) {
	const short = "tar: short read\n"
	for line, want := range map[string]said{
		"tar cf - a d | tar tf -":                          {Out: "a\nd/\nd/in\n"},
		"tar cvf o.tar d; rm -r d; tar xf o.tar; cat d/in": {Out: "d/\nd/in\ninside"},
		"tar cf - d | tar xmf - -C /home/made; ls made":    {Out: "d\n"},
		"tar -c -v a > o":                                  {Err: "a\n"},
		"tar cf - /etc/ready | tar tf -": {
			Out: "etc/ready\n", Err: "tar: removing leading '/' from member names\n",
		},
		"tar cf - none > o": {
			Err: "tar: none: No such file or directory\ntar: error exit delayed from previous errors\n", Status: 1,
		},
		"tar cf - a | tar xf - -C /etc": {Err: "tar: can't open 'a': Read-only file system\n", Status: 1},
		"tar cf - a | tar xf - -C none": {
			Err: "tar: can't change directory to 'none': No such file or directory\n", Status: 1,
		},
		"tar xf none": {
			Err: "tar: can't open 'none': No such file or directory\n", Status: 1,
		},
		"tar cf /etc/o a": {
			Err: "tar: can't open '/etc/o': Read-only file system\n", Status: 1,
		},
		"echo -n | tar x":                          {Err: short, Status: 1},
		"cat a | tar x":                            {Err: short, Status: 1},
		"tar cf - a | head -c 515 | tar x":         {Err: "tar: short read\n", Status: 1},
		"head -c 600 /dev/zero | tar t":            {Err: short, Status: 1},
		"tar cf - ../etc/ready | tar xf - -C made": {Err: "tar: name with '..' in it: '../etc/ready'\n", Status: 1},
		"tar cf d a":                               {Err: "tar: can't open 'd': Is a directory\n", Status: 1},
		"tar f x":                                  {Err: "tar: must specify one of -c, -x or -t\n", Status: 1},
		"tar czf o a":                              {Err: "tar: unrecognized option: z\n", Status: 1},
		"tar c --exclude=a d":                      {Err: "tar: unrecognized option: --exclude=a\n", Status: 1},
		"tar cf - a | tar --no-same-owner -x -f - -C made": {},
		"mkdir made/a; tar cf - a | tar xf - -C made":      {Err: "tar: can't open 'a': Is a directory\n", Status: 1},
	} {
		t.Run(line, func(t *testing.T) { says(t, newDisk(), inHome, []string{"sh", "-c", line}, want) })
	}
}
