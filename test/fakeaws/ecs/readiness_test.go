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

// agentFor is the helper's agent, which tells a queue what variables say.
func agentFor(s *Server, vars ...string) types.ContainerDefinition {
	c := named("agent", "/burstlet-task")
	c.Command = []string{"agent"}
	vars = append(vars, reportQueueEnv, s.QueueURL("q"), reportKeyEnv, "key")
	for i := 0; i < len(vars); i += 2 {
		c.Environment = append(c.Environment, types.KeyValuePair{Name: &vars[i], Value: &vars[i+1]})
	}
	return c
}

// tells runs containers beside an agent, and returns what that tells within 8 minutes:
// when, and what stands in its messages behind the words after, if anything does.
func tells(t *testing.T, s *Server, after string, cs ...types.ContainerDefinition) string {
	t.Helper()
	in := definitionOf(cs...)
	in.TaskRoleArn = aws.String("arn:aws:iam::123456789012:role/task")
	run(t, s, in, nil)
	begun := time.Now()
	var got []string
	for time.Since(begun) < 8*time.Minute {
		for _, m := range receive(t, s, 20) {
			if strings.Contains(*m.Body, "burstletReadiness") {
				_, said, _ := strings.Cut(*m.Body, after)
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
	return strings.Join(got, " ")
}

// The helper's agent tells a queue what it is told to: on a change, once more, and then
// every five minutes.
func TestTheAgentTellsWhatIsReady(t *testing.T) {
	world(t, Config{Queues: []string{"q"}}, func(t *testing.T, s *Server) {
		got := tells(t, s, `\"ready\":{\"web\":`,
			supervisedOf("web", "unhealthy 12; healthy 100; unhealthy; sleep 900"), agentFor(s, reportOfEnv, "web"))
		if want := "12s=true 27s=true 1m52s=false 2m7s=false 7m7s=false"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// It tells the end of a container that runs once, and nothing of its start.
func TestTheAgentTellsAnEnd(t *testing.T) {
	world(t, Config{Queues: []string{"q"}}, func(t *testing.T, s *Server) {
		job := supervisedOf("job", "sleep 400; exit 3")
		job.Essential = aws.Bool(false)
		got := tells(t, s, `\"exit\":3,\"report\":{\"exit\":3,`, job, agentFor(s, reportLivesEnv, "job"))
		if want := `6m40s=\"fromLogs\":false 6m55s=\"fromLogs\":false`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

func TestSendMessage(t *testing.T) {
	world(t, Config{Queues: []string{"q"}}, func(t *testing.T, s *Server) {
		url := aws.String(s.QueueURL("q"))
		if _, err := queueOf(s).SendMessage(
			t.Context(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("hello")},
		); err != nil {
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
