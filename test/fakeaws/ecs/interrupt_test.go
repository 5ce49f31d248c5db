package ecs

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

func TestInterruptions(t *testing.T) {
	for name, tc := range map[string]struct {
		how    func(*Server, string)
		code   types.TaskStopCode
		reason string
		after  time.Duration // until the container ended
		exit   *int32
	}{
		"Spot": {
			(*Server).InterruptSpot, "SpotInterruption", "Your Spot Task was interrupted.", 120 * time.Second, aws.Int32(137),
		},
		"retired": {
			(*Server).Retire, "TerminationNotice",
			"ECS is performing maintenance on the underlying infrastructure hosting the task", 120 * time.Second, aws.Int32(137),
		},
		"host": {(*Server).FailHost, "InfrastructureHealth", "InternalError", 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, Config{}, func(t *testing.T, s *Server) {
				c := app("sh", "-c", "trap '' TERM; sleep 6000")
				c.StopTimeout = aws.Int32(120)
				arn := run(t, s, definitionOf(c), strategy(item("FARGATE_SPOT", 1, 0)))
				wait(time.Minute)
				tc.how(s, arn)
				if task := describe(t, client(s), arn); *task.DesiredStatus != "STOPPED" || task.StopCode != tc.code ||
					!strings.HasPrefix(*task.StoppedReason, tc.reason) {
					t.Fatalf("%v", task)
				}
				if tc.after > 0 {
					wait(tc.after - time.Second)
					if st := *describe(t, client(s), arn).LastStatus; st != "STOPPING" {
						t.Fatal(st)
					}
					wait(time.Second)
				}
				task := describe(t, client(s), arn)
				if got := task.Containers[0].ExitCode; *task.LastStatus != "STOPPED" || (got == nil) != (tc.exit == nil) ||
					got != nil && *got != *tc.exit {
					t.Fatalf("%v", task)
				}
			})
		})
	}
}

func TestGuardDuty(t *testing.T) {
	bothWays(t, Config{GuardDuty: true}, func(t *testing.T, s *Server) {
		arn := run(t, s, definitionOf(app("sleep", "60")), nil)
		task := describe(t, client(s), arn)
		guard := task.Containers[1]
		if len(task.Containers) != 2 || !strings.HasPrefix(*guard.Name, "aws-guardduty-agent-") || *guard.Cpu != "null" ||
			*guard.LastStatus != "RUNNING" {
			t.Fatalf("%v", guard)
		}
		wait(time.Minute)
		if guard := describe(t, client(s), arn).Containers[1]; *guard.LastStatus != "STOPPED" {
			t.Fatalf("%v", guard)
		}
	})
}

func TestCost(t *testing.T) {
	bothWays(t, Config{Delays: slow}, func(t *testing.T, s *Server) {
		near := func(what string, got, want float64) {
			t.Helper()
			if math.Abs(got-want) > 1e-9 {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		d := definitionOf(app("sleep", "3600"))
		d.Cpu, d.Memory = aws.String("1024"), aws.String("2048")
		run(t, s, d, nil)
		if got := s.Cost(); got.Dollars != 0 {
			t.Fatalf("before the pull: %+v", got)
		}
		wait(10*time.Second + 30*time.Minute)
		near("half an hour", s.Cost().Dollars, (0.04048+2*0.004445)/2)
		near("an hour of it", s.Cost().PerHour, 0.04048+2*0.004445)
		wait(24 * time.Hour) // it has stopped and is forgotten
		hours := (3600 + 5 + 1 + 8) / 3600.0
		near("all of it", s.Cost().Dollars, (0.04048+2*0.004445)*hours)
		near("vCPU hours", s.Cost().VCPUHours, hours)
		near("nothing runs", s.Cost().PerHour, 0)
		d = definitionOf(app("true"))
		d.RuntimePlatform = &types.RuntimePlatform{CpuArchitecture: types.CPUArchitectureArm64}
		d.EphemeralStorage = &types.EphemeralStorage{SizeInGiB: 120}
		before := s.Cost().Dollars
		run(t, s, d, strategy(item("FARGATE_SPOT", 1, 0)))
		wait(time.Hour / 2)
		near(
			"a minute at least, ARM, Spot, storage", s.Cost().Dollars-before, ((0.25*0.03238+0.5*0.00356)*0.3+100*0.000111)/60,
		)
	})
}

func TestInspection(t *testing.T) {
	world(t, Config{}, func(t *testing.T, s *Server) {
		arn := run(t, s, definitionOf(app("nginx")), func(r *sdk.RunTaskInput) {
			r.Tags = []types.Tag{{Key: aws.String("uid"), Value: aws.String("u1")}}
			r.Overrides = &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{
				{Name: aws.String("app"), Environment: []types.KeyValuePair{{Name: aws.String("WHO"), Value: aws.String("me")}}},
			}}
		})
		if got := s.LiveByTag("uid"); len(got) != 1 || len(got["u1"]) != 1 || got["u1"][0] != arn {
			t.Fatalf("%v", got)
		}
		s.InterruptSpot(arn)
		if got := s.LiveByTag("uid"); len(got) != 0 {
			t.Fatalf("%v", got)
		}
		r := s.Report()
		if i := r.Tasks[0]; i.Tags["uid"] != "u1" || i.Environment["WHO"] != "me" || i.LastStatus != "STOPPED" ||
			i.StopCode != "SpotInterruption" || i.Family != "f" || i.CPU != 256 {
			t.Fatalf("%+v", i)
		}
		if r.Calls["RunTask"] != 1 || r.LastMinute["RunTask"] != 1 || len(r.Definitions) != 1 {
			t.Fatalf("%+v", r)
		}
		wait(time.Minute)
		if r := s.Report(); r.LastMinute["RunTask"] != 0 {
			t.Fatalf("%+v", r.LastMinute)
		}
	})
}

func TestRemote(t *testing.T) {
	s := New(Config{})
	url, stop, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	arn := run(t, s, definitionOf(app("sleep", "600")), nil)
	r := Remote{URL: url}
	for _, err := range []error{
		r.Inject(t.Context(), Fault{Action: "ListTasks", Code: "ServerException"}),
		r.Shortage(t.Context(), "", "FARGATE_SPOT", true),
		r.Interrupt(t.Context(), arn, "retire"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Interrupt(t.Context(), arn, "x"); err == nil {
		t.Fatal("unknown interruption")
	}
	if _, err := client(s).ListTasks(t.Context(), &sdk.ListTasksInput{}); code(t, err) != "ServerException" {
		t.Fatal(err)
	}
	if got := attempt(t, s, strategy(item("FARGATE_SPOT", 1, 0))); got != noCapacity {
		t.Fatal(got)
	}
	report, err := r.Report(t.Context())
	if err != nil || len(report.Tasks) != 1 || report.Tasks[0].StopCode != "TerminationNotice" ||
		report.Calls["RunTask"] != 2 {
		t.Fatalf("%+v, %v", report, err)
	}
}
