package ecs

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

func TestRestartPolicy(t *testing.T) {
	for name, tc := range map[string]struct {
		script  string
		policy  types.ContainerRestartPolicy
		restart bool
	}{
		"ran long enough": {"sleep 60; exit 1", types.ContainerRestartPolicy{RestartAttemptPeriod: aws.Int32(60)}, true},
		"too short":       {"sleep 59; exit 1", types.ContainerRestartPolicy{RestartAttemptPeriod: aws.Int32(60)}, false},
		"standard period": {"sleep 299; exit 1", types.ContainerRestartPolicy{}, false},
		"ignored code": {
			"sleep 60; exit 0",
			types.ContainerRestartPolicy{RestartAttemptPeriod: aws.Int32(60), IgnoredExitCodes: []int32{0}},
			false,
		},
		"out of memory": {"sleep 60; oom", types.ContainerRestartPolicy{RestartAttemptPeriod: aws.Int32(60)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, Config{}, func(t *testing.T, s *Server) {
				c := app("sh", "-c", tc.script)
				tc.policy.Enabled = aws.Bool(true)
				c.RestartPolicy = &tc.policy
				arn := run(t, s, definitionOf(c), nil)
				wait(10 * time.Minute)
				if st := *describe(t, client(s), arn).LastStatus; (st == "RUNNING") != tc.restart {
					t.Fatalf("%s", st)
				}
			})
		})
	}
}

// A container that is stopped is not restarted any more.
func TestStopOfARestartedContainer(t *testing.T) {
	bothWays(t, Config{}, func(t *testing.T, s *Server) {
		c := app("sh", "-c", "trap '' TERM; sleep 65; exit 4")
		c.RestartPolicy = &types.ContainerRestartPolicy{Enabled: aws.Bool(true), RestartAttemptPeriod: aws.Int32(60)}
		arn := run(t, s, definitionOf(c), nil)
		wait(120 * time.Second) // 10 s before its second end
		s.Retire(arn)
		wait(9 * time.Second)
		if st := *describe(t, client(s), arn).LastStatus; st != "STOPPING" {
			t.Fatal(st)
		}
		wait(time.Second)
		if task := describe(t, client(s), arn); *task.LastStatus != "STOPPED" || *task.Containers[0].ExitCode != 4 {
			t.Fatalf("%v", task)
		}
	})
}

func TestDependencyConditions(t *testing.T) {
	for name, tc := range map[string]struct {
		first   types.ContainerDefinition
		cond    types.ContainerCondition
		at      time.Duration
		started bool
		ended   bool // the task
	}{
		"START":                {helperOf("first", "sleep", "9"), "START", 0, true, false},
		"COMPLETE before":      {helperOf("first", "sh", "-c", "sleep 9; exit 3"), "COMPLETE", 8 * time.Second, false, false},
		"COMPLETE":             {helperOf("first", "sh", "-c", "sleep 9; exit 3"), "COMPLETE", 9 * time.Second, true, false},
		"SUCCESS of a failure": {helperOf("first", "sh", "-c", "sleep 9; exit 3"), "SUCCESS", 9 * time.Second, false, true},
		"HEALTHY before": {
			checked(helperOf("first", "sleep", "900"), "true"), "HEALTHY", 9 * time.Second, false, false,
		},
		"HEALTHY": {checked(helperOf("first", "sleep", "900"), "true"), "HEALTHY", 10 * time.Second, true, false},
		"HEALTHY never": {
			checked(helperOf("first", "sleep", "900"), "false"), "HEALTHY", 10 * time.Minute, false, false,
		},
		"HEALTHY of the dead": {checked(helperOf("first", "sleep", "5"), "true"), "HEALTHY", 5 * time.Second, false, true},
		"startTimeout": {
			limited(checked(helperOf("first", "sleep", "900"), "false"), 20), "HEALTHY", 20 * time.Second, false, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, Config{Kindness: Kindness{StopsRefused: true, TermEnds: true}}, func(t *testing.T, s *Server) {
				arn := run(t, s, definitionOf(tc.first, after(app("sleep", "600"), "first", tc.cond)), nil)
				wait(tc.at)
				task := describe(t, client(s), arn)
				c := container(t, task, "app")
				if got := *c.LastStatus == "RUNNING"; got != tc.started || (*task.LastStatus == "STOPPED") != tc.ended {
					t.Fatalf("container %s, task %s", *c.LastStatus, *task.LastStatus)
				}
			})
		})
	}
}

