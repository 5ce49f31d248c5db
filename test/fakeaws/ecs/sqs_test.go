package ecs

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// event is what a client reads of an envelope.
type event struct {
	DetailType string `json:"detail-type"`
	Source     string
	Resources  []string
	Detail     struct {
		TaskArn, LastStatus, DesiredStatus, StopCode, CreatedAt string
		HealthStatus                                            *string
		Version                                                 int
		Attachments                                             []struct{ Type string }
		Containers                                              []struct {
			LastStatus string
			ExitCode   *int
		}
		Overrides struct {
			ContainerOverrides []struct {
				Environment []struct{ Name, Value string }
			}
		}
	}
}

func receive(t *testing.T, s *Server, wait int32) []sqstypes.Message {
	t.Helper()
	out, err := queueOf(s).ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: aws.String(s.QueueURL("q")), WaitTimeSeconds: wait, MaxNumberOfMessages: 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Messages
}

// drain receives and deletes until nothing comes for 20 s.
func drain(t *testing.T, s *Server) (got []event) {
	t.Helper()
	for {
		messages := receive(t, s, 20)
		if len(messages) == 0 {
			return got
		}
		in := &sqs.DeleteMessageBatchInput{QueueUrl: aws.String(s.QueueURL("q"))}
		for _, m := range messages {
			var e event
			if err := json.Unmarshal([]byte(*m.Body), &e); err != nil {
				t.Fatal(err)
			}
			got = append(got, e)
			in.Entries = append(in.Entries, sqstypes.DeleteMessageBatchRequestEntry{
				Id: aws.String((*m.MessageId)[:20]), ReceiptHandle: m.ReceiptHandle,
			})
		}
		out, err := queueOf(s).DeleteMessageBatch(t.Context(), in)
		if err != nil || len(out.Failed) > 0 {
			t.Fatalf("%v, %v", out, err)
		}
	}
}

func TestEvents(t *testing.T) {
	bothWays(t, Config{Queues: []string{"q"}, Delays: slow}, func(t *testing.T, s *Server) {
		arn := run(t, s, definitionOf(app("sh", "-c", "sleep 12; exit 3")), func(r *sdk.RunTaskInput) {
			r.Overrides = &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{
				{Name: aws.String("app"), Environment: []types.KeyValuePair{{Name: aws.String("WHO"), Value: aws.String("me")}}},
			}}
		})
		got := drain(t, s)
		var states []string
		for i, e := range got {
			checkEnvelope(t, e, arn)
			if i > 0 && e.Detail.Version <= got[i-1].Detail.Version {
				t.Fatalf("versions %d, %d", got[i-1].Detail.Version, e.Detail.Version)
			}
			states = append(states, e.Detail.LastStatus)
		}
		if s := strings.Join(states, " "); s != "PROVISIONING PENDING RUNNING DEACTIVATING DEPROVISIONING STOPPED" {
			t.Fatal(s)
		}
		last := got[len(got)-1].Detail
		if last.StopCode != "EssentialContainerExited" || *last.Containers[0].ExitCode != 3 ||
			last.DesiredStatus != "STOPPED" {
			t.Fatalf("%+v", last)
		}
	})
}

func checkEnvelope(t *testing.T, e event, arn string) {
	t.Helper()
	if e.DetailType != "ECS Task State Change" || e.Source != "aws.ecs" || e.Resources[0] != arn ||
		e.Detail.TaskArn != arn || e.Detail.HealthStatus != nil ||
		e.Detail.Attachments[0].Type != "eni" || e.Detail.Overrides.ContainerOverrides[0].Environment[0].Value != "me" {
		t.Fatalf("%+v", e)
	}
	if _, err := time.Parse(time.RFC3339, e.Detail.CreatedAt); err != nil {
		t.Fatal(err)
	}
}

// A long poll ends when something comes, at once also for what others do meanwhile.
func TestLongPoll(t *testing.T) {
	bothWays(t, Config{Queues: []string{"q"}}, func(t *testing.T, s *Server) {
		begin := time.Now()
		if got := receive(t, s, 20); len(got) != 0 || time.Since(begin) != 20*time.Second {
			t.Fatalf("%v after %s", got, time.Since(begin))
		}
		arn := run(t, s, definitionOf(app("sleep", "600")), nil)
		drain(t, s)
		begin = time.Now()
		done := make(chan int)
		go func() { done <- len(receive(t, s, 20)) }()
		wait(5 * time.Second)
		s.InterruptSpot(arn)
		if n := <-done; n != 1 || time.Since(begin) != 5*time.Second {
			t.Fatalf("%d after %s", n, time.Since(begin))
		}
		s.Send("q", "not an event")
		if got := receive(t, s, 0); len(got) != 1 || *got[0].Body != "not an event" {
			t.Fatalf("%v", got)
		}
	})
}

