package ecs

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	sdk "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

func TestDenied(t *testing.T) {
	for action, tc := range map[string]struct {
		call     func(*testing.T, *Server) error
		resource string
	}{
		"ecs:RunTask": {func(t *testing.T, s *Server) error {
			_, err := client(s).RunTask(t.Context(), runOf())
			return err
		}, "arn:aws:ecs:us-east-1:123456789012:task-definition/f:1"},
		"ecs:TagResource": {func(t *testing.T, s *Server) error {
			r := runOf()
			r.Tags = []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}
			_, err := client(s).RunTask(t.Context(), r)
			return err
		}, "arn:aws:ecs:us-east-1:123456789012:task/default/*"},
		"iam:PassRole": {func(t *testing.T, s *Server) error {
			_, err := client(s).RegisterTaskDefinition(t.Context(), withRole(app("true")))
			return err
		}, testRole},
		"ecs:StopTask": {func(t *testing.T, s *Server) error {
			_, err := client(s).StopTask(t.Context(), &sdk.StopTaskInput{Task: aws.String("x")})
			return err
		}, "arn:aws:ecs:us-east-1:123456789012:task/default/x"},
		"ecs:DescribeClusters": {func(t *testing.T, s *Server) error {
			_, err := client(s).DescribeClusters(t.Context(), &sdk.DescribeClustersInput{Clusters: []string{"default"}})
			return err
		}, "arn:aws:ecs:us-east-1:123456789012:cluster/default"},
		"secretsmanager:CreateSecret": {func(t *testing.T, s *Server) error {
			_, err := secretsOf(s).CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{Name: aws.String("a")})
			return err
		}, "arn:aws:secretsmanager:us-east-1:123456789012:secret:a-*"},
		"logs:GetLogEvents": {func(t *testing.T, s *Server) error {
			_, err := logsOf(s).GetLogEvents(
				t.Context(), &cloudwatchlogs.GetLogEventsInput{LogGroupName: aws.String("g"), LogStreamName: aws.String("s")},
			)
			return err
		}, "arn:aws:logs:us-east-1:123456789012:log-group:g:log-stream:s"},
		"sqs:ReceiveMessage": {func(t *testing.T, s *Server) error {
			_, err := queueOf(s).ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: aws.String(s.QueueURL("q"))})
			return err
		}, "arn:aws:sqs:us-east-1:123456789012:q"},
	} {
		t.Run(action, func(t *testing.T) {
			s := New(Config{})
			if _, err := client(s).RegisterTaskDefinition(t.Context(), definitionOf(app("true"))); err != nil {
				t.Fatal(err)
			}
			s.Deny(Denial{Action: action})
			err := tc.call(t, s)
			want := "is not authorized to perform: " + action + " on resource: " + tc.resource +
				" because no identity-based policy allows the " + action + " action"
			if code(t, err) != "AccessDeniedException" || !strings.Contains(err.Error(), want) {
				t.Fatalf("got  %v\nwant %s", err, want)
			}
			if !slices.Contains(s.Permissions(), "caller "+action) {
				t.Fatal(s.Permissions())
			}
			s.AllowAll()
			if err := tc.call(t, s); err != nil && code(t, err) == "AccessDeniedException" {
				t.Fatal(err)
			}
			s.Deny(Denial{Action: action, Resource: "arn:aws:x:*"})
			if err := tc.call(t, s); err != nil && code(t, err) == "AccessDeniedException" {
				t.Fatalf("another resource: %v", err)
			}
		})
	}
}

func TestPolicy(t *testing.T) {
	s := New(Config{Policy: func(p Principal, action, _ string) bool { return p == Caller && action == "ecs:ListTasks" }})
	if _, err := client(s).ListTasks(t.Context(), &sdk.ListTasksInput{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client(s).RunTask(t.Context(), runOf()); code(t, err) != "AccessDeniedException" {
		t.Fatal(err)
	}
}

func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true},
		{"a", "ab", false},
		{"*", "", true},
		{"ecs:*", "ecs:RunTask", true},
		{"a*c", "abc", true},
		{"a*c", "abd", false},
		{"a*b*c", "axbxc", true},
		{"a*b*c", "axc", false},
		{"a*a", "a", false},
	} {
		if got := matches(tc.pattern, tc.text); got != tc.want {
			t.Errorf("%s, %s: %v", tc.pattern, tc.text, got)
		}
	}
}

// Every call can be cut off before or after it.
func TestHooks(t *testing.T) {
	s := New(Config{})
	c := client(s)
	if _, err := c.RegisterTaskDefinition(t.Context(), definitionOf(app("sleep", "60"))); err != nil {
		t.Fatal(err)
	}
	var calls []Call
	cut := errors.New("cut")
	at, late := 0, false
	s.Hook(func(c Call) error {
		if c.N == at && !late {
			return cut
		}
		return nil
	}, func(c Call) error {
		calls = append(calls, c)
		if c.N == at && late {
			return cut
		}
		return nil
	})
	at = 2
	if _, err := c.RunTask(t.Context(), runOf()); err == nil || len(s.Tasks(false)) != 0 {
		t.Fatalf("cut off before: %v, %v", err, s.Tasks(false))
	}
	at, late = 3, true
	if _, err := c.RunTask(t.Context(), runOf()); err == nil || len(s.Tasks(false)) != 1 {
		t.Fatalf("cut off after: %v, %v", err, s.Tasks(false))
	}
	if _, err := c.StopTask(t.Context(), &sdk.StopTaskInput{Task: aws.String("x")}); err == nil {
		t.Fatal("no error")
	}
	want := []Call{{3, "ecs", "RunTask", ""}, {4, "ecs", "StopTask", "InvalidParameterException"}}
	if !slices.Equal(calls, want) {
		t.Fatalf("%+v", calls)
	}
}

func TestSkippedFault(t *testing.T) {
	s := New(Config{})
	s.Inject(Fault{Action: "ListTasks", Skip: 2, Code: "ServerException", Status: 500})
	for i, want := range []string{"", "", "ServerException", ""} {
		_, err := client(s).ListTasks(t.Context(), &sdk.ListTasksInput{})
		if got := code(t, err); got != want {
			t.Fatalf("call %d: %s", i, got)
		}
	}
}

// Reads may show an older state than one before, but not one older than the bound.
func TestStaleReads(t *testing.T) {
	bothWays(t, Config{Delays: Delays{Stale: 6 * time.Second}}, func(t *testing.T, s *Server) {
		arn := run(t, s, definitionOf(app("nginx")), nil)
		wait(10 * time.Second)
		if _, err := client(s).StopTask(t.Context(), &sdk.StopTaskInput{Task: &arn}); err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for range 8 {
			seen[*describe(t, client(s), arn).LastStatus]++
			wait(time.Second / 2)
		}
		if seen["RUNNING"] == 0 || seen["STOPPED"] == 0 {
			t.Fatalf("%v", seen)
		}
		wait(6 * time.Second)
		for range 8 {
			if st := *describe(t, client(s), arn).LastStatus; st != "STOPPED" {
				t.Fatal(st)
			}
		}
	})
}
