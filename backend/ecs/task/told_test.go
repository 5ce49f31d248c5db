package task

import (
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask"
)

// telling is a task whose agent tells how its container is.
type telling struct {
	*testing.T
	known *Known
	now   time.Time
	seq   int64
}

const toldARN, toldKey = "arn:task", "key"

func newTelling(t *testing.T) *telling {
	return &telling{
		T: t, known: NewKnown(Config{Settle: time.Minute, Hints: true}), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

// ecs is what DescribeTasks shows after a while.
func (k *telling) ecs(after time.Duration, health types.HealthStatus) {
	k.now = k.now.Add(after)
	id := identity.Task{UID: "u", Namespace: "ns", Name: "p", Containers: []identity.Container{{Name: "web", Hash: "h"}}}
	key := types.KeyValuePair{Name: aws.String(intask.EnvReportKey), Value: aws.String(toldKey)}
	k.known.Observed(Observe(id, types.Task{
		TaskArn: aws.String(toldARN), LastStatus: aws.String("RUNNING"), DesiredStatus: aws.String("RUNNING"),
		StartedAt:  &k.now,
		Containers: []types.Container{{Name: aws.String("web"), LastStatus: aws.String("RUNNING"), HealthStatus: health}},
		Overrides: &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{
			{Name: aws.String(identity.AgentName), Environment: []types.KeyValuePair{key}},
		}},
	}, func(at *time.Time) time.Time { return aws.ToTime(at) }, k.now))
}

// tell is a message of the agent, the next one unless seq says otherwise.
func (k *telling) tell(key string, ready *bool, seq int64) (isNew bool, err error) {
	k.Helper()
	body, err := intask.Readiness{Task: toldARN, Seq: seq, Ready: map[string]*bool{"web": ready}}.Sign(key)
	if err != nil {
		k.Fatal(err)
	}
	said, verify, _ := intask.ReadReadiness(body)
	uid, isNew, err := k.known.Told(said, verify, k.now)
	if isNew != (uid == "u") {
		k.Errorf("%t of %q", isNew, uid)
	}
	return isNew, err
}

func (k *telling) says(after time.Duration, ready *bool) {
	k.Helper()
	k.now = k.now.Add(after)
	k.seq++
	if _, err := k.tell(toldKey, ready, k.seq); err != nil {
		k.Error(err)
	}
}

func (k *telling) wants(want *bool) {
	k.Helper()
	if got := k.known.All(k.now)[0].Containers[0].Healthy; !same(got, want) {
		k.Errorf("at %s: %v, want %v", k.now, aws.ToBool(got), aws.ToBool(want))
	}
}

var yes, no = new(true), new(false)

func TestWhatTheAgentTellsComesBeforeWhatECSShows(t *testing.T) {
	k := newTelling(t)
	k.says(0, yes) // of a task that is not known yet
	k.ecs(0, types.HealthStatusUnknown)
	k.wants(nil)
	k.says(time.Second, yes)
	k.wants(yes)
	k.ecs(time.Second, types.HealthStatusUnhealthy) // late: it was not ready before
	k.wants(yes)
	k.ecs(20*time.Second, types.HealthStatusHealthy)
	k.says(time.Second, no)
	k.wants(no)
	k.ecs(10*time.Minute, types.HealthStatusHealthy) // ECS has not seen it yet
	k.wants(no)
	k.says(0, nil) // it has no verdict: that of ECS counts
	k.wants(yes)
}

// An agent that has died says nothing against what ECS shows.
func TestADeadAgentIsNotBelieved(t *testing.T) {
	k := newTelling(t)
	k.ecs(0, types.HealthStatusHealthy)
	k.says(0, yes)
	k.ecs(30*time.Second, types.HealthStatusUnhealthy)
	k.wants(yes)
	if asked := k.known.Moving(k.now.Add(readRest)); len(asked) != 1 {
		t.Error("ECS is not asked again soon")
	}
	k.ecs(toldAgainst, types.HealthStatusUnhealthy)
	k.wants(no)
	k.says(0, yes) // it lives
	k.wants(yes)
	k.ecs(5*time.Minute, types.HealthStatusUnhealthy)
	k.wants(yes)
	k.ecs(toldFresh, types.HealthStatusUnhealthy) // nothing came for too long
	k.wants(no)
}

func TestOnlyATasksOwnAgentIsHeard(t *testing.T) {
	k := newTelling(t)
	k.ecs(0, types.HealthStatusUnknown)
	if isNew, err := k.tell("another", yes, 1); err == nil || isNew {
		t.Error("another key is believed")
	}
	k.wants(nil)
	if isNew, err := k.tell(toldKey, yes, 5); err != nil || !isNew {
		t.Error(isNew, err)
	}
	for _, old := range []int64{5, 4} {
		if isNew, err := k.tell(toldKey, no, old); err != nil || isNew {
			t.Error("an old one is believed", err)
		}
	}
	k.wants(yes)
	said := intask.Readiness{Task: "arn:other", Seq: 9}
	if _, isNew, err := k.known.Told(said, func(string) error { return errors.New("forged") }, k.now); isNew ||
		err != nil {
		t.Error("of a task that is not known", err)
	}
}

// Tasks whose agents tell are not asked for as often as those whose health ECS alone knows.
func TestToldTasksAreAskedForRarely(t *testing.T) {
	k := newTelling(t)
	k.known.hints = true
	k.ecs(0, types.HealthStatusHealthy)
	k.known.tasks[toldARN].settled = true
	if asked := k.known.Moving(k.now.Add(readRest)); len(asked) != 1 {
		t.Error("ECS alone knows, and is not asked")
	}
	k.says(10*time.Second, yes)
	if asked := k.known.Moving(k.now.Add(readRest)); len(asked) != 0 {
		t.Error("ECS is asked what the agent tells")
	}
}
