package intask

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
)

// Task is the task as the program sees it from inside.
type Task struct {
	// Env reads a variable of the environment; "" is not set.
	Env func(name string) string
	// Environ is the whole environment, of a container that is supervised.
	Environ []string
	// Volumes is where the volumes are mounted; empty is VolumesDir.
	Volumes string
	// RunDir is the run directory; empty is RunDir.
	RunDir string
	// Bin is where the pod's containers find this program; empty is BinDir.
	Bin string
	// Etc is where the container's own files are; empty is /etc.
	Etc string
	// CredentialsHost is the URL of ECS's credentials; empty is ECS's own.
	CredentialsHost string
	// HTTPClient makes the calls; nil is net/http's.
	HTTPClient *http.Client
	// Log never gets contents of files, keys or credentials.
	Log *log.Logger
	// Stdin is a session's; Stdout takes what health and a session have to say,
	// Stderr the report of a container.
	Stdin, Stdout, Stderr *os.File
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (t Task) runDir() string { return or(t.RunDir, RunDir) }
func (t Task) etc() string    { return or(t.Etc, "/etc") }

// Commands of the program, beside CommandSupervise and CommandEnter.
const (
	CommandMaterialize = "materialize"
	CommandAgent       = "agent"
	CommandHealth      = "health"
	CommandSession     = "session"
)

// Run does what the arguments, without the program's name, say, and returns the
// program's exit code: that of the container for CommandSupervise, else 0 or, with
// an error, 1.
func (t Task) Run(ctx context.Context, args []string) (int, error) {
	if len(args) == 0 {
		return 1, errors.New("want an argument: what to do")
	}
	command, args := args[0], args[1:]
	var err error
	switch {
	case command == CommandSupervise && len(args) > 0 && args[0] == "--":
		return t.Supervise(ctx, args[1:], t.Stderr)
	case command == CommandEnter:
		return Enter(args), nil
	case command == CommandSession && len(args) <= 1:
		err = t.Session(ctx, t.Stdin, t.Stdout, args)
	case len(args) != 0:
		err = fmt.Errorf("unexpected arguments %q", args)
	case command == CommandMaterialize:
		err = t.Materialize(ctx)
	case command == CommandAgent:
		err = t.Agent(ctx)
	case command == CommandHealth:
		if err = t.Health(t.Stdout); errors.Is(err, errUnhealthy) {
			return 1, nil // it is said
		}
	default:
		err = errors.New("no command of this version")
	}
	if err != nil {
		return 1, fmt.Errorf("%s: %w", command, err)
	}
	return 0, nil
}

// UntilSignal is true for what SIGTERM ends by ending its context. A supervisor has
// its own way with signals; enter becomes another program.
func UntilSignal(args []string) bool {
	return len(args) > 0 && args[0] != CommandSupervise && args[0] != CommandEnter
}
