package sim

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// Command is one command that is run in a container.
type Command struct {
	Pod       backend.Ref
	Container corev1.Container
	// Attempt is the container's own; Ran is how long it has been running.
	Attempt int
	Ran     time.Duration
	Argv    []string
}

// Outcome is what a command does. The zero value succeeds at once.
type Outcome struct {
	// After is how long it takes; negative never ends by itself.
	After          time.Duration
	ExitCode       int32
	Stdout, Stderr string
	// Err is returned instead, after so long.
	Err error
}

// execView lends backend.Exec.
type execView struct{ *view }

// Exec runs a command as Config.Exec says, or else as its command line is read.
// It ends with the context, and with 137 when its container ends.
func (v execView) Exec(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
	op := containerOp("run a command in", ref)
	if len(spec.Command) == 0 {
		return 0, backend.Errorf(backend.ErrInvalid, "%s: no command", op)
	}
	if err := v.request(ctx, op); err != nil {
		return 0, err
	}
	l, err := v.enter(ctx, ref, spec)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", op, err)
	}
	code, err := v.runIn(l, spec.Command)
	switch {
	case ctx.Err() != nil:
		return 0, fmt.Errorf("%s: %w", op, ctx.Err())
	case err != nil:
		return 0, fmt.Errorf("%s: %w", op, err)
	case l.cut:
		code = exitKill // with its container
	}
	if err := v.reply(ctx, op); err != nil {
		return 0, err
	}
	return code, nil
}