// checked has a health check every 10 s.
func checked(c types.ContainerDefinition, words ...string) types.ContainerDefinition {
	c.HealthCheck = &types.HealthCheck{Command: append([]string{"CMD"}, words...), Interval: aws.Int32(10)}
	return c
}

func limited(c types.ContainerDefinition, seconds int32) types.ContainerDefinition {
	c.StartTimeout = &seconds
	return c
}

// A dependent that nothing needs does not end the task.
func TestDependentOfAFailureThatIsNotEssential(t *testing.T) {
	bothWays(t, Config{}, func(t *testing.T, s *Server) {
		arn := run(
			t, s,
			definitionOf(app("sleep", "60"), helperOf("first", "false"), after(helperOf("second", "true"), "first", "SUCCESS")),
			nil,
		)
		wait(time.Second)
		task := describe(t, client(s), arn)
		if c := container(t, task, "second"); *task.LastStatus != "RUNNING" || *c.LastStatus != "STOPPED" ||
			aws.ToInt32(c.ExitCode) != 143 {
			t.Fatalf("%v", task)
		}
	})
}

// What never can start is STOPPED with 143, those that wait for it too, and its task
// stays PENDING until it is stopped.
func TestATaskWhoseContainersNeverStart(t *testing.T) {
	bothWays(t, Config{}, func(t *testing.T, s *Server) {
		arn := run(t, s, definitionOf(helperOf("first", "sh", "-c", "sleep 5; exit 3"), after(
			helperOf("second", "true"), "first", "SUCCESS",
		),
			after(app("sleep", "60"), "second", "SUCCESS")), nil)
		wait(4 * time.Second)
		if c := container(t, describe(t, client(s), arn), "app"); *c.LastStatus != "PENDING" || c.ExitCode != nil {
			t.Fatalf("before: %v", c)
		}
		wait(time.Hour)
		task := describe(t, client(s), arn)
		for name, code := range map[string]int32{"first": 3, "second": 143, "app": 143} {
			c := container(t, task, name)
			depended := strings.HasPrefix(aws.ToString(c.Reason), "CannotStartContainerError: dependency graph: ")
			if *c.LastStatus != "STOPPED" || aws.ToInt32(c.ExitCode) != code || depended != (code == 143) {
				t.Errorf("%s: %s, code %v, %s", name, *c.LastStatus, c.ExitCode, aws.ToString(c.Reason))
			}
		}
		if *task.LastStatus != "PENDING" || *task.DesiredStatus != "RUNNING" || task.StartedAt != nil {
			t.Fatalf("%v", task)
		}
		if _, err := client(s).StopTask(
			t.Context(), &awsecs.StopTaskInput{Task: &arn, Reason: aws.String("enough")},
		); err != nil {
			t.Fatal(err)
		}
		wait(time.Second)
		if task := describe(t, client(s), arn); *task.LastStatus != "STOPPED" ||
			aws.ToString(task.StoppedReason) != "enough" {
			t.Fatalf("%v", task)
		}
	})
}

