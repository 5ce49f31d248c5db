package taskevents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/task"
)

const eventsNode = "cluster-uid/node.example"

// eventOf is an event as EventBridge writes it.
func eventOf(task, startedBy, uid string, version int) string {
	id := fmt.Sprintf(
		`{\"node\":\"n\",\"uid\":\"%s\",\"ns\":\"ns\",\"name\":\"p\",\"attempt\":0,\"c\":[{\"n\":\"app\",\"h\":\"h\"}]}`, uid,
	)
	return fmt.Sprintf(`{"version":"0","id":"1","detail-type":"ECS Task State Change","source":"aws.ecs","detail":{"taskArn":"%s","startedBy":"%s",
		"version":%d,"lastStatus":"RUNNING","createdAt":"2026-11-22T10:00:00Z",
		"overrides":{"containerOverrides":[{"name":"burstlet-init"},{"name":"app","environment":[{"name":"BURSTLET_POD","value":"%s"}]}]}}}`, task, startedBy, version, id)
}

func TestEventsTellWhichPodToLookAt(t *testing.T) {
	ours := identity.StartedBy(eventsNode)
	e := New(nil, "url", ours, task.NewKnown(task.Config{}))
	for _, c := range []struct{ name, body, want string }{
		{"a task of ours", eventOf("t1", ours, "u1", 2), "u1"},
		{"the same again", eventOf("t1", ours, "u1", 2), ""},
		{"an older one", eventOf("t1", ours, "u1", 1), ""},
		{"a newer one", eventOf("t1", ours, "u1", 3), "u1"},
		{"another task of the pod", eventOf("t2", ours, "u1", 1), "u1"},
		{"another node's", eventOf("t3", identity.StartedBy("other"), "u3", 1), ""},
		{"a service's", eventOf("t4", "ecs-svc/123", "u4", 1), ""},
		{"another source", strings.ReplaceAll(eventOf("t5", ours, "u5", 1), "aws.ecs", "aws.ec2"), ""},
		{"no identity", strings.ReplaceAll(eventOf("t6", ours, "u6", 1), "BURSTLET_POD", "OTHER"), ""},
		{"no JSON", "<xml/>", ""},
		{"nothing", "", ""},
	} {
		uid, ok := e.Read(t.Context(), c.body)
		if string(uid) != c.want && ok || ok != (c.want != "") {
			t.Errorf("%s: %q, %v, want %q", c.name, uid, ok, c.want)
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add(eventOf("t1", identity.StartedBy(eventsNode), "u1", 2))
	f.Fuzz(func(t *testing.T, body string) {
		if uid, ok := New(
			nil, "url", identity.StartedBy(eventsNode), task.NewKnown(task.Config{}),
		).Read(t.Context(), body); ok && uid == "" {
			t.Error("a hint about no pod")
		}
	})
}

// queueOf is a queue with some messages. When it is empty the next call fails.
type queueOf struct {
	mu       sync.Mutex
	messages []string
	deleted  []string
	fail     error
}

func (q *queueOf) ReceiveMessage(
	_ context.Context, in *sqs.ReceiveMessageInput, _ ...func(*sqs.Options),
) (*sqs.ReceiveMessageOutput, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.messages) == 0 {
		return nil, q.fail
	}
	n := min(len(q.messages), int(in.MaxNumberOfMessages))
	out := &sqs.ReceiveMessageOutput{}
	for _, m := range q.messages[:n] {
		out.Messages = append(out.Messages, sqstypes.Message{Body: aws.String(m), ReceiptHandle: aws.String(m)})
	}
	q.messages = q.messages[n:]
	return out, nil
}

func (q *queueOf) DeleteMessageBatch(
	_ context.Context, in *sqs.DeleteMessageBatchInput, _ ...func(*sqs.Options),
) (*sqs.DeleteMessageBatchOutput, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range in.Entries {
		q.deleted = append(q.deleted, *e.ReceiptHandle)
	}
	return &sqs.DeleteMessageBatchOutput{}, nil
}

func TestEventsAreReadAndDeletedWhateverTheyAre(t *testing.T) {
	q := &queueOf{fail: &smithy.GenericAPIError{Code: "QueueDoesNotExist", Message: "no such queue"}}
	ours := identity.StartedBy(eventsNode)
	for i := range 12 {
		q.messages = append(q.messages, eventOf(fmt.Sprint("t", i), ours, fmt.Sprint("u", i), 1), "garbage")
	}
	hints := make(chan types.UID, 100)
	err := New(q, "url", ours, task.NewKnown(task.Config{})).Run(t.Context(), hints)
	if got := backend.Class(err); got != "NotFound" {
		t.Errorf("%v has class %q", err, got)
	}
	if !strings.Contains(err.Error(), "backend.ecs.eventQueueURL") {
		t.Errorf("%v does not say where to look", err)
	}
	if len(hints) != 12 || len(q.deleted) != 24 {
		t.Errorf("%d hints, %d deleted", len(hints), len(q.deleted))
	}
}

func TestEventsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queueOf{messages: []string{eventOf("t", identity.StartedBy(eventsNode), "u", 1)}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := New(
			q, "url", identity.StartedBy(eventsNode), task.NewKnown(task.Config{}),
		).Run(ctx, make(chan types.UID)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if len(q.deleted) != 0 {
			t.Error("a hint that nobody took was deleted")
		}
	})
}

func TestErrorsOfTheQueueHaveTheirClass(t *testing.T) {
	for code, want := range map[string]string{
		"QueueDoesNotExist": "NotFound", "AWS.SimpleQueueService.NonExistentQueue": "NotFound", "OverLimit": "Throttled",
		"RequestThrottled": "Throttled", "AccessDenied": "Denied", "KmsAccessDenied": "Denied",
	} {
		if got := backend.Class(classifyQueue(&smithy.GenericAPIError{Code: code})); got != want {
			t.Errorf("%s: %s, want %s", code, got, want)
		}
	}
}
