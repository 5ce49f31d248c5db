package sim

import (
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/filesystem"
	"github.com/burstlet/burstlet/backend/sim/shell"
	"github.com/burstlet/burstlet/backend/sim/terminal"
)

// FromArgv reads a Life from a container's command and arguments, as a busybox
// image would run them. Package shell says which commands it knows: they write to
// the log, see the files of mounted volumes and what was written, and read an
// input that is empty or, with container.stdin, what attached users type. Anything
// else, and a script from there on, runs until it is stopped. A Script may fall
// back on FromArgv.
func FromArgv(c corev1.Container) Life {
	return readProgram(&container{spec: backend.ContainerSpec{Container: c}}, nil, time.Time{}).Life
}

// program is a Life, what it writes and where it listens.
type program struct {
	Life
	lines     []line
	loads     []load
	writes    []filesystem.Write
	listeners []shell.Listener
	// before and readAt are what it was read with.
	before []filesystem.Write
	readAt time.Time
	// shed is how many of the first lines are not kept any more; written is the
	// length of those that were added in time.
	shed, written int
}

// line is one line of output, written at an offset from the start. An open one
// has no newline at its end.
type line struct {
	at   time.Duration
	text string
	open bool
	fd   int
}

// readProgram runs a container's command line on paper, with the files that it
// sees now and what will have been written before it starts.
func readProgram(c *container, before []filesystem.Write, now time.Time) program {
	m := &paper{container: c, before: before, now: now}
	m.out.before, m.out.readAt = before, now
	argv := c.argv()
	if len(argv) == 0 {
		m.out.RunFor = -1
		return m.out
	}
	if status, ended := shell.Run(m, c.forShell(), argv); ended {
		m.out.ExitCode = status
	} else {
		m.out.RunFor = -1
	}
	return m.out
}

// argv is the container's own command line; empty for the image's own.
func (c *container) argv() []string {
	return slices.Concat(c.spec.Container.Command, c.spec.Container.Args)
}

// forShell is the container as a command in it sees it.
func (c *container) forShell() shell.Container {
	spec := &c.spec.Container
	out := shell.Container{Argv: c.argv(), Hostname: c.hostname(), Dir: spec.WorkingDir}
	for _, v := range spec.Env {
		out.Env = append(out.Env, v.Name+"="+v.Value)
	}
	out.UID, out.GID = userOf(&c.spec)
	return out
}

// paper is a machine on which time passes in a sum.
type paper struct {
	container *container
	before    []filesystem.Write
	now       time.Time
	out       program
}

// Sleep adds to how long the program runs.
func (m *paper) Sleep(d time.Duration) bool {
	if d < 0 || m.out.RunFor > math.MaxInt64-d {
		return false
	}
	m.out.RunFor += d
	return true
}

// Write writes to the log, where both streams go.
func (m *paper) Write(fd int, text string) {
	if m.container.spec.Container.TTY {
		fd, text = 1, terminal.Shown(text)
	}
	m.out.lines = append(m.out.lines, linesOf(text, fd, m.out.RunFor)...)
}

// linesOf splits what is written at one time.
func linesOf(text string, fd int, at time.Duration) []line {
	var out []line
	for text != "" {
		before, after, ended := strings.Cut(text, "\n")
		out = append(out, line{at, before, !ended, fd})
		text = after
	}
	return out
}

// Lookup sees the files of now, and what was written on paper.
func (m *paper) Lookup(name string) shell.Entry {
	at, _ := m.container.tree().Locate(name)
	writes := slices.DeleteFunc(slices.Clone(m.writes()), func(w filesystem.Write) bool { return w.Place != at })
	return filesystem.Replay(
		m.container.lookup(name, m.now), writes, func(w filesystem.Write) filesystem.Write { return w },
	)
}

// ReadDir sees what Lookup does.
func (m *paper) ReadDir(dir string) ([]string, bool) {
	return m.container.tree().List(dir, m.Lookup, m.writes())
}

func (m *paper) writes() []filesystem.Write { return append(slices.Clip(m.before), m.out.writes...) }

// Change adds to what the program will write.
func (m *paper) Change(name string, op shell.Op, data string) string {
	w, why := m.container.tree().Change(m.out.RunFor, name, op, data)
	if why == "" {
		m.out.writes = append(m.out.writes, w)
	}
	return why
}

// ReadInput is the end of an empty input, or never comes where the container keeps it
// open: what then happens is for those that attach (attach.go).
func (m *paper) ReadInput() ([]byte, bool) { return nil, !m.container.spec.Container.Stdin }

// Terminal is nil: whoever attaches brings one.
func (m *paper) Terminal() *terminal.Terminal { return nil }

// Interactive is nil, as Terminal is.
func (m *paper) Interactive() *terminal.Terminal { return nil }

// Now is when the program comes here, if it starts now.
func (m *paper) Now() time.Time { return m.now.Add(m.out.RunFor) }

// Listen opens a port, at offsets from the start of the program.
func (m *paper) Listen(l shell.Listener) {
	if l.FailingFrom > 0 {
		l.FailingFrom += m.out.RunFor
	}
	l.From += m.out.RunFor
	m.out.listeners = append(m.out.listeners, l)
	m.out.HealthyAfter, m.out.UnhealthyAfter = l.From, l.FailingFrom
}

// IgnoreTerm is for the program's whole life.
func (m *paper) IgnoreTerm() { m.out.IgnoreTerm = true }

// Unknown runs until it is stopped.
func (m *paper) Unknown(string, bool) (int32, shell.Flow) { return 0, shell.Stay }
