package ecs

import (
	"testing"
	"time"
)

// TestConditionsAreTheAgents: when a condition on a container is met, and when it is known
// that it never will be, in the cases of the agent's own tests (amazon-ecs-agent,
// agent/engine/dependencygraph/graph_test.go: TestContainerOrderingIsResolved,
// TestContainerOrderingCanResolve, TestContainerOrderingHealthyConditionIsResolved). Its
// condition CREATE is of links, which Fargate does not have.
func TestConditionsAreTheAgents(t *testing.T) {
	const (
		start, end = 2 * time.Second, 5 * time.Second
		now        = 9 * time.Second
	)
	not := containerLife{start: never, end: never, refused: never}
	runs := containerLife{start: start, end: never, refused: never}
	done, failed := runs, runs
	done.end, failed.end, failed.exit = end, end, 1
	sound, sick, later := runs, runs, failed
	sound.health = []healthChange{{0, unknown}, {time.Second, healthy}}
	sick.health = []healthChange{{0, unknown}, {time.Second, unhealthy}}
	later.health = sick.health
	refused := not
	refused.refused = end
	for name, tt := range map[string]struct {
		on          containerLife
		condition   string
		met, barred bool
	}{
		"START, none yet":             {not, "START", false, false},
		"START, runs":                 {runs, "START", true, false},
		"START, has ended":            {done, "START", true, false},
		"START, cannot start":         {refused, "START", false, true},
		"SUCCESS, runs":               {runs, "SUCCESS", false, false},
		"SUCCESS, exit 0":             {done, "SUCCESS", true, false},
		"SUCCESS, exit 1":             {failed, "SUCCESS", false, true},
		"COMPLETE, runs":              {runs, "COMPLETE", false, false},
		"COMPLETE, exit 0":            {done, "COMPLETE", true, false},
		"COMPLETE, exit 1":            {failed, "COMPLETE", true, false},
		"HEALTHY, healthy":            {sound, "HEALTHY", true, false},
		"HEALTHY, unhealthy":          {sick, "HEALTHY", false, false},
		"HEALTHY, without a check":    {runs, "HEALTHY", false, false},
		"HEALTHY, ended before it is": {later, "HEALTHY", false, true},
	} {
		met, bad := tt.on.condition(tt.condition)
		if (met <= now) != tt.met || (bad <= now) != tt.barred {
			t.Errorf("%s: met at %v, barred at %v; want %v, %v", name, met, bad, tt.met, tt.barred)
		}
	}
}
