package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
)

// known is what is known of tasks, and what ECS says of them.
type known struct {
	before, now []backend.PodFacts
	tasks       []types.Task
	err         error
	asked       int
}

// Known, Inspect, List, Describe and Local are those of Tasks.
func (k *known) Known(ktypes.UID) []backend.PodFacts { return k.before }

func (k *known) Inspect(context.Context, []ktypes.UID) ([]backend.PodFacts, error) {
	k.asked++
	return k.now, k.err
}

func (k *known) List(context.Context) ([]backend.PodFacts, error) { return k.now, k.err }

func (k *known) Describe(context.Context, []string) ([]types.Task, []string, error) {
	return k.tasks, nil, k.err
}

func (k *known) Local(at *time.Time) time.Time { return *at }

// TestWhyASessionDoesNotOpen: ECS has one answer for several causes; only for an agent that does
// not run yet it is worth asking again.
func TestWhyASessionDoesNotOpen(t *testing.T) {
	unconnected := &types.TargetNotConnectedException{}
	running := aws.String(string(types.DesiredStatusRunning))
	withAgent := func(status string) types.Task {
		return types.Task{DesiredStatus: running, EnableExecuteCommand: true, Containers: []types.Container{
			{Name: aws.String("app")},
			{Name: aws.String("burstlet-agent"), ManagedAgents: []types.ManagedAgent{
				{Name: "Other", LastStatus: aws.String("STOPPED")}, {Name: execAgent, LastStatus: &status},
			}},
		}}
	}
	noExec, err := identity.Task{UID: "u", Containers: []identity.Container{{Name: "app"}}, NoExec: true}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	turnedOff := types.Task{DesiredStatus: running, Overrides: &types.TaskOverride{
		ContainerOverrides: []types.ContainerOverride{
			{Environment: []types.KeyValuePair{{Name: aws.String(identity.Env), Value: &noExec}}},
		},
	}}
	for name, tt := range map[string]struct {
		err   error
		tasks known
		class error // nil: it is asked again
		says  string
	}{
		"the agent does not run yet": {unconnected, known{tasks: []types.Task{withAgent("PENDING")}}, nil, ""},
		"the agent runs by now":      {unconnected, known{tasks: []types.Task{withAgent("RUNNING")}}, nil, ""},
		"in an older answer's words": {
			&smithy.GenericAPIError{Code: "InvalidParameterException"},
			known{tasks: []types.Task{withAgent("PENDING")}},
			nil, "",
		},
		"the agent has stopped": {
			unconnected,
			known{tasks: []types.Task{withAgent("STOPPED")}},
			backend.ErrUnavailable,
			"stopped in container burstlet-agent",
		},
		"the task is unknown": {unconnected, known{}, backend.ErrNotFound, "its task has ended"},
		"the task is to stop": {
			unconnected,
			known{tasks: []types.Task{{DesiredStatus: aws.String("STOPPED")}}},
			backend.ErrNotFound,
			"its task has ended",
		},
		"started without ECS Exec": {
			unconnected, known{tasks: []types.Task{{DesiredStatus: running}}}, backend.ErrUnsupported, whyNoExec,
		},
		"ECS Exec was turned off": {
			unconnected, known{tasks: []types.Task{turnedOff}}, backend.ErrUnsupported, whyExecOff,
		},
		"ECS cannot be asked": {
			unconnected, known{err: backend.Errorf(backend.ErrThrottled, "slow down")}, backend.ErrThrottled, "slow down",
		},
		"it may not be asked for": {
			&smithy.GenericAPIError{Code: "AccessDeniedException"}, known{}, backend.ErrDenied, "execute command: ",
		},
		"it is asked for too often": {
			&smithy.GenericAPIError{Code: "ThrottlingException"}, known{}, backend.ErrThrottled, "execute command: ",
		},
	} {
		s := &Pool{tasks: &tt.tasks}
		err := s.whyNot(t.Context(), key{"arn", "burstlet-agent"}, tt.err)
		if tt.class == nil {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, tt.class) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v; want %v, %s", name, err, tt.class, tt.says)
		}
	}
}

// pod is an attempt with containers that are written as "name/attempt", with a dash before one
// that has ended and a question mark before one that has not started.
func pod(live bool, attempt int, containers ...string) backend.PodFacts {
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	f := backend.PodFacts{Live: live, Ref: backend.Ref{UID: "u", Attempt: attempt, ID: fmt.Sprint("arn", attempt)}}
	for _, text := range containers {
		var c backend.ContainerFacts
		name, number, _ := strings.Cut(strings.TrimLeft(text, "-?"), "/")
		_, _ = fmt.Sscan(number, &c.Attempt)
		c.Name = name
		if !strings.HasPrefix(text, "?") {
			c.StartedAt = at
		}
		if strings.HasPrefix(text, "-") {
			c.FinishedAt = at
		}
		f.Containers = append(f.Containers, c)
	}
	return f
}

