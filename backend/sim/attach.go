package sim

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// attachView lends backend.Attacher.
type attachView struct{ *view }

// Attach copies what the container's program writes to its log from now on, and
// sends input to a program that reads it: one that comes to cat or to a shell
// without a script, or has no command, with container.stdin.
func (v attachView) Attach(ctx context.Context, ref backend.ContainerRef, spec backend.AttachSpec) error {
	op := containerOp("attach to", ref)
	if err := v.request(ctx, op); err != nil {
		return err
	}
	quit := make(chan struct{})
	defer close(quit)
	w, next, err := v.enter(ref, spec, quit)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	err = w.copyOutput(ctx, next, spec)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", op, ctx.Err())
	case err != nil:
		return fmt.Errorf("%s: %w", op, err)
	}
	return v.reply(ctx, op)
}

// enter finds the running container and the next line of its log, and joins the
// caller's input to it until quit.
func (v attachView) enter(
	ref backend.ContainerRef, spec backend.AttachSpec, quit <-chan struct{},
) (watched, int, error) {
	now := v.lock()
	defer v.mu.Unlock()
	a, c := v.lookup(ref.Pod, ref.Name, ref.Attempt, now)
	if c == nil || !c.runs(a, now) {
		return watched{}, 0, backend.Errorf(backend.ErrNotFound, "it does not run")
	}
	w := watched{v.Remote, a, c}
	next, _ := w.written(now)
	if !c.spec.Container.Stdin || (spec.Stdin == nil && spec.Resize == nil) {
		return w, next, nil
	}
	if c.console == nil {
		c.console = newConsole(w)
		c.console.start(spec, quit)
	} else {
		c.console.join(spec, quit)
	}
	return w, next, nil
}

// copyOutput writes the lines of the log from the next one on, until the end of
// the container or of the context.
func (w watched) copyOutput(ctx context.Context, next int, spec backend.AttachSpec) error {
	out := map[int]io.Writer{1: spec.Stdout, 2: spec.Stderr}
	for {
		lines, changed, upcoming, over := w.follow(&next)
		for _, line := range lines {
			to := out[line.fd]
			if to == nil {
				continue
			}
			if _, err := io.WriteString(to, line.text); err != nil {
				return fmt.Errorf("write output: %w", err)
			}
		}
		if over {
			return nil
		}
		if err := waitForChange(ctx, changed, upcoming); err != nil {
			return err
		}
	}
}

// follow returns the lines since, and how to wait for more unless it is over.
func (w watched) follow(next *int) (lines []stamped, changed <-chan struct{}, upcoming time.Time, over bool) {
	now := w.remote.lock()
	defer w.remote.mu.Unlock()
	lines, upcoming = w.linesFrom(next, now)
	if !w.container.runs(w.attempt, now) {
		return lines, nil, upcoming, true
	}
	return lines, w.attempt.wait(), upcoming, false
}

func waitForChange(ctx context.Context, changed <-chan struct{}, upcoming time.Time) error {
	var alarm <-chan time.Time
	if !upcoming.IsZero() {
		timer := time.NewTimer(time.Until(upcoming))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-changed:
	case <-alarm:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
