package ecs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

func TestInterpret(t *testing.T) {
	for argv, want := range map[string]outcome{
		"true":                                   {0, 0, false, 143, false},
		"/bin/false":                             {0, 1, false, 143, false},
		"nice -n 5 true":                         {0, 0, false, 143, false},
		"sleep 90":                               {90 * time.Second, 0, false, 143, false},
		"sleep 0.5":                              {time.Second / 2, 0, false, 143, false},
		"sleep infinity":                         {never, 0, false, 143, false},
		"sh -c|exit 3":                           {0, 3, false, 143, false},
		"sh -c|sleep 2; exit 7":                  {2 * time.Second, 7, false, 143, false},
		"sh -c|echo hi; sleep 1; sleep 2; false": {3 * time.Second, 1, false, 143, false},
		"sh -c|trap \"\" TERM; sleep 600":        {600 * time.Second, 0, true, 143, false},
		"sh -c|trap '' TERM; while :; do :; done":  {never, 0, true, 143, false},
		"sh -c|trap 'exit 9' TERM; sleep 5;exit 1": {5 * time.Second, 1, false, 9, false},
		"sh -c|while true; do sleep 1; done":       {never, 0, false, 143, false},
		"nginx -g|daemon off":                      {never, 0, false, 143, false},
		"":                                         {never, 0, false, 143, false},
	} {
		head, last, two := strings.Cut(argv, "|")
		words := strings.Fields(head)
		if two {
			words = append(words, last)
		}
		if got := interpret(words).outcome; got != want {
			t.Errorf("%s: got %+v, want %+v", argv, got, want)
		}
	}
}

func TestLifecycle(t *testing.T) {
	virtual(t, Config{Delays: slow}, func(t *testing.T, _ *Server, c *sdk.Client) {
		arn := launch(t, c, app("sh", "-c", "sleep 20; exit 3"))
		var got []string
		last := ""
		for range 60 {
			task := describe(t, c, arn)
			if s := *task.LastStatus + "/" + *task.DesiredStatus; s != last {
				last = s
				got = append(got, fmt.Sprintf("%.0f %s", time.Since(*task.CreatedAt).Seconds(), s))
			}
			time.Sleep(time.Second)
		}
		want := "0 PROVISIONING/RUNNING, 10 PENDING/RUNNING, 15 RUNNING/RUNNING, 35 DEACTIVATING/STOPPED, 36 " +
			"DEPROVISIONING/STOPPED, 44 STOPPED/STOPPED"
		if s := strings.Join(got, ", "); s != want {
			t.Fatalf("got  %s\nwant %s", s, want)
		}
		task := describe(t, c, arn)
		if *task.Containers[0].ExitCode != 3 || task.StopCode != types.TaskStopCodeEssentialContainerExited {
			t.Fatalf("exit %d, stop code %s", *task.Containers[0].ExitCode, task.StopCode)
		}
		time.Sleep(time.Hour)
		out, err := c.DescribeTasks(t.Context(), &sdk.DescribeTasksInput{Tasks: []string{arn}})
		if err != nil || len(out.Failures) != 1 || *out.Failures[0].Reason != "MISSING" {
			t.Fatalf("an hour after it stopped: %v, %v", out, err)
		}
	})
}

func TestInitContainers(t *testing.T) {
	chain := func(first string) []types.ContainerDefinition {
		init := types.ContainerDefinition{
			Name: aws.String("init"), Image: aws.String("i"), Essential: aws.Bool(false),
			EntryPoint: []string{"sh", "-c", first},
		}
		a := app("sleep", "60")
		a.DependsOn = []types.ContainerDependency{{
			ContainerName: aws.String("init"), Condition: types.ContainerConditionSuccess,
		}}
		return []types.ContainerDefinition{init, a}
	}
	virtual(t, Config{}, func(t *testing.T, _ *Server, c *sdk.Client) {
		arn := launch(t, c, chain("sleep 5")...)
		if task := describe(t, c, arn); *task.LastStatus != "PENDING" || *task.Containers[0].LastStatus != "RUNNING" ||
			*task.Containers[1].LastStatus != "PENDING" {
			t.Fatalf("while the init container runs: %v", task)
		}
		time.Sleep(5 * time.Second)
		if task := describe(t, c, arn); *task.LastStatus != "RUNNING" || *task.Containers[0].ExitCode != 0 ||
			*task.Containers[1].LastStatus != "RUNNING" {
			t.Fatalf("after it: %v", task)
		}
	})
	virtual(t, Config{Kindness: Kindness{StopsRefused: true}}, func(t *testing.T, _ *Server, c *sdk.Client) {
		arn := launch(t, c, chain("sleep 5; exit 2")...)
		time.Sleep(5 * time.Second)
		task := describe(t, c, arn)
		if *task.LastStatus != "STOPPED" || *task.Containers[0].ExitCode != 2 || *task.Containers[1].ExitCode != 143 {
			t.Fatalf("after a failed init container: %v", task)
		}
	})
}

