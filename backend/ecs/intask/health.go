package intask

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// healthFile is where a supervisor says in its run directory how its container is:
// healthy, or the reason why it is not.
const healthFile = "health"

// healthy is the contents of the file of a container that has started and is ready.
const healthy = "healthy"

// errUnhealthy is in the chain of an error about a container that is not healthy.
var errUnhealthy = errors.New("not ready")

// Health says how the container is whose supervisor has this run directory: nil once
// its postStart hook is done, its startup probe has succeeded, and while its
// readiness probe does.
func (t Task) Health(out io.Writer) error {
	b, err := os.ReadFile(filepath.Join(t.runDir(), healthFile))
	if errors.Is(err, fs.ErrNotExist) {
		b, err = []byte("the container has not started"), nil
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s\n", b); err != nil {
		return err
	}
	if string(b) != healthy {
		return errUnhealthy
	}
	return nil
}

// What stands in the file while nothing was found yet.
const (
	pendingHook    = "the postStart hook has not finished"
	pendingStart   = "the startup probe has not succeeded"
	pendingReady   = "the readiness probe has not succeeded"
	containerEnded = "the container has ended"
)

var pendingTexts = []string{pendingHook, pendingStart, pendingReady}

// state is how far a container has come.
type state struct {
	hooked, started, ready, ended bool
	// why is the last failure of a probe.
	why string
}

// text is what stands in the file.
func (s state) text() string {
	switch {
	case s.ended:
		return containerEnded
	case !s.hooked:
		return pendingHook
	case s.started && s.ready:
		return healthy
	case s.why != "":
		return s.why
	case !s.started:
		return pendingStart
	}
	return pendingReady
}

// publish writes a state, for root alone to read, in one step.
func publish(run string, s state) error {
	path := filepath.Join(run, healthFile)
	if err := os.WriteFile(path+".new", []byte(s.text()), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
