package ecs

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	sdk "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
)

// burst counts the calls that go through at once, and a second later.
func burst(t *testing.T, call func() error) (n, later int) {
	t.Helper()
	through := func() (n int) {
		for range 200 {
			err := call()
			if err == nil {
				n++
				continue
			}
			if got := code(t, err); got != "ThrottlingException" {
				t.Fatal(err)
			}
		}
		return n
	}
	n = through()
	wait(time.Second)
	return n, through()
}

func TestRates(t *testing.T) {
	type call func(*testing.T, *Server) error
	for name, tc := range map[string]struct {
		call     call
		n, later int
	}{
		"RegisterTaskDefinition": {func(t *testing.T, s *Server) error {
			_, err := client(s).RegisterTaskDefinition(t.Context(), definitionOf(app("true")))
			return err
		}, 20, 1},
		"DescribeTaskDefinition": {func(t *testing.T, s *Server) error {
			_, err := client(s).DescribeTaskDefinition(
				t.Context(), &sdk.DescribeTaskDefinitionInput{TaskDefinition: aws.String("f")},
			)
			return err
		}, 50, 20},
		"RunTask": {func(t *testing.T, s *Server) error {
			r := runOf()
			r.ClientToken = nil
			_, err := client(s).RunTask(t.Context(), r)
			return err
		}, 20, 20},
		"StopTask": {func(t *testing.T, s *Server) error {
			_, err := client(s).StopTask(t.Context(), &sdk.StopTaskInput{Task: aws.String(s.Tasks(false)[0])})
			return err
		}, 99, 40}, // one was spent on the task
		"ListTasks": {func(t *testing.T, s *Server) error {
			_, err := client(s).ListTasks(t.Context(), &sdk.ListTasksInput{})
			return err
		}, 100, 20},
		"CreateSecret": {func(t *testing.T, s *Server) error {
			_, err := secretsOf(s).CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{
				Name: aws.String("a"), SecretString: aws.String("x"), ClientRequestToken: aws.String(token32),
			})
			return err
		}, 50, 50},
		"GetLogEvents": {func(t *testing.T, s *Server) error {
			_, err := logsOf(s).GetLogEvents(t.Context(), &cloudwatchlogs.GetLogEventsInput{
				LogGroupName: aws.String("g"), LogStreamName: aws.String(s.Streams("g")[0]),
			})
			return err
		}, 25, 25},
	} {
		t.Run(name, func(t *testing.T) {
			world(t, Config{
				Throttles: true, LogGroups: []string{"g"}, Kindness: Kindness{PlainThrottles: true},
			}, func(t *testing.T, s *Server) {
				c := app("sleep", "600")
				c.LogConfiguration = logTo("g")
				run(t, s, withRole(c), nil)
				if name == "RegisterTaskDefinition" || name == "RunTask" {
					wait(time.Minute) // what run spent is there again
				}
				n, later := burst(t, func() error { return tc.call(t, s) })
				if n != tc.n || later != tc.later {
					t.Fatalf("%d at once, want %d, then %d a second, want %d", n, tc.n, later, tc.later)
				}
				if s.Throttled()[name] == 0 || s.CallsWithin(name, time.Minute) < 400 {
					t.Fatalf("%v, %d calls", s.Throttled(), s.CallsWithin(name, time.Minute))
				}
			})
		})
	}
}

// A launch rate is counted in tasks, by capacity provider.
func TestLaunchRate(t *testing.T) {
	world(t, Config{Throttles: true}, func(t *testing.T, s *Server) {
		if _, err := client(s).RegisterTaskDefinition(t.Context(), definitionOf(app("sleep", "60"))); err != nil {
			t.Fatal(err)
		}
		ten := func(more func(*sdk.RunTaskInput)) func(*sdk.RunTaskInput) {
			return func(r *sdk.RunTaskInput) {
				r.Count = aws.Int32(10)
				if more != nil {
					more(r)
				}
			}
		}
		for i := range 11 {
			want := "subnet-1"
			if i == 10 {
				want = "ThrottlingException"
			}
			if got := attempt(t, s, ten(nil)); got != want {
				t.Fatalf("%d tasks: %s", i*10, got)
			}
		}
		if got := attempt(t, s, ten(strategy(item("FARGATE_SPOT", 1, 0)))); got != "subnet-1 FARGATE_SPOT" {
			t.Fatal(got)
		}
		wait(500 * time.Millisecond)
		if got := attempt(t, s, ten(nil)); got != "subnet-1" {
			t.Fatal(got)
		}
	})
}