func TestVisibility(t *testing.T) {
	bothWays(t, Config{Queues: []string{"q"}}, func(t *testing.T, s *Server) {
		s.Send("q", "x")
		first := receive(t, s, 0)
		if len(first) != 1 || len(receive(t, s, 0)) != 0 {
			t.Fatal("a message that was received is not hidden")
		}
		wait(30 * time.Second)
		second := receive(t, s, 0)
		if len(second) != 1 {
			t.Fatal("a message that was not deleted does not come again")
		}
		c := queueOf(s)
		del := func(handle *string) error {
			_, err := c.DeleteMessage(
				t.Context(), &sqs.DeleteMessageInput{QueueUrl: aws.String(s.QueueURL("q")), ReceiptHandle: handle},
			)
			return err
		}
		if err := del(first[0].ReceiptHandle); err != nil {
			t.Fatal(err)
		}
		if got := code(t, del(aws.String("x"))); got != "ReceiptHandleIsInvalid" {
			t.Fatal(got)
		}
		if _, err := c.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{
			QueueUrl: aws.String(s.QueueURL("q")), ReceiptHandle: second[0].ReceiptHandle,
		}); err != nil {
			t.Fatal(err)
		}
		third := receive(t, s, 0)
		if len(third) != 1 {
			t.Fatal("the old receipt deleted it, or it is still hidden")
		}
		if err := del(third[0].ReceiptHandle); err != nil {
			t.Fatal(err)
		}
		out, err := c.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
			QueueUrl: aws.String(s.QueueURL("q")), AttributeNames: []sqstypes.QueueAttributeName{"All"},
		})
		if err != nil || out.Attributes["ApproximateNumberOfMessages"] != "0" ||
			out.Attributes["ApproximateNumberOfMessagesNotVisible"] != "0" {
			t.Fatalf("%v, %v", out, err)
		}
	})
}

func TestMessageAttributes(t *testing.T) {
	bothWays(t, Config{Queues: []string{"q"}}, func(t *testing.T, s *Server) {
		s.Send("q", "x")
		for want, names := range map[int][]sqstypes.MessageSystemAttributeName{
			0: nil, 1: {"ApproximateReceiveCount"}, 3: {"All"},
		} {
			out, err := queueOf(s).ReceiveMessage(
				t.Context(), &sqs.ReceiveMessageInput{QueueUrl: aws.String(s.QueueURL("q")), MessageSystemAttributeNames: names},
			)
			if err != nil || len(out.Messages) != 1 || len(out.Messages[0].Attributes) != want {
				t.Fatalf("%v: %v, %v", names, out, err)
			}
			wait(30 * time.Second)
		}
	})
}

func TestQueueRules(t *testing.T) {
	bothWays(t, Config{Queues: []string{"q"}}, func(t *testing.T, s *Server) {
		c := queueOf(s)
		url, err := c.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("q")})
		if err != nil || *url.QueueUrl != s.QueueURL("q") {
			t.Fatalf("%v, %v", url, err)
		}
		_, err = c.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: aws.String(s.QueueURL("other"))})
		if got := code(t, err); !strings.HasSuffix(got, "QueueDoesNotExist") && !strings.HasSuffix(got, "NonExistentQueue") {
			t.Fatalf("%s: %v", got, err)
		}
		_, err = c.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url.QueueUrl, MaxNumberOfMessages: 11})
		if got := code(t, err); got != "InvalidParameterValue" {
			t.Fatal(err)
		}
		_, err = c.DeleteMessageBatch(
			t.Context(),
			&sqs.DeleteMessageBatchInput{QueueUrl: url.QueueUrl, Entries: []sqstypes.DeleteMessageBatchRequestEntry{
				{Id: aws.String("1"), ReceiptHandle: aws.String("x")}, {Id: aws.String("1"), ReceiptHandle: aws.String("y")},
			}},
		)
		if got := code(t, err); !strings.HasSuffix(got, "BatchEntryIdsNotDistinct") {
			t.Fatal(err)
		}
	})
}

// Events come more than once, not at all, and in another order, the same ones in
// every run.
func TestEventFaults(t *testing.T) {
	count := func(t *testing.T, f EventFaults) (n, doubled int, ordered bool) {
		world(t, Config{Queues: []string{"q"}, Delays: slow, Events: f}, func(t *testing.T, s *Server) {
			for range 20 {
				run(t, s, definitionOf(app("sleep", "12")), nil)
			}
			seen, last := map[string]int{}, map[string]int{}
			ordered = true
			for _, e := range drain(t, s) {
				seen[e.Detail.TaskArn+e.Detail.LastStatus]++
				ordered = ordered && e.Detail.Version >= last[e.Detail.TaskArn]
				last[e.Detail.TaskArn] = e.Detail.Version
				n++
			}
			for _, k := range seen {
				if k > 1 {
					doubled++
				}
			}
		})
		return n, doubled, ordered
	}
	if n, doubled, ordered := count(t, EventFaults{}); n != 120 || doubled != 0 || !ordered {
		t.Fatalf("no faults: %d, %d doubled, ordered %v", n, doubled, ordered)
	}
	if n, doubled, _ := count(t, EventFaults{Double: 5}); doubled == 0 || n != 120+doubled {
		t.Fatalf("%d, %d doubled", n, doubled)
	}
	if n, _, _ := count(t, EventFaults{Lose: 5}); n == 0 || n >= 120 {
		t.Fatalf("%d", n)
	}
	if n, _, ordered := count(t, EventFaults{Jitter: 15 * time.Second}); n != 120 || ordered {
		t.Fatalf("%d, ordered %v", n, ordered)
	}
}

// A server that stops does not wait for a long poll.
func TestStopDuringALongPoll(t *testing.T) {
	s := New(Config{Queues: []string{"q"}})
	url, stop, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	arrived := make(chan struct{})
	s.Hook(func(Call) error { close(arrived); return nil }, nil)
	c := sqs.New(sqs.Options{Region: "us-east-1", BaseEndpoint: &url, Retryer: aws.NopRetryer{}, Credentials: keys})
	done := make(chan error, 1)
	go func() {
		_, err := c.ReceiveMessage(
			t.Context(), &sqs.ReceiveMessageInput{QueueUrl: aws.String(s.QueueURL("q")), WaitTimeSeconds: 20},
		)
		done <- err
	}()
	<-arrived
	begin := time.Now()
	stop()
	if err := <-done; err == nil || time.Since(begin) > 15*time.Second { // of 20
		t.Fatalf("%v after %s", err, time.Since(begin))
	}
}