func TestMissingImage(t *testing.T) {
	virtual(t, Config{}, func(t *testing.T, _ *Server, c *sdk.Client) {
		a := app("true")
		a.Image = aws.String("registry.example/missing:1")
		task := describe(t, c, launch(t, c, a))
		if *task.LastStatus != "STOPPED" || task.StopCode != types.TaskStopCodeTaskFailedToStart ||
			task.Containers[0].ExitCode != nil ||
			!strings.HasPrefix(*task.StoppedReason, "CannotPullContainerError") ||
			!strings.HasPrefix(*task.Containers[0].Reason, "CannotPullContainerError") {
			t.Fatalf("%v", task)
		}
	})
}

func TestStopTask(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		end    time.Duration
		exit   int32
	}{
		"on TERM":                {"serve", 0, 143},
		"has no handler":         {"sleep 600", 20 * time.Second, 137},
		"has no handler, a loop": {"while true; do sleep 1; done", 20 * time.Second, 137},
		"ignores it":             {`trap "" TERM; sleep 600`, 20 * time.Second, 137},
		"traps it":               {`trap "exit 5" TERM; sleep 600`, 0, 5},
		"ends before":            {`trap "" TERM; sleep 15; exit 4`, 5 * time.Second, 4},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, Config{}, func(t *testing.T, _ *Server, c *sdk.Client) {
				a := app("sh", "-c", tc.script)
				a.StopTimeout = aws.Int32(20)
				arn := launch(t, c, a)
				time.Sleep(10 * time.Second)
				for range 2 { // the second changes nothing
					if _, err := c.StopTask(t.Context(), &sdk.StopTaskInput{Task: &arn, Reason: aws.String("why")}); err != nil {
						t.Fatal(err)
					}
				}
				if tc.end > 0 {
					time.Sleep(tc.end - time.Millisecond)
					if s := *describe(t, c, arn).LastStatus; s != "STOPPING" {
						t.Fatalf("status before its end: %s", s)
					}
					time.Sleep(time.Millisecond)
				}
				task := describe(t, c, arn)
				if *task.LastStatus != "STOPPED" || *task.Containers[0].ExitCode != tc.exit ||
					task.StopCode != types.TaskStopCodeUserInitiated || *task.StoppedReason != "why" {
					t.Fatalf("%v", task)
				}
			})
		})
	}
	virtual(t, Config{}, func(t *testing.T, _ *Server, c *sdk.Client) {
		_, err := c.StopTask(t.Context(), &sdk.StopTaskInput{Task: aws.String("nope")})
		if got := code(t, err); got != "InvalidParameterException" {
			t.Fatal(got)
		}
	})
}

func TestClientToken(t *testing.T) {
	virtual(t, Config{Delays: slow}, func(t *testing.T, s *Server, c *sdk.Client) {
		s.Inject(Fault{Action: "RunTask", Failure: "Capacity is unavailable at this time."})
		if _, err := c.RegisterTaskDefinition(t.Context(), definitionOf(app("true"))); err != nil {
			t.Fatal(err)
		}
		refused, err := c.RunTask(t.Context(), runOf())
		if err != nil || len(refused.Tasks) != 0 || len(refused.Failures) != 1 {
			t.Fatalf("%v, %v", refused, err)
		}
		arn := launch(t, c, app("true")) // the refusal did not use up the token
		if again := launch(t, c, app("true")); again != arn {
			t.Fatalf("the same token made another task: %s, %s", arn, again)
		}
		other := runOf()
		other.StartedBy = aws.String("other")
		_, err = c.RunTask(t.Context(), other)
		var conflict *types.ConflictException
		if !errors.As(err, &conflict) || len(conflict.ResourceIds) != 1 || conflict.ResourceIds[0] != arn {
			t.Fatalf("other parameters: %v", err)
		}
		time.Sleep(time.Minute)
		out, err := c.RunTask(t.Context(), runOf())
		if err != nil || len(out.Tasks) != 1 || *out.Tasks[0].LastStatus != "STOPPED" || out.Tasks[0].CreatedAt != nil {
			t.Fatalf("after it stopped: %v, %v", out, err)
		}
		time.Sleep(time.Hour)
		if later := launch(t, c, app("true")); later == arn {
			t.Fatal("an hour after it stopped the token still stands")
		}
	})
}