// Buckets hold what was left; without the switch there are none.
func TestNoThrottles(t *testing.T) {
	world(t, Config{}, func(t *testing.T, s *Server) {
		for range 150 {
			if _, err := client(s).ListTasks(t.Context(), &sdk.ListTasksInput{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Every other throttle of RunTask comes in disguise.
func TestThrottlesInDisguise(t *testing.T) {
	world(t, Config{Throttles: true}, func(t *testing.T, s *Server) {
		if _, err := client(s).RegisterTaskDefinition(t.Context(), definitionOf(app("sleep", "600"))); err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for range 40 {
			seen[attempt(t, s, nil)]++
		}
		if seen["ThrottlingException"] != 10 || seen["InvalidParameterException"] != 10 {
			t.Fatalf("%v", seen)
		}
	})
}

// A client that always asks again needs 49 s for 1,000 tasks: 20 at once, then 20
// a second.
func TestAThousandLaunches(t *testing.T) {
	world(t, Config{
		Throttles: true, Kindness: Kindness{PlainThrottles: true, Interfaces: true},
	}, func(t *testing.T, s *Server) {
		if _, err := client(s).RegisterTaskDefinition(t.Context(), definitionOf(app("sleep", "600"))); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		for n := 0; n < 1000; {
			if attempt(t, s, nil) == "ThrottlingException" {
				wait(50 * time.Millisecond)
				continue
			}
			n++
		}
		if took := time.Since(begin); took < 48900*time.Millisecond || took > 49100*time.Millisecond {
			t.Fatalf("took %s", took)
		}
		if got := len(s.Tasks(true)); got != 1000 {
			t.Fatalf("%d tasks", got)
		}
	})
}

// All that has a rate: how many calls at once, and how many a second later.
func TestEveryRate(t *testing.T) {
	want := map[string][2]int{
		"ecs RegisterTaskDefinition": {20, 1}, "ecs DeregisterTaskDefinition": {20, 1}, "ecs DeleteTaskDefinitions": {5, 1},
		"ecs DescribeTaskDefinition": {50, 20}, "ecs ListTaskDefinitions": {50, 20},
		"ecs ListTaskDefinitionFamilies": {50, 20},
		"ecs RunTask":                    {20, 20}, "ecs StopTask": {100, 40}, "ecs ExecuteCommand": {100, 40},
		"ecs DescribeTasks": {100, 20}, "ecs ListTasks": {100, 20},
		"ecs DescribeClusters": {50, 20}, "ecs TagResource": {20, 10}, "ecs UntagResource": {20, 10},
		"ecs ListTagsForResource":     {50, 20},
		"secretsmanager CreateSecret": {50, 50}, "secretsmanager DescribeSecret": {10000, 10000},
		"secretsmanager GetSecretValue": {10000, 10000},
		"secretsmanager PutSecretValue": {50, 50}, "secretsmanager DeleteSecret": {50, 50},
		"secretsmanager ListSecrets": {100, 100},
		"secretsmanager TagResource": {50, 50}, "secretsmanager UntagResource": {50, 50},
		"logs GetLogEvents": {25, 25}, "logs FilterLogEvents": {25, 25}, "logs DescribeLogStreams": {25, 25},
		"logs DescribeLogGroups": {10, 10},
		"logs CreateLogGroup":    {10, 10}, "logs DeleteLogGroup": {10, 10}, "logs PutRetentionPolicy": {10, 10},
		"logs DeleteLogStream": {15, 15},
	}
	free := map[string]bool{"sqs": true, "ecr": true, "servicequotas": true} // see bucketsOf
	for _, svc := range New(Config{}).apis {
		for action := range svc.actions {
			name := svc.name + " " + action
			w, limited := want[name]
			s, now := New(Config{Throttles: true}), time.Now()
			count := func() (n int) {
				for n < 20000 && s.throttle(svc.name, action, now) == nil {
					n++
				}
				return n
			}
			n := count()
			now = now.Add(time.Second)
			if later := count(); limited && (n != w[0] || later != w[1]) || limited == free[svc.name] {
				t.Errorf("%s: %d at once, then %d, want %v", name, n, later, w)
			}
		}
	}
}

// Actions that share a bucket take from one another.
func TestSharedBuckets(t *testing.T) {
	s, now := New(Config{Throttles: true}), time.Now()
	for i := range 20 {
		if e := s.throttle("ecs", []string{"RegisterTaskDefinition", "DeregisterTaskDefinition"}[i%2], now); e != nil {
			t.Fatal(i, e)
		}
	}
	if s.throttle("ecs", "RegisterTaskDefinition", now) == nil {
		t.Fatal("registrations and their reverse do not share a bucket")
	}
	for range 100 {
		if e := s.throttle("ecs", "StopTask", now); e != nil {
			t.Fatal(e)
		}
	}
	if s.throttle("ecs", "RunTask", now) == nil {
		t.Fatal("starts and stops do not share a bucket")
	}
}
