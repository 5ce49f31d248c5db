package ecs

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// An image is pulled once the container that has it may start, and once a task.
func TestPullOrder(t *testing.T) {
	delays := Delays{Provision: 10 * time.Second, Pull: 5 * time.Second}
	for name, tc := range map[string]struct {
		kind    Kindness
		image   string
		pulls   map[string]time.Duration
		started time.Duration // of the container that waits for 20 s of another
		pulled  time.Duration // of the task's last image
	}{
		"once it may start": {Kindness{}, "nginx:1", nil, 40 * time.Second, 40 * time.Second},
		"a small image": {
			Kindness{}, "nginx:1", map[string]time.Duration{"nginx:1": 2 * time.Second}, 37 * time.Second, 37 * time.Second,
		},
		"the same image": {Kindness{}, "busybox:1", nil, 35 * time.Second, 15 * time.Second},
		"all upfront":    {Kindness{PullsUpfront: true}, "nginx:1", nil, 35 * time.Second, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, Config{Delays: delays, Kindness: tc.kind, Pulls: tc.pulls}, func(t *testing.T, s *Server) {
				second := after(app("serve"), "first", "SUCCESS")
				second.Image = aws.String(tc.image)
				arn := run(t, s, definitionOf(second, helperOf("first", "sleep", "20")), nil)
				wait(tc.started - time.Second)
				if st := *container(t, describe(t, client(s), arn), "app").LastStatus; st != "PENDING" {
					t.Fatalf("%s before its image was pulled", st)
				}
				wait(time.Second)
				task := describe(t, client(s), arn)
				if st := *container(t, task, "app").LastStatus; st != "RUNNING" {
					t.Fatalf("%s at %s", st, tc.started)
				}
				if at := task.PullStoppedAt.Sub(*task.CreatedAt); at != tc.pulled {
					t.Errorf("the last image was pulled after %s, want %s", at, tc.pulled)
				}
				if at := task.PullStartedAt.Sub(*task.CreatedAt); at != delays.Provision {
					t.Errorf("pulls began after %s", at)
				}
			})
		})
	}
}

// Of an image in no registry a task ends when the container that has it may start; its
// siblings ran until then.
func TestPullOfADependentFails(t *testing.T) {
	bothWays(t, Config{Delays: Delays{Pull: 5 * time.Second}}, func(t *testing.T, s *Server) {
		second := after(app("serve"), "first", "SUCCESS")
		second.Image = aws.String("missing:1")
		arn := run(t, s, definitionOf(second, helperOf("first", "sleep", "20")), nil)
		wait(29 * time.Second)
		if task := describe(t, client(s), arn); *task.DesiredStatus != "RUNNING" {
			t.Fatalf("%s: %s", *task.LastStatus, aws.ToString(task.StoppedReason))
		}
		wait(time.Second)
		task := describe(t, client(s), arn)
		if *task.LastStatus != "STOPPED" || task.StopCode != "TaskFailedToStart" ||
			container(t, task, "app").ExitCode != nil {
			t.Errorf("%s, %s", *task.LastStatus, task.StopCode)
		}
		if c := container(t, task, "first"); aws.ToInt32(c.ExitCode) != 0 || c.ExitCode == nil {
			t.Errorf("the first ended with %v", c.ExitCode)
		}
	})
}

// A task that is stopped does not wait for a pull.
func TestStopDuringAPull(t *testing.T) {
	bothWays(t, Config{Delays: Delays{Pull: time.Hour}}, func(t *testing.T, s *Server) {
		arn := run(t, s, definitionOf(app("serve")), nil)
		wait(time.Minute)
		s.Retire(arn)
		wait(time.Second)
		if task := describe(t, client(s), arn); *task.LastStatus != "STOPPED" || task.PullStoppedAt != nil {
			t.Errorf("%s, pulled at %v", *task.LastStatus, task.PullStoppedAt)
		}
	})
}