func TestListTasks(t *testing.T) {
	virtual(t, Config{Delays: Delays{Visible: 3 * time.Second}}, func(t *testing.T, _ *Server, c *sdk.Client) {
		if _, err := c.RegisterTaskDefinition(t.Context(), definitionOf(app("sleep", "100"))); err != nil {
			t.Fatal(err)
		}
		var arns []string
		for i := range 5 {
			r := runOf()
			r.ClientToken = aws.String(fmt.Sprint("t", i))
			out, err := c.RunTask(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			arns = append(arns, *out.Tasks[0].TaskArn)
		}
		list := func(in *sdk.ListTasksInput) (got []string) {
			p := sdk.NewListTasksPaginator(c, in)
			for p.HasMorePages() {
				page, err := p.NextPage(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, page.TaskArns...)
			}
			return got
		}
		mine := func() *sdk.ListTasksInput {
			return &sdk.ListTasksInput{StartedBy: aws.String("me"), MaxResults: aws.Int32(2)}
		}
		if got := list(mine()); len(got) != 0 {
			t.Fatalf("visible at once: %v", got)
		}
		time.Sleep(3 * time.Second)
		if got := list(mine()); fmt.Sprint(got) != fmt.Sprint(arns) {
			t.Fatalf("got %v, want %v", got, arns)
		}
		if _, err := c.StopTask(t.Context(), &sdk.StopTaskInput{Task: &arns[0]}); err != nil {
			t.Fatal(err)
		}
		if got := list(mine()); len(got) != 4 {
			t.Fatalf("startedBy lists a stopped task: %v", got)
		}
		if got := list(&sdk.ListTasksInput{
			DesiredStatus: types.DesiredStatusStopped, Family: aws.String("f"),
		}); len(got) != 1 {
			t.Fatalf("stopped: %v", got)
		}
		both := mine()
		both.DesiredStatus = types.DesiredStatusStopped
		_, err := c.ListTasks(t.Context(), both)
		if got := code(t, err); got != "InvalidParameterException" {
			t.Fatalf("startedBy with another filter: %v", err)
		}
	})
}

func TestFaults(t *testing.T) {
	virtual(t, Config{}, func(t *testing.T, s *Server, c *sdk.Client) {
		if _, err := c.RegisterTaskDefinition(t.Context(), definitionOf(app("sleep", "60"))); err != nil {
			t.Fatal(err)
		}
		s.Inject(Fault{Action: "RunTask", Code: "ThrottlingException", Message: "Rate exceeded"})
		_, err := c.RunTask(t.Context(), runOf())
		if got := code(t, err); got != "ThrottlingException" || len(s.Tasks(false)) != 0 {
			t.Fatalf("%v, %v", err, s.Tasks(false))
		}
		s.Inject(Fault{Action: "RunTask", LoseReply: true})
		s.Inject(Fault{Action: "RunTask", Garble: true})
		for range 2 {
			if _, err := c.RunTask(t.Context(), runOf()); err == nil {
				t.Fatal("the reply was not lost")
			}
		}
		if got := s.Tasks(true); len(got) != 1 {
			t.Fatalf("tasks: %v", got)
		}
	})
	virtual(t, Config{}, func(t *testing.T, s *Server, c *sdk.Client) {
		arn := launch(t, c, app("nginx"))
		s.Interrupt(arn, "SpotInterruption", "Your Spot Task was interrupted.")
		if task := describe(t, c, arn); task.StopCode != types.TaskStopCodeSpotInterruption ||
			*task.Containers[0].ExitCode != 143 {
			t.Fatalf("%v", task)
		}
	})
}

func TestDefinitions(t *testing.T) {
	virtual(t, Config{}, func(t *testing.T, _ *Server, c *sdk.Client) {
		for range 2 {
			if _, err := c.RegisterTaskDefinition(t.Context(), definitionOf(app("true"))); err != nil {
				t.Fatal(err)
			}
		}
		out, err := c.DescribeTaskDefinition(t.Context(), &sdk.DescribeTaskDefinitionInput{TaskDefinition: aws.String("f")})
		if err != nil || out.TaskDefinition.Revision != 2 || *out.TaskDefinition.ContainerDefinitions[0].Name != "app" {
			t.Fatalf("%v, %v", out, err)
		}
		for _, rev := range []string{"f:2", "f:1"} {
			if _, err := c.DeregisterTaskDefinition(
				t.Context(), &sdk.DeregisterTaskDefinitionInput{TaskDefinition: aws.String(rev)},
			); err != nil {
				t.Fatal(err)
			}
		}
		_, err = c.DescribeTaskDefinition(t.Context(), &sdk.DescribeTaskDefinitionInput{TaskDefinition: aws.String("f")})
		if got := code(t, err); got != "ClientException" {
			t.Fatalf("a family without an active revision: %v", err)
		}
	})
}