func TestHealth(t *testing.T) {
	sec := func(n int) time.Duration { return time.Duration(n) * time.Second }
	for name, tc := range map[string]struct {
		command []string
		script  string
		check   types.HealthCheck
		want    map[int]types.HealthStatus // by second
	}{
		"good": {[]string{"CMD", "true"}, "sleep 900", types.HealthCheck{}, map[int]types.HealthStatus{
			29: "UNKNOWN", 30: "HEALTHY", 800: "HEALTHY",
		}},
		"bad after three": {[]string{"CMD-SHELL", "exit 1"}, "sleep 900", types.HealthCheck{}, map[int]types.HealthStatus{
			89: "UNKNOWN", 90: "UNHEALTHY",
		}},
		"start period": {
			[]string{"CMD-SHELL", "exit 1"},
			"sleep 900",
			types.HealthCheck{StartPeriod: aws.Int32(100), Interval: aws.Int32(10), Retries: aws.Int32(2)},
			map[int]types.HealthStatus{109: "UNKNOWN", 110: "UNHEALTHY"},
		},
		"script of the container": {
			[]string{"CMD", "/probe"},
			"unhealthy 55; healthy 100; unhealthy; sleep 900",
			types.HealthCheck{Interval: aws.Int32(10)},
			map[int]types.HealthStatus{29: "UNKNOWN", 30: "UNHEALTHY", 60: "HEALTHY", 179: "HEALTHY", 180: "UNHEALTHY"},
		},
		"a success ends the start period": {
			[]string{"CMD", "/probe"},
			"healthy 15; unhealthy; sleep 900",
			types.HealthCheck{Interval: aws.Int32(10), Retries: aws.Int32(2), StartPeriod: aws.Int32(300)},
			map[int]types.HealthStatus{10: "HEALTHY", 29: "HEALTHY", 30: "UNHEALTHY"},
		},
		"any other command": {
			[]string{"CMD", "/probe"}, "sleep 900", types.HealthCheck{}, map[int]types.HealthStatus{30: "HEALTHY"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, Config{Kindness: Kindness{HealthAtOnce: true}}, func(t *testing.T, s *Server) {
				c := app("sh", "-c", tc.script)
				tc.check.Command = tc.command
				c.HealthCheck = &tc.check
				arn := run(t, s, definitionOf(c), nil)
				at := 0
				for now := range 900 {
					want, ok := tc.want[now]
					if !ok {
						continue
					}
					wait(sec(now - at))
					at = now
					if task := describe(t, client(s), arn); task.HealthStatus != want || task.Containers[0].HealthStatus != want ||
						*task.LastStatus != "RUNNING" {
						t.Fatalf("after %d s: %s, container %s, want %s", now, task.HealthStatus, task.Containers[0].HealthStatus, want)
					}
				}
			})
		})
	}
}

func TestTaskHealth(t *testing.T) {
	bothWays(t, Config{Kindness: Kindness{HealthAtOnce: true}}, func(t *testing.T, s *Server) {
		good, bad := checked(app("sleep", "900"), "true"), checked(named("bad", "sleep", "900"), "false")
		aside := checked(helperOf("aside", "sleep", "900"), "false")
		arn := run(t, s, definitionOf(good, aside), nil)
		both := run(t, s, definitionOf(good, bad), nil)
		wait(20 * time.Second)
		if st := describe(t, client(s), both).HealthStatus; st != "UNKNOWN" {
			t.Fatalf("while one is unknown: %s", st)
		}
		wait(10 * time.Second)
		if st := describe(t, client(s), both).HealthStatus; st != "UNHEALTHY" {
			t.Fatalf("one is bad: %s", st)
		}
		if st := describe(t, client(s), arn).HealthStatus; st != "HEALTHY" {
			t.Fatalf("one that is not essential is bad: %s", st)
		}
	})
}

func TestOutOfMemory(t *testing.T) {
	bothWays(t, Config{Kindness: Kindness{TermEnds: true}}, func(t *testing.T, s *Server) {
		arn := run(t, s, definitionOf(app("sh", "-c", "sleep 5; oom")), nil)
		wait(5 * time.Second)
		c := describe(t, client(s), arn).Containers[0]
		if *c.ExitCode != 137 || aws.ToString(c.Reason) != "OutOfMemoryError: Container killed due to memory usage" {
			t.Fatalf("%d %s", *c.ExitCode, aws.ToString(c.Reason))
		}
		arn = run(t, s, definitionOf(app("sh", "-c", "sleep 5; oom")), nil)
		wait(time.Second)
		s.Retire(arn)
		if c := describe(t, client(s), arn).Containers[0]; *c.ExitCode != 143 || c.Reason != nil {
			t.Fatalf("stopped before: %v", c)
		}
	})
}