// TestWhichTaskIsReached: the one in which this run of the container runs, by what is known or
// else by what ECS says now.
func TestWhichTaskIsReached(t *testing.T) {
	for name, tt := range map[string]struct {
		tasks known
		want  string // the task; empty is NotFound
		asks  int
	}{
		"it runs": {known{before: []backend.PodFacts{pod(true, 1, "app/2")}}, "arn1", 0},
		"beside others": {
			known{before: []backend.PodFacts{pod(true, 1, "side/0", "app/2")}}, "arn1", 0,
		},
		"the one of two attempts": {
			known{before: []backend.PodFacts{pod(true, 0, "app/2"), pod(true, 1, "app/2")}}, "arn1", 0,
		},
		"it has ended":       {known{before: []backend.PodFacts{pod(true, 1, "-app/2")}}, "", 1},
		"it has not started": {known{before: []backend.PodFacts{pod(true, 1, "?app/2")}}, "", 1},
		"it started by now": {
			known{before: []backend.PodFacts{pod(true, 1, "?app/2")}, now: []backend.PodFacts{pod(true, 1, "app/2")}}, "arn1", 1,
		},
		"an earlier run of it": {known{before: []backend.PodFacts{pod(true, 1, "app/1")}}, "", 1},
		"another attempt":      {known{before: []backend.PodFacts{pod(true, 0, "app/2")}}, "", 1},
		"another container":    {known{before: []backend.PodFacts{pod(true, 1, "side/2")}}, "", 1},
		"a task that is dead":  {known{before: []backend.PodFacts{pod(false, 1, "app/2")}}, "", 1},
		"nothing is known":     {known{}, "", 1},
		"ECS knows it":         {known{now: []backend.PodFacts{pod(true, 1, "app/2")}}, "arn1", 1},
	} {
		s := &Pool{tasks: &tt.tasks}
		ref := backend.ContainerRef{Pod: backend.Ref{UID: "u", Attempt: 1}, Name: "app", Attempt: 2}
		got, err := s.runningContainer(t.Context(), ref)
		if got != tt.want || errors.Is(err, backend.ErrNotFound) != (tt.want == "") || tt.tasks.asked != tt.asks {
			t.Errorf("%s: %q, %v, asked %d times", name, got, err, tt.tasks.asked)
		}
	}
	broken := errors.New("broken")
	_, err := (&Pool{tasks: &known{err: broken}}).runningContainer(t.Context(), backend.ContainerRef{})
	if !errors.Is(err, broken) {
		t.Errorf("where ECS cannot be asked: %v", err)
	}
	for text, want := range map[string]bool{"app/0": true, "-app/0": false, "?app/0": false} {
		if got := anyRuns(pod(true, 0, "-init/0", text)); got != want {
			t.Errorf("%s: runs: %v", text, got)
		}
	}
	if anyRuns(backend.PodFacts{Live: true}) {
		t.Error("a task without containers runs one")
	}
}

