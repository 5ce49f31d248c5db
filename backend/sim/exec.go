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
	whole := ctx
	ctx, cancel := spec.Within(ctx)
	defer cancel()
	quit := make(chan struct{})
	defer close(quit)
	l, err := v.enter(ctx, ref, spec, quit)
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
	if err := v.reply(whole, op); err != nil {
		return 0, err
	}
	return code, nil
}

// enter finds the running container that the command is to run in. Whatever
// serves its streams ends with quit.
func (v execView) enter(
	ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec, quit <-chan struct{},
) (*live, error) {
	now := v.lock()
	defer v.mu.Unlock()
	a, c := v.lookup(ref.Pod, ref.Name, ref.Attempt, now)
	if c == nil || !c.runs(a, now) {
		return nil, backend.Errorf(backend.ErrNotFound, "it does not run")
	}
	l := &live{watched: watched{v.Remote, a, c}, done: ctx.Done()}
	l.out = map[int]io.Writer{1: spec.Stdout, 2: spec.Stderr}
	if spec.Stdin != nil {
		l.stdin = &input{open: func() <-chan []byte {
			data := make(chan []byte)
			go pump(spec.Stdin, data, quit)
			return data
		}}
	}
	if spec.TTY {
		l.onTerminal()
		l.tty.Follow(spec.Resize, quit)
	}
	return l, nil
}

func (v execView) runIn(l *live, argv []string) (int32, error) {
	if outcome, ok := v.scripted(l, argv); ok {
		if !l.Sleep(max(-1, outcome.After)) || outcome.Err != nil {
			return 0, outcome.Err
		}
		l.Write(1, outcome.Stdout)
		l.Write(2, outcome.Stderr)
		return outcome.ExitCode, l.err
	}
	return l.run(argv)
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

// wakeup is why a wait is over.
type wakeup int

const (
	byTime wakeup = iota
	byInput
	// byInterrupt: the user typed ^C, and nobody has taken it yet.
	byInterrupt
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
	changed, end, runs := w.state()
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

// state says whether the container runs, when it will end as things stand, and
// gives a channel that is closed when things change.
func (w watched) state() (changed <-chan struct{}, end time.Time, runs bool) {
	now := w.remote.lock()
	defer w.remote.mu.Unlock()
	if !w.container.runs(w.attempt, now) {
		return nil, end, false
	}
	return w.attempt.wait(), earliest(w.container.finished, w.attempt.gone), true
}
