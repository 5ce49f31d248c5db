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
//	echo, env, printenv, hostname, pwd, date, id, whoami, ps, stty, tty, test, [,
//	ls, cat, head, tail, wc, grep, tar
//	                           write to the log and exit at once; files are
//	                           those of mounted volumes and what was written
//	touch, rm, mkdir, > and >> change files, of emptyDir volumes too
//	sh, cat                    read the input: empty, or with container.stdin
//	                           what attached users type
//	trap '' TERM               ignore TERM from here on
//	serve PORT ready-after=3s fail-after=10s
//	                           listen from 3 s after the start, answer 200 to
//	                           HTTP, 500 from 10 s after it; both are optional
//	httpd -p PORT              the same
//	nc -ll -p PORT -e cat      listen and echo
//	use cpu=250m memory=64Mi   use so much from here on, within the limits
//	sh -c "A; B && C || D | E" a script of these, with NAME=value, $NAME, $?, cd,
//	                           export and redirects
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
	loads     []load
	writes    []write
	listeners []listener
	// before and readAt are what it was read with.
	before []write
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
func readProgram(c *container, before []write, now time.Time) program {
	m := &paper{container: c, before: before, now: now}
	m.out.before, m.out.readAt = before, now
	argv := append(append([]string(nil), c.spec.Container.Command...), c.spec.Container.Args...)
	if len(argv) == 0 {
		m.out.RunFor = -1
		return m.out
	}
	p := newProcess(m, c)
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
	if d < 0 || m.out.RunFor > math.MaxInt64-d {
		return false
	}
	m.out.RunFor += d
	return true
}

// emit writes to the log, where both streams go.
func (m *paper) emit(fd int, text string) {
	if m.container.spec.Container.TTY {
		fd, text = 1, onTerminal(text)
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

// look sees the files of now, and what was written on paper.
func (m *paper) look(name string) entry {
	at, _ := m.container.locate(name)
	writes := slices.DeleteFunc(slices.Clone(m.writes()), func(w write) bool { return w.place != at })
	return replay(m.container.look(name, m.now), writes, func(w write) write { return w })
}

func (m *paper) list(dir string) ([]string, bool) {
	return m.container.list(dir, m.look, m.writes())
}

func (m *paper) writes() []write { return append(slices.Clip(m.before), m.out.writes...) }

func (m *paper) change(name string, op writeOp, data string) string {
	w, why := m.container.change(m.out.RunFor, name, op, data)
	if why == "" {
		m.out.writes = append(m.out.writes, w)
	}
	return why
}

// next is the end of an empty input, or never comes where the container keeps it
// open: what then happens is for those that attach (attach.go).
func (m *paper) next() ([]byte, bool) { return nil, !m.container.spec.Container.Stdin }

// terminal is nil: whoever attaches brings one.
func (m *paper) terminal() *terminal { return nil }

func (m *paper) interactive() *terminal { return nil }

func (m *paper) clock() time.Time { return m.now.Add(m.out.RunFor) }

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