// TestWhatIsSaidOfAnOldMeasurement: containers that have ended since are not in it, and that of a
// task is kept as long as the task is there.
func TestWhatIsSaidOfAnOldMeasurement(t *testing.T) {
	measured := backend.PodStats{
		Containers: []backend.ContainerStats{{Name: "app", Attempt: 1}, {Name: "side"}, {Name: "init"}},
	}
	for name, tt := range map[string]struct {
		now  backend.PodFacts
		want []string
	}{
		"all run":               {pod(true, 0, "app/1", "side/0", "init/0"), []string{"app", "side", "init"}},
		"one has ended":         {pod(true, 0, "app/1", "side/0", "-init/0"), []string{"app", "side"}},
		"one was started again": {pod(true, 0, "app/2", "side/0", "-init/0"), []string{"side"}},
		"none run":              {pod(true, 0, "-app/1", "-side/0", "-init/0"), nil},
	} {
		var got []string
		for _, c := range onlyRunning(measured, tt.now).Containers {
			got = append(got, c.Name)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || len(measured.Containers) != 3 {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	s := newTaskStats(&Pool{})
	first := s.entries([]backend.PodFacts{pod(true, 0), pod(true, 1)})
	second := s.entries([]backend.PodFacts{pod(true, 2), pod(true, 1)})
	if second[1] != first[1] || second[0] == first[0] || len(s.tasks) != 2 {
		t.Errorf("of %v became %v", first, second)
	}
	if third := s.entries([]backend.PodFacts{pod(true, 0)}); third[0] == first[0] {
		t.Error("what was measured of a task that had gone was kept")
	}
}

// TestHowACommandEnded: what stopped its call comes first, then its streams, then the server.
func TestHowACommandEnded(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	callOf := func(over bool) context.Context {
		if over {
			return gone
		}
		return t.Context()
	}
	full := errors.New("disk full")
	exit := func(n uint32) *uint32 { return &n }
	for name, tt := range map[string]struct {
		gone  bool
		c     command
		code  int32
		class error
	}{
		"well":                          {false, command{exit: exit(0)}, 0, nil},
		"badly":                         {false, command{exit: exit(3)}, 3, nil},
		"by a signal":                   {false, command{exit: exit(137)}, 137, nil},
		"it did not start":              {false, command{invalid: "no such file"}, 0, backend.ErrInvalid},
		"nothing was said":              {false, command{}, 0, backend.ErrUnavailable},
		"its output went nowhere":       {false, command{failed: full, exit: exit(0)}, 0, full},
		"its call was ended":            {true, command{exit: exit(0)}, 0, context.Canceled},
		"its call, then its output":     {true, command{failed: full}, 0, context.Canceled},
		"it did not start, then output": {false, command{failed: full, invalid: "x"}, 0, full},
	} {
		code, err := tt.c.outcome(callOf(tt.gone))
		if code != tt.code || !errors.Is(err, tt.class) {
			t.Errorf("%s: %d, %v", name, code, err)
		}
	}
	for name, tt := range map[string]struct {
		gone bool
		err  error
		want string
	}{
		"an error":               {false, full, "run: disk full"},
		"an error of its end":    {true, context.Canceled, "run: context canceled"},
		"an error after its end": {true, full, "run: context canceled"},
	} {
		if err := ended(callOf(tt.gone), "run", tt.err); err.Error() != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTheFirstSizeOfATerminal: it is waited for a moment, for the command sees it when it starts.
func TestTheFirstSizeOfATerminal(t *testing.T) {
	want := backend.TerminalSize{Width: 80, Height: 24}
	for name, tt := range map[string]struct {
		after, limit time.Duration
		want         backend.TerminalSize
		takes        time.Duration
	}{
		"at once":          {0, time.Hour, want, 0},
		"a moment later":   {firstSize / 2, time.Hour, want, firstSize / 2},
		"too late":         {time.Minute, time.Hour, backend.TerminalSize{}, firstSize},
		"the call is over": {time.Minute, firstSize / 4, backend.TerminalSize{}, firstSize / 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
				defer cancel()
				sizes := make(chan backend.TerminalSize, 1)
				time.AfterFunc(tt.after, func() { sizes <- want })
				synctest.Wait()
				begun := time.Now()
				c := command{spec: backend.ExecSpec{Resize: sizes}}
				if got := c.size(ctx); got != tt.want || time.Since(begun) != tt.takes {
					t.Errorf("%+v after %v", got, time.Since(begun))
				}
			})
		})
	}
}

// TestOutputIsPassedOnUntilItFails: then nothing more is written, and the first error stays.
func TestOutputIsPassedOnUntilItFails(t *testing.T) {
	var out bytes.Buffer
	w := &passing{to: &out}
	if n, err := w.Write([]byte("a")); n != 1 || err != nil || w.failed() != nil {
		t.Errorf("%d, %v", n, err)
	}
	w.stop()
	if n, err := w.Write([]byte("b")); n != 0 || !errors.Is(err, errStopped) || out.String() != "a" {
		t.Errorf("after its end: %d, %v, %q", n, err, &out)
	}
	dropped := &passing{}
	if n, err := dropped.Write([]byte("abc")); n != 3 || err != nil || dropped.failed() != nil {
		t.Errorf("dropped: %d, %v", n, err)
	}
	full := &passing{to: failing{}}
	for range 2 {
		if _, err := full.Write([]byte("a")); err == nil || err.Error() != "pass on output: full" {
			t.Errorf("%v", err)
		}
	}
	if full.failed() == nil {
		t.Error("it did not fail")
	}
}

// failing is a writer that takes nothing.
type failing struct{}

// Write fails.
func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }
