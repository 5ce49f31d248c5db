package ecs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// The facts of these tables are those of the tests of amazon-ecs-agent 8dfceca that each row
// names; condition_test.go has those of its dependency graph. Fargate's agent shares much of
// that source, and what it does not share is unknown here.

// shown is a task in a few words: its containers with their codes and the first word of their
// reasons, in the order of their definitions, and what it is and is to be.
func shown(task types.Task) string {
	words := []string{}
	for _, c := range task.Containers {
		text := *c.Name + " " + *c.LastStatus
		if c.ExitCode != nil {
			text += fmt.Sprint(" ", *c.ExitCode)
		}
		if why, _, named := strings.Cut(aws.ToString(c.Reason), ":"); named {
			text += " " + why
		}
		words = append(words, text)
	}
	return strings.Join(words, ", ") + "; " + *task.LastStatus + ", to be " + *task.DesiredStatus
}

// restarting gives a container a restart policy of ECS.
func restarting(c types.ContainerDefinition) types.ContainerDefinition {
	c.RestartPolicy = &types.ContainerRestartPolicy{Enabled: aws.Bool(true), RestartAttemptPeriod: aws.Int32(60)}
	return c
}

// managed is a row of the task manager's tables.
type managed struct {
	kind       Kindness
	containers []types.ContainerDefinition
	// stop is when StopTask is called, at when the task is looked at after that, or from
	// its start where nobody stops it.
	stop, at time.Duration
	want     string
}

// managedTasks are the rows by the agent's tests in agent/engine/task_manager_test.go.
func managedTasks() map[string]managed {
	missing := app("true")
	missing.Image = aws.String("missing:1")
	failing := []types.ContainerDefinition{
		helperOf("first", "sh", "-c", "sleep 5; exit 1"), after(app("true"), "first", "SUCCESS"),
	}
	return map[string]managed{
		// A condition that cannot come true: 143 and an error, for those too that wait for who waits.
		"TestStartContainerTransitionsWithTerminalError": {
			containers: []types.ContainerDefinition{
				app("serve"), helperOf("first", "sh", "-c", "sleep 5; exit 1"),
				after(helperOf("second", "true"), "first", "SUCCESS"), after(helperOf("third", "true"), "second", "SUCCESS"),
			},
			at: 6 * time.Second,
			want: "app RUNNING, first STOPPED 1, second STOPPED 143 CannotStartContainerError, " +
				"third STOPPED 143 CannotStartContainerError; RUNNING, to be RUNNING",
		},
		// A task none of whose containers can go on is to stop if an essential one has not started. On
		// Fargate tasks were seen that stay PENDING all the same: that is what this server does unless told.
		"TestOnContainersUnableToTransitionStateForDesiredRunningTask": {
			kind: Kindness{StopsRefused: true}, containers: failing, at: 6 * time.Second,
			want: "first STOPPED 1, app STOPPED 143 CannotStartContainerError; STOPPED, to be STOPPED",
		},
		"the same on Fargate": {
			containers: failing, at: time.Hour,
			want: "first STOPPED 1, app STOPPED 143 CannotStartContainerError; PENDING, to be RUNNING",
		},
		"TestHandleContainerChangeStopped": {
			containers: []types.ContainerDefinition{app("sh", "-c", "sleep 5; exit 2")}, at: 6 * time.Second,
			want: "app STOPPED 2; STOPPED, to be STOPPED",
		},
		"TestHandleContainerChangeStopped_WithRestartPolicy": {
			containers: []types.ContainerDefinition{restarting(app("sh", "-c", "sleep 61; exit 100"))}, at: 70 * time.Second,
			want: "app RUNNING; RUNNING, to be RUNNING",
		},
		"TestHandleContainerChangeStopped_WithRestartPolicy_DesiredStopped": {
			containers: []types.ContainerDefinition{restarting(app("serve"))}, stop: 70 * time.Second, at: 5 * time.Minute,
			want: "app STOPPED 143; STOPPED, to be STOPPED",
		},
		"TestHandleEventError/Pull image fails and task fails": {
			containers: []types.ContainerDefinition{missing}, at: time.Second,
			want: "app STOPPED CannotPullContainerError; STOPPED, to be STOPPED",
		},
		// One that another's end is to come before is not stopped while that runs.
		"TestContainerNextStateDependsStoppedContainer/RUNNING": {
			containers: []types.ContainerDefinition{app("serve"), after(deafFor("other", 4), "app", "START")},
			stop:       time.Second, at: 3 * time.Second, want: "app RUNNING, other RUNNING; STOPPING, to be STOPPED",
		},
		"TestContainerNextStateDependsStoppedContainer/STOPPED": {
			containers: []types.ContainerDefinition{app("serve"), after(deafFor("other", 4), "app", "START")},
			stop:       time.Second, at: 5 * time.Second, want: "app STOPPED 143, other STOPPED 137; STOPPED, to be STOPPED",
		},
	}
}

// deafFor is a container that SIGKILL alone ends, after some seconds.
func deafFor(name string, seconds int32) types.ContainerDefinition {
	c := helperOf(name, "sh", "-c", "trap '' TERM; sleep 9000")
	c.StopTimeout = &seconds
	return c
}

// TestTaskManagerIsTheAgents: what becomes of a task and of its other containers when one
// ends or cannot start.
func TestTaskManagerIsTheAgents(t *testing.T) {
	for name, tt := range managedTasks() {
		t.Run(name, func(t *testing.T) {
			bothWays(t, Config{Kindness: tt.kind}, func(t *testing.T, s *Server) {
				arn := run(t, s, definitionOf(tt.containers...), nil)
				if tt.stop > 0 {
					wait(tt.stop)
					if _, err := client(s).StopTask(t.Context(), &sdk.StopTaskInput{Task: &arn}); err != nil {
						t.Fatal(err)
					}
				}
				wait(tt.at)
				if got := shown(describe(t, client(s), arn)); got != tt.want {
					t.Errorf("\n%s, want\n%s", got, tt.want)
				}
			})
		})
	}
}

// TestShutdownOrderIsTheAgents: who is stopped while what depends on it runs
// (agent/engine/dependencygraph/graph_test.go, TestVerifyShutdownOrder: a depends on b; b on
// c and d; c on e and f; d on e. a and c have stopped, b and d run).
func TestShutdownOrderIsTheAgents(t *testing.T) {
	bothWays(t, Config{}, func(t *testing.T, s *Server) {
		serve := func(name string) types.ContainerDefinition { return helperOf(name, "serve") }
		arn := run(t, s, definitionOf(
			after(helperOf("a", "sleep", "5"), "b", "START"),
			after(after(deafFor("b", 4), "c", "START"), "d", "START"),
			after(after(helperOf("c", "sleep", "5"), "e", "START"), "f", "START"),
			after(serve("d"), "e", "START"),
			serve("e"), serve("f"), named("z", "serve"),
		), nil)
		wait(10 * time.Second)
		if _, err := client(s).StopTask(t.Context(), &sdk.StopTaskInput{Task: &arn}); err != nil {
			t.Fatal(err)
		}
		wait(time.Second)
		task := describe(t, client(s), arn)
		for name, stops := range map[string]bool{
			"f": true,  // Dependency is already stopped
			"d": false, // Running with a running dependency
			"e": false, // One dependency running, one stopped
			"z": true,  // No dependencies declared
		} {
			if got := *container(t, task, name).LastStatus; (got == "STOPPED") != stops {
				t.Errorf("%s is %s; it may be stopped: %v", name, got, stops)
			}
		}
		wait(4 * time.Second) // b has got SIGKILL
		const want = "a STOPPED 0, b STOPPED 137, c STOPPED 0, d STOPPED 143, e STOPPED 143, f STOPPED 143, z STOPPED 143; " +
			"STOPPED, to be STOPPED"
		if got := shown(describe(t, client(s), arn)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// TestStartTimeoutIsTheAgents: how long others wait for a container
// (agent/engine/dependencygraph/graph_test.go, TestStartTimeoutForContainerOrdering).
func TestStartTimeoutIsTheAgents(t *testing.T) {
	slow := limited(checked(helperOf("dep", "sleep", "900"), "false"), 10)
	waiting := after(limited(helperOf("dep", "true"), 10), "init", "COMPLETE")
	for name, tt := range map[string]struct {
		dep       types.ContainerDefinition
		condition types.ContainerCondition
		at        time.Duration
		out       bool
	}{
		"HEALTHY, started long ago": {slow, "HEALTHY", 11 * time.Second, true},
		"SUCCESS, started just now": {limited(helperOf("dep", "sleep", "900"), 10), "SUCCESS", 9 * time.Second, false},
		"SUCCESS, not started":      {waiting, "SUCCESS", 5 * time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, Config{}, func(t *testing.T, s *Server) {
				arn := run(t, s, definitionOf(
					named("main", "serve"), helperOf("init", "sleep", "600"), tt.dep,
					after(helperOf("app", "serve"), "dep", tt.condition),
				), nil)
				wait(tt.at)
				if got := *container(t, describe(t, client(s), arn), "app").LastStatus; (got == "STOPPED") != tt.out {
					t.Errorf("after %s it is %s; timed out: %v", tt.at, got, tt.out)
				}
			})
		})
	}
}

// TestPublishedHealthIsTheAgents: which health statuses are sent to ECS, and when.
//
//   - agent/stats/engine_test.go: TestStartMetricsPublish (all at once at the start and then
//     with each tick, which comes every 20 s: ecs-agent/tcs/client/client.go),
//     TestGetTaskHealthMetrics (of what runs), TestGetTaskHealthMetricsStoppedContainer
//     (nothing of what has stopped);
//   - agent/api/container/container_test.go: TestHealthStatusShouldBeReported (of containers
//     with a check alone), TestSetHealthStatus (each change);
//   - ecs-agent/api/container/status/containerstatus_test.go: TestHealthBackendStatus (the
//     three words).
func TestPublishedHealthIsTheAgents(t *testing.T) {
	for name, tt := range map[string]struct {
		script    string
		unchecked bool
		want      map[int]types.HealthStatus // by second
	}{
		"TestStartMetricsPublish": {
			script: "healthy; sleep 900",
			// HEALTHY since the first check, at 5 s; sent at 20 s, shown 2 s later
			want: map[int]types.HealthStatus{1: "UNKNOWN", 6: "UNKNOWN", 21: "UNKNOWN", 22: "HEALTHY"},
		},
		"TestSetHealthStatus, TestHealthBackendStatus": {
			script: "healthy 28; unhealthy 30; healthy; sleep 900",
			// UNHEALTHY at 35 s, after one failure after the start period; HEALTHY at 60 s
			want: map[int]types.HealthStatus{3: "UNKNOWN", 30: "HEALTHY", 41: "HEALTHY", 42: "UNHEALTHY", 82: "HEALTHY"},
		},
		"TestHealthStatusShouldBeReported": {
			script: "healthy; sleep 900", unchecked: true, want: map[int]types.HealthStatus{100: "UNKNOWN"},
		},
		"TestGetTaskHealthMetrics": {
			script: "healthy; sleep 900", want: map[int]types.HealthStatus{100: "HEALTHY", 600: "HEALTHY"},
		},
		"TestGetTaskHealthMetricsStoppedContainer, sent before": {
			script: "healthy 12; unhealthy; sleep 40", // UNHEALTHY at 15 s; it stops at 40 s
			want:   map[int]types.HealthStatus{22: "UNHEALTHY", 100: "UNHEALTHY"},
		},
		"TestGetTaskHealthMetricsStoppedContainer, never sent": {
			script: "healthy; sleep 12", want: map[int]types.HealthStatus{13: "UNKNOWN", 30: "UNKNOWN", 100: "UNKNOWN"},
		},
		"TestGetTaskHealthMetricsStoppedContainer, a change never sent": {
			script: "healthy 22; unhealthy; sleep 35", // UNHEALTHY at 25 s, it stops at 35 s
			want:   map[int]types.HealthStatus{22: "HEALTHY", 43: "HEALTHY", 100: "HEALTHY"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, Config{}, func(t *testing.T, s *Server) {
				c := helperOf("checked", "sh", "-c", tt.script)
				if !tt.unchecked {
					c.HealthCheck = &types.HealthCheck{
						Command: []string{"CMD", "/check"}, Interval: aws.Int32(5), Retries: aws.Int32(1),
					}
				}
				arn := run(t, s, definitionOf(named("main", "serve"), c), nil)
				for at := 1; at <= 600; at++ {
					wait(time.Second)
					want, ok := tt.want[at]
					if !ok {
						continue
					}
					if got := container(t, describe(t, client(s), arn), "checked").HealthStatus; got != want {
						t.Errorf("after %d s: %s, want %s", at, got, want)
					}
				}
			})
		})
	}
}

// TestDependentsDoNotWaitForPublishing: a condition HEALTHY is the agent's own to judge, not
// what ECS was told (agent/engine/dependencygraph/graph_test.go,
// TestContainerOrderingHealthyConditionIsResolved).
func TestDependentsDoNotWaitForPublishing(t *testing.T) {
	bothWays(t, Config{}, func(t *testing.T, s *Server) {
		arn := run(t, s, definitionOf(
			checked(helperOf("dep", "serve"), "true"), after(app("serve"), "dep", "HEALTHY"),
		), nil)
		wait(11 * time.Second)
		task := describe(t, client(s), arn)
		if dep := container(t, task, "dep").HealthStatus; dep != "UNKNOWN" {
			t.Errorf("it is shown %s", dep)
		}
		if got := *container(t, task, "app").LastStatus; got != "RUNNING" {
			t.Errorf("what waits for it is %s", got)
		}
	})
}
