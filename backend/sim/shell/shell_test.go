package shell_test

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend/sim/shell"
	"github.com/burstlet/burstlet/backend/sim/terminal"
)

// machine has files in memory, and time that passes at once.
type machine struct {
	files   map[string]string
	input   []string
	out     strings.Builder
	slept   time.Duration
	ports   []shell.Listener
	ignores bool
	memory  uint64
}

func (m *machine) Sleep(d time.Duration) bool {
	m.slept += max(0, d)
	return d >= 0
}

func (m *machine) Now() time.Time { return time.Unix(0, 0) }

func (m *machine) Write(_ int, text string) { m.out.WriteString(text) }

func (m *machine) ReadInput() ([]byte, bool) {
	if len(m.input) == 0 {
		return nil, true
	}
	part := m.input[0]
	m.input = m.input[1:]
	return []byte(part), true
}

func (m *machine) Terminal() *terminal.Terminal { return nil }

func (m *machine) Interactive() *terminal.Terminal { return nil }

func (m *machine) Lookup(name string) shell.Entry {
	if text, ok := m.files[name]; ok {
		return shell.Entry{Kind: shell.File, Data: []byte(text)}
	}
	return shell.Entry{}
}

func (m *machine) ReadDir(dir string) ([]string, bool) {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		if path.Dir(name) == dir {
			names = append(names, path.Base(name))
		}
	}
	return names, len(names) > 0 || dir == "/"
}

func (m *machine) Change(name string, op shell.Op, data string) string {
	switch op {
	case shell.Replace:
		m.files[name] = data
	case shell.Append:
		m.files[name] += data
	case shell.Remove:
		delete(m.files, name)
	case shell.MakeDir:
		return "Operation not permitted"
	}
	return ""
}

func (m *machine) Listen(l shell.Listener) { m.ports = append(m.ports, l) }

func (m *machine) IgnoreTerm() { m.ignores = true }

func (m *machine) Use(_, memory *uint64) { m.memory = *memory }

func (m *machine) Unknown(string, bool) (int32, shell.Flow) { return 127, shell.Continue }

// TestRun: what a command line makes of its machine.
func TestRun(t *testing.T) {
	for script, tt := range map[string]struct {
		out    string
		status int32
		stays  bool
	}{
		"echo $GREETING; exit 3":                {out: "hello\n", status: 3},
		"false || echo $?":                      {out: "1\n"},
		"nonsense":                              {status: 127},
		"sleep 2; sleep infinity":               {stays: true},
		"cat | wc -l":                           {out: "2\n"},
		"echo a > f; echo b >> f; cat f":        {out: "a\nb\n"},
		"cat /missing":                          {out: "cat: can't open '/missing': No such file or directory\n", status: 1},
		"mkdir d":                               {out: "mkdir: d: Operation not permitted\n", status: 1},
		"id -u; pwd; hostname":                  {out: "7\n/home\npod\n"},
		"tar c f | tar t":                       {out: "f\n"},
		"trap '' TERM; use memory=1Ki; serve 8": {stays: true},
	} {
		m := &machine{files: map[string]string{"/home/f": "x"}, input: []string{"one\n", "two\n"}}
		c := shell.Container{Hostname: "pod", Dir: "/home", UID: 7, Env: []string{"GREETING=bye", "GREETING=hello"}}
		status, ended := shell.Run(m, c, []string{"sh", "-c", script})
		if out := m.out.String(); out != tt.out || ended == tt.stays || (ended && status != tt.status) {
			t.Errorf("%q: %q, %d, ended: %v; want %q, %d, ended: %v", script, out, status, ended, tt.out, tt.status, !tt.stays)
		}
	}
}

// TestRunAsksItsMachine: for time, ports, signals and resources.
func TestRunAsksItsMachine(t *testing.T) {
	m := &machine{}
	script := "sleep 2; trap '' TERM; use memory=1Ki; serve 80 ready-after=3s fail-after=10s"
	if _, ended := shell.Run(m, shell.Container{}, []string{"sh", "-c", script}); ended {
		t.Error("a server ended")
	}
	want := []shell.Listener{{Port: 80, From: 3 * time.Second, FailingFrom: 10 * time.Second}}
	if m.slept != 2*time.Second || !m.ignores || m.memory != 1024 || !slices.Equal(m.ports, want) {
		t.Errorf("slept %v, ignores TERM: %v, uses %d, listens %+v", m.slept, m.ignores, m.memory, m.ports)
	}
}
