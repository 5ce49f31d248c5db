package task

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask"
)

// living is a task whose agent tells of the end of its container.
type living struct {
	*telling
	id      identity.Container
	started *time.Time
}

func newLiving(t *testing.T) *living {
	l := &living{telling: newTelling(t), id: identity.Container{Name: "job", Hash: "h", Supervised: true}}
	l.known = NewKnown(Config{Settle: time.Minute, Hints: true, Logs: true})
	return l
}

// shows is what DescribeTasks answers after a while: the task's and its container's status,
// and its exit code where that is not negative.
func (l *living) shows(after time.Duration, task, container string, exit int32) {
	l.now = l.now.Add(after)
	c := types.Container{Name: aws.String("job"), LastStatus: aws.String(container)}
	if exit >= 0 {
		c.ExitCode = &exit
	}
	if task == statusRunning && l.started == nil {
		l.started = aws.Time(l.now)
	}
	key := types.KeyValuePair{Name: aws.String(intask.EnvReportKey), Value: aws.String(toldKey)}
	l.known.Observed(Observe(identity.Task{
		UID: "u", Namespace: "ns", Name: "p", Containers: []identity.Container{l.id},
	}, types.Task{
		TaskArn: aws.String(toldARN), LastStatus: aws.String(task), DesiredStatus: aws.String("RUNNING"),
		StartedAt:  l.started,
		Containers: []types.Container{c},
		Overrides: &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{
			{Name: aws.String(identity.AgentName), Environment: []types.KeyValuePair{key}},
		}},
	}, aws.ToTime, l.now))
}

// told is a message of the agent; true where it is new.
func (l *living) told(seq int64, life intask.Life) bool {
	l.Helper()
	body, err := intask.Readiness{Task: toldARN, Seq: seq, Lives: map[string]intask.Life{"job": life}}.Sign(toldKey)
	if err != nil {
		l.Fatal(err)
	}
	said, verify, _ := intask.ReadReadiness(body)
	_, isNew, err := l.known.Told(said, verify, l.now)
	if err != nil {
		l.Error(err)
	}
	return isNew
}

func (l *living) is(want backend.State) backend.ContainerFacts {
	l.Helper()
	c := l.known.All(l.now)[0].Containers[0]
	if c.State() != want {
		l.Errorf("at %s: state %v, want %v", l.now, c.State(), want)
	}
	return c
}

func (l *living) ended(exit int, message string) intask.Life {
	return intask.Life{Started: l.now.Add(-time.Minute), Ended: &intask.End{
		At: l.now, Exit: exit, Report: intask.Report{Exit: exit, Message: message},
	}}
}

func TestWhatTheAgentTellsOfAnEndIsShownAtOnce(t *testing.T) {
	l := newLiving(t)
	l.shows(0, "PENDING", "PENDING", -1)
	begun := l.now
	if l.told(1, intask.Life{Started: begun}) {
		t.Error("a start is ECS's to tell")
	}
	l.is(backend.Waiting)
	l.shows(2*time.Second, "RUNNING", "RUNNING", -1)
	// Another process, which was told nothing, must find the same.
	shown := l.is(backend.Running).StartedAt
	if !shown.Equal(l.now) {
		t.Errorf("started at %s", shown)
	}
	l.now = l.now.Add(time.Minute)
	end := l.ended(3, "bye")
	if !l.told(2, end) {
		t.Error("an end is not new")
	}
	check := func() {
		t.Helper()
		if c := l.is(backend.Exited); c.ExitCode != 3 || c.Message != "bye" || !c.FinishedAt.Equal(end.Ended.At) ||
			!c.StartedAt.Equal(shown) {
			t.Errorf("%+v", c)
		}
	}
	check()
	if l.told(1, intask.Life{Started: begun}); l.told(3, end) {
		t.Error("told again it is new")
	}
	l.shows(time.Second, "RUNNING", "RUNNING", -1) // late
	check()
	l.shows(time.Second, "DEPROVISIONING", "STOPPED", 3)
	check()
	l.known.Terminated(LogRead{ARN: toldARN, Container: "job"}, Termination{Message: "bye"})
	check()
	l.told(4, end)
	check()
}

// An end may be told before ECS shows that anything ran.
func TestAnEndIsToldBeforeTheStartIsShown(t *testing.T) {
	l := newLiving(t)
	l.shows(0, "PENDING", "PENDING", -1)
	end := l.ended(0, "")
	if !l.told(1, end) {
		t.Error("an end is not new")
	}
	if c := l.is(backend.Exited); !c.StartedAt.Equal(end.Started) || !c.FinishedAt.Equal(end.Ended.At) {
		t.Errorf("%+v", c)
	}
}

// An end that ECS shows first waits for its words, which the agent tells.
func TestTheWordsOfAnEndAreTold(t *testing.T) {
	l := newLiving(t)
	l.shows(0, "RUNNING", "RUNNING", -1)
	l.shows(time.Minute, "DEACTIVATING", "STOPPED", 137)
	l.is(backend.Running)
	end := l.ended(137, "hungry")
	end.Ended.Report.Reason = intask.ReasonOOMKilled
	if !l.told(1, end) {
		t.Error("it is not new")
	}
	for range 2 {
		if c := l.is(backend.Exited); c.Message != "hungry" || !c.OOM || c.ExitCode != 137 {
			t.Errorf("%+v", c)
		}
		l.shows(time.Second, "STOPPED", "STOPPED", 137)
	}
}

// A program that is root can write what its supervisor would.
func TestECSIsTheJudgeOfAnEnd(t *testing.T) {
	l := newLiving(t)
	l.shows(0, "RUNNING", "RUNNING", -1)
	l.told(1, l.ended(0, ""))
	l.is(backend.Exited)
	l.shows(time.Second, "RUNNING", "RUNNING", -1)
	l.is(backend.Exited)
	if asked := l.known.Moving(l.now.Add(readRest)); len(asked) != 1 {
		t.Error("ECS is not asked again soon")
	}
	l.shows(toldAgainst, "RUNNING", "RUNNING", -1)
	l.is(backend.Running)
	l.told(2, l.ended(0, ""))
	l.is(backend.Running)
	l.shows(time.Second, "STOPPED", "STOPPED", 9)
	if c := l.is(backend.Exited); c.ExitCode != 9 {
		t.Errorf("%+v", c)
	}
}

// What the end of a log is to say is read there, and what ECS starts again has no end.
func TestEndsThatAreNotTold(t *testing.T) {
	l := newLiving(t)
	l.shows(0, "RUNNING", "RUNNING", -1)
	end := l.ended(1, "")
	end.Ended.Report.FromLogs = true
	l.told(1, end)
	l.is(backend.Running)
	l = newLiving(t)
	l.id.Init, l.id.Sidecar = true, true
	l.shows(0, "RUNNING", "RUNNING", -1)
	l.told(1, l.ended(1, ""))
	l.is(backend.Running)
}
