package sim

import (
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// FromArgv reads a Life from a container's command and arguments, as a busybox
// image would run them:
//
//	true, false, exit N        exit at once with 0, 1, N
//	sleep N, sleep infinity    exit 0 after N seconds (or 5m, 1h), or never
//	echo, env, printenv, hostname, ls, cat FILE, test, [
//	                           write to the log and exit at once; files are
//	                           those of mounted volumes and what was written
//	touch, rm, > and >>        change files, of emptyDir volumes too
//	trap '' TERM               ignore TERM from here on
//	serve PORT ready-after=3s fail-after=10s
//	                           listen from 3 s after the start, answer 200 to
//	                           HTTP, 500 from 10 s after it; both are optional
//	httpd -p PORT              the same
//	sh -c "A; B && C || D"     a script of these, with $NAME and redirects
//
// Anything else, and a script from there on, runs until it is stopped. A Script
// may fall back on it.
func FromArgv(c corev1.Container) Life {
	return readProgram(&container{spec: backend.ContainerSpec{Container: c}}, nil, time.Time{}).Life
}

// program is a Life, what it writes and where it listens.
type program struct {
	Life
	lines     []line
	writes    []write
	listeners []listener
}

// line is one line of output, written at an offset from the start. An open one
// has no newline at its end.
type line struct {
	at   time.Duration
	text string
	open bool
}

// readProgram runs a container's command line on paper, with the files that it
// sees now and what will have been written before it starts.
func readProgram(c *container, before []write, now time.Time) program {
	m := &paper{container: c, before: before, now: now}
	argv := append(append([]string(nil), c.spec.Container.Command...), c.spec.Container.Args...)
	if len(argv) == 0 {
		m.out.RunFor = -1
		return m.out
	}
	p := process{machine: m, env: environmentOf(c)}
	if p.runArgv(argv) == stays {
		m.out.RunFor = -1
	} else {
		m.out.ExitCode = p.status
	}
	return m.out
}

// paper is a machine on which time passes in a sum.
type paper struct {
	container *container
	before    []write
	now       time.Time
	out       program
}

func (m *paper) sleep(d time.Duration) bool {
	if m.out.RunFor > math.MaxInt64-d {
		return false
	}
	m.out.RunFor += d
	return true
}

// emit writes to the log, where both streams go.
func (m *paper) emit(_ int, text string) {
	for text != "" {
		before, after, ended := strings.Cut(text, "\n")
		m.out.lines = append(m.out.lines, line{m.out.RunFor, before, !ended})
		text = after
	}
}

// read sees the files of now, and what was written on paper.
func (m *paper) read(name string) ([]byte, bool) {
	at, _ := m.container.locate(name)
	data, ok := m.container.read(name, m.now)
	for _, w := range m.writes() {
		if w.place == at {
			data, ok = w.apply(data, ok)
		}
	}
	return data, ok
}

func (m *paper) list(dir string) ([]string, bool) {
	return m.container.list(dir, m.read, m.writes())
}

func (m *paper) writes() []write { return append(slices.Clip(m.before), m.out.writes...) }

func (m *paper) change(name string, op writeOp, data string) string {
	w, why := m.container.change(m.out.RunFor, name, op, data)
	if why == "" {
		m.out.writes = append(m.out.writes, w)
	}
	return why
}

// input is empty, or never ends where the container keeps it open.
func (m *paper) input(func(string)) bool { return !m.container.spec.Container.Stdin }

func (m *paper) listen(l listener) {
	if l.failing > 0 {
		l.failing += m.out.RunFor
	}
	l.from += m.out.RunFor
	m.out.listeners = append(m.out.listeners, l)
	m.out.HealthyAfter, m.out.UnhealthyAfter = l.from, l.failing
}

func (m *paper) ignoreTerm() { m.out.IgnoreTerm = true }

func (m *paper) unknown(string, bool) (int32, flow) { return 0, stays }