// enter finds the running container that the command is to run in.
func (v execView) enter(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (*live, error) {
	now := v.lock()
	defer v.mu.Unlock()
	a, c := v.lookup(ref.Pod, ref.Name, ref.Attempt, now)
	if c == nil || !c.runs(a, now) {
		return nil, backend.Errorf(backend.ErrNotFound, "it does not run")
	}
	out := map[int]io.Writer{1: spec.Stdout, 2: spec.Stderr}
	return &live{watched: watched{v.Remote, a, c}, done: ctx.Done(), stdin: spec.Stdin, out: out}, nil
}

func (v execView) runIn(l *live, argv []string) (int32, error) {
	if outcome, ok := v.scripted(l, argv); ok {
		if !l.sleep(outcome.After) || outcome.Err != nil {
			return 0, outcome.Err
		}
		l.emit(1, outcome.Stdout)
		l.emit(2, outcome.Stderr)
		return outcome.ExitCode, l.err
	}
	p := process{machine: l, env: environmentOf(l.container)}
	if p.runArgv(argv) == stays && l.err == nil {
		l.sleep(-1)
	}
	return p.status, l.err
}

func (v execView) scripted(l *live, argv []string) (Outcome, bool) {
	if v.cfg.Exec == nil {
		return Outcome{}, false
	}
	c := l.container
	return v.cfg.Exec(Command{
		Pod: l.attempt.ref, Container: c.spec.Container, Attempt: c.attempt, Ran: l.ran(), Argv: argv,
	})
}

// live is a machine on which time passes: one command in a running container.
type live struct {
	watched
	done  <-chan struct{}
	stdin io.Reader
	out   map[int]io.Writer
	// cut says that the command did not live to its end; err is why it could not
	// go on where that was not its caller's or its container's end.
	cut bool
	err error
}

// ran is how long the container has been running.
func (l *live) ran() time.Duration {
	now := l.remote.lock()
	defer l.remote.mu.Unlock()
	return now.Sub(l.container.started)
}

// sleep for a negative duration never ends by itself.
func (l *live) sleep(d time.Duration) bool {
	var until time.Time
	if d >= 0 {
		until = time.Now().Add(d)
	}
	if l.cut || l.err != nil {
		return false
	}
	if d == 0 {
		return true
	}
	_, why := l.wait(until, l.done, nil)
	l.cut = why == ended
	return !l.cut
}

func (l *live) emit(fd int, text string) {
	w := l.out[fd]
	if w == nil || text == "" || l.cut || l.err != nil {
		return
	}
	if _, err := io.WriteString(w, text); err != nil {
		l.err = fmt.Errorf("write output: %w", err)
	}
}

func (l *live) read(name string) ([]byte, bool) {
	now := l.remote.lock()
	defer l.remote.mu.Unlock()
	return l.container.read(name, now)
}

func (l *live) list(dir string) ([]string, bool) {
	now := l.remote.lock()
	defer l.remote.mu.Unlock()
	read := func(name string) ([]byte, bool) { return l.container.read(name, now) }
	return l.container.list(dir, read, nil)
}

func (l *live) change(name string, op writeOp, data string) string {
	now := l.remote.lock()
	defer l.remote.mu.Unlock()
	w, why := l.container.change(now.Sub(l.container.started), name, op, data)
	if why == "" {
		l.container.keep(w)
	}
	return why
}

// input copies until the end of the standard input. A reader that never returns
// is left behind: only its owner can end it.
func (l *live) input(out func(string)) bool {
	if l.stdin == nil {
		return true
	}
	data, quit := make(chan []byte), make(chan struct{})
	defer close(quit)
	go pump(l.stdin, data, quit)
	for {
		chunk, why := l.wait(time.Time{}, l.done, data)
		switch {
		case why == ended:
			l.cut = true
			return false
		case chunk == nil:
			return true
		}
		out(string(chunk))
	}
}

// pump reads until the end of the input, which is all the same to a program if
// it is an error.
func pump(r io.Reader, data chan<- []byte, quit <-chan struct{}) {
	defer close(data)
	for {
		buffer := make([]byte, 32<<10)
		n, err := r.Read(buffer)
		if n > 0 {
			select {
			case data <- buffer[:n]:
			case <-quit:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// listen is for nobody: what a command serves ends with it.
func (l *live) listen(listener) {}

func (l *live) ignoreTerm() {}

// unknown fails as a shell does, or as a runtime that finds no such program.
func (l *live) unknown(name string, shell bool) (int32, flow) {
	switch {
	case !shell:
		l.err = backend.Errorf(backend.ErrInvalid, "exec: %q: executable file not found in $PATH", name)
		return 0, stays
	case name == "":
		l.emit(2, "sh: syntax that the simulator does not know\n")
		return 2, ends
	default:
		l.emit(2, "sh: "+name+": not found\n")
		return 127, goesOn
	}
}

// wakeup is why a wait is over.
type wakeup int

const (
	byTime wakeup = iota
	byInput
	byChange
	// ended: the container does not run any more, or the caller gave up.
	ended
)

// watched is a container whose end someone waits for.
type watched struct {
	remote    *Remote
	attempt   *attempt
	container *container
}

// wait returns at a time (zero is never), at the next input (nil is its end), or
// when the container ends or done is closed.
func (w watched) wait(until time.Time, done <-chan struct{}, in <-chan []byte) ([]byte, wakeup) {
	for {
		data, why := w.pass(until, done, in)
		if why != byChange {
			return data, why
		}
	}
}

// pass waits for one thing to happen.
func (w watched) pass(until time.Time, done <-chan struct{}, in <-chan []byte) ([]byte, wakeup) {
	changed, end, runs := w.look()
	if !runs {
		return nil, ended
	}
	var alarm <-chan time.Time
	if next := earliest(until, end); !next.IsZero() {
		timer := time.NewTimer(time.Until(next))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-done:
		return nil, ended
	case data := <-in:
		return data, byInput
	case <-changed:
	case <-alarm:
		if reached(until, time.Now()) {
			return nil, byTime
		}
	}
	return nil, byChange
}

// look says whether the container runs, when it will end as things stand, and
// gives a channel that is closed when things change.
func (w watched) look() (changed <-chan struct{}, end time.Time, runs bool) {
	now := w.remote.lock()
	defer w.remote.mu.Unlock()
	if !w.container.runs(w.attempt, now) {
		return nil, end, false
	}
	return w.attempt.wait(), earliest(w.container.finished, w.attempt.gone), true
}
