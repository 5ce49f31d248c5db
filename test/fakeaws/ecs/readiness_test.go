package ecs

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// Health is shown as it was when it was published last, every 20 s.
func TestHealthIsPublishedLate(t *testing.T) {
	bothWays(t, Config{}, func(t *testing.T, s *Server) {
		c := app("sh", "-c", "unhealthy 12; healthy; sleep 900")
		c.HealthCheck = &types.HealthCheck{Command: []string{"CMD", "/check"}, Interval: aws.Int32(5), Retries: aws.Int32(1)}
		arn := run(t, s, definitionOf(c), nil)
		for at, want := range []types.HealthStatus{10: "UNKNOWN", 21: "UNKNOWN", 23: "HEALTHY", 40: "HEALTHY"} {
			if want == "" {
				wait(time.Second)
				continue
			}
			if got := describe(t, client(s), arn).Containers[0].HealthStatus; got != want {
				t.Errorf("after %d s: %s, want %s", at, got, want)
			}
			wait(time.Second)
		}
	})
}

// The helper's agent tells a queue what it is told to: on a change, once more, and then
// every five minutes.
func TestTheAgentTellsWhatIsReady(t *testing.T) {
	world(t, Config{Queues: []string{"q"}}, func(t *testing.T, s *Server) {
		web := supervisedOf("web", "unhealthy 12; healthy 100; unhealthy; sleep 900")
		agent := named("agent", "/burstlet-task")
		agent.Command = []string{"agent"}
		for name, v := range map[string]string{
			reportQueueEnv: s.QueueURL("q"), reportOfEnv: "web", reportKeyEnv: "key",
		} {
			agent.Environment = append(agent.Environment, types.KeyValuePair{Name: aws.String(name), Value: aws.String(v)})
		}
		in := definitionOf(web, agent)
		in.TaskRoleArn = aws.String("arn:aws:iam::123456789012:role/task")
		run(t, s, in, nil)
		begun := time.Now()
		var got []string
		for time.Since(begun) < 8*time.Minute {
			for _, m := range receive(t, s, 20) {
				if _, said, ok := strings.Cut(*m.Body, `\"ready\":{\"web\":`); ok {
					said, _, _ = strings.Cut(said, "}")
					got = append(got, time.Since(begun).Truncate(time.Second).String()+"="+said)
				}
				if _, err := queueOf(s).DeleteMessage(t.Context(), &sqs.DeleteMessageInput{
					QueueUrl: aws.String(s.QueueURL("q")), ReceiptHandle: m.ReceiptHandle,
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, want := strings.Join(got, " "), "12s=true 27s=true 1m52s=false 2m7s=false 7m7s=false"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

func TestSendMessage(t *testing.T) {
	world(t, Config{Queues: []string{"q"}}, func(t *testing.T, s *Server) {
		url := aws.String(s.QueueURL("q"))
		if _, err := queueOf(s).SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("hello")}); err != nil {
			t.Fatal(err)
		}
		if got := receive(t, s, 1); len(got) != 1 || *got[0].Body != "hello" {
			t.Errorf("%v", got)
		}
		_, err := queueOf(s).SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("")})
		if err == nil || !strings.Contains(err.Error(), "MissingParameter") {
			t.Error(err)
		}
		s.Deny(Denial{Action: "sqs:SendMessage"})
		_, err = queueOf(s).SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("hello")})
		if err == nil || !strings.Contains(err.Error(), "AccessDenied") {
			t.Error(err)
		}
	})
}
