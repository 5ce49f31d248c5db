package taskevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/containerd/log"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask"
	"github.com/burstlet/burstlet/backend/ecs/task"
)

// QueueAPI are the calls to SQS that are used.
type QueueAPI interface {
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(
		context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options),
	) (*sqs.DeleteMessageBatchOutput, error)
}

// Events is [backend.Events] on a queue that an EventBridge rule fills with "ECS Task
// State Change" events. The queue is this node's alone, and the rule has its
// startedBy (deploy/aws/README.md): SQS gives a message to one reader, so nodes on
// one queue would take each other's hints. Every message is deleted once read,
// whatever it is: what is missed here a listing finds. The burstlet-agents of the node's
// tasks tell on the same queue which of their containers are ready.
type Events struct {
	api       QueueAPI
	url       string
	startedBy string
	// known hears what is told: what ECS hints at it reads anew.
	known *task.Known

	mu sync.Mutex
	// versions are the newest seen of tasks, and when: events are repeated and come
	// in any order.
	versions map[string]taskVersion
	// said is what was logged already.
	said map[string]bool
}

type taskVersion struct {
	version int64
	seen    time.Time
}

// Numbers of reading the queue (SQS API, ReceiveMessage; long polling waits for up
// to 20 seconds and costs no more than one call).
const (
	receiveWait  = 20
	receiveBatch = 10
	// versionMemory is how long the version of a task is remembered after its last
	// event, well beyond the lag of events.
	versionMemory = time.Hour
	// maxVersions is when old ones are looked for.
	maxVersions = 4096
)

// New makes Events of the node whose tasks have that startedBy.
func New(api QueueAPI, url, startedBy string, known *task.Known) *Events {
	return &Events{
		api: api, url: url, startedBy: startedBy, known: known, versions: map[string]taskVersion{}, said: map[string]bool{},
	}
}

// Run implements [backend.Events].
func (e *Events) Run(ctx context.Context, hints chan<- ktypes.UID) error {
	e.once("started", func() {
		log.G(ctx).WithField("queue", e.url).WithField("startedBy", e.startedBy).Info("reading task events")
	})
	for {
		out, err := e.api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &e.url, WaitTimeSeconds: receiveWait, MaxNumberOfMessages: receiveBatch,
		})
		if err != nil {
			return fmt.Errorf("receive task events: %w", classifyQueue(err))
		}
		for _, m := range out.Messages {
			uid, ok := e.Read(ctx, aws.ToString(m.Body))
			if !ok {
				continue
			}
			select {
			case hints <- uid:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := e.done(ctx, out.Messages); err != nil {
			return err
		}
	}
}

// done deletes messages. One that stays comes again, which harms nothing.
func (e *Events) done(ctx context.Context, messages []sqstypes.Message) error {
	if len(messages) == 0 {
		return nil
	}
	in := &sqs.DeleteMessageBatchInput{QueueUrl: &e.url}
	for _, m := range messages {
		in.Entries = append(in.Entries, sqstypes.DeleteMessageBatchRequestEntry{
			Id: aws.String(fmt.Sprint(len(in.Entries))), ReceiptHandle: m.ReceiptHandle,
		})
	}
	if _, err := e.api.DeleteMessageBatch(ctx, in); err != nil {
		return fmt.Errorf("delete task events: %w", classifyQueue(err))
	}
	return nil
}

// taskEvent is what is read of an event (ECS developer guide, "Task state change
// events").
type taskEvent struct {
	DetailType string `json:"detail-type"`
	Source     string `json:"source"`
	Detail     struct {
		TaskArn   string `json:"taskArn"`
		StartedBy string `json:"startedBy"`
		Version   int64  `json:"version"`
		Overrides struct {
			ContainerOverrides []struct {
				Environment []struct {
					Name  string `json:"name"`
					Value string `json:"value"`
				} `json:"environment"`
			} `json:"containerOverrides"`
		} `json:"overrides"`
	} `json:"detail"`
}

// Read is the pod that a message is about, if it is one of this node's and says
// something new.
func (e *Events) Read(ctx context.Context, body string) (ktypes.UID, bool) {
	if said, verify, ok := intask.ReadReadiness(body); ok {
		return e.told(ctx, said, verify)
	}
	var ev taskEvent
	if err := json.Unmarshal([]byte(body), &ev); err != nil || ev.Source != "aws.ecs" || ev.Detail.TaskArn == "" {
		e.warn(ctx, "foreign", "the queue of task events brings messages of other kinds: they are deleted")
		return "", false
	}
	if ev.Detail.StartedBy != e.startedBy {
		if strings.HasPrefix(ev.Detail.StartedBy, identity.StartedByRoot) {
			e.warn(
				ctx, "shared",
				"the queue of task events brings those of other nodes, which are deleted: each node needs a queue of its own, "+
					"and a rule with its startedBy, "+
					e.startedBy,
			)
		}
		return "", false
	}
	uid := ev.uid()
	if uid == "" || !e.isNew(ev.Detail.TaskArn, ev.Detail.Version, time.Now()) {
		return "", false
	}
	e.known.Hinted(uid)
	return uid, true
}

// told is the pod whose burstlet-agent tells something new.
func (e *Events) told(ctx context.Context, said intask.Readiness, verify func(string) error) (ktypes.UID, bool) {
	uid, isNew, err := e.known.Told(said, verify, time.Now())
	if err != nil {
		e.warn(ctx, "forged", "the queue of task events brings what a task did not write, which is deleted: somebody "+
			"else has "+
			"sqs:SendMessage on it")
	}
	return uid, isNew
}

// uid is that of the pod whose identity the task has.
func (ev taskEvent) uid() ktypes.UID {
	for _, c := range ev.Detail.Overrides.ContainerOverrides {
		for _, kv := range c.Environment {
			var id identity.Task
			if kv.Name == identity.Env && json.Unmarshal([]byte(kv.Value), &id) == nil {
				return id.UID
			}
		}
	}
	return ""
}

func (e *Events) isNew(arn string, version int64, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	was, known := e.versions[arn]
	if known && version <= was.version {
		return false
	}
	if len(e.versions) >= maxVersions {
		for other, v := range e.versions {
			if now.Sub(v.seen) >= versionMemory {
				delete(e.versions, other)
			}
		}
	}
	e.versions[arn] = taskVersion{version, now}
	return true
}

// warn says something once; never what a message holds.
func (e *Events) warn(ctx context.Context, kind, text string) {
	e.once(kind, func() { log.G(ctx).WithField("queue", e.url).Warn(text) })
}

func (e *Events) once(what string, say func()) {
	e.mu.Lock()
	first := !e.said[what]
	e.said[what] = true
	e.mu.Unlock()
	if first {
		say()
	}
}

// classifyQueue gives errors of SQS their class (SQS API, ReceiveMessage: Errors).
func classifyQueue(err error) error {
	var class error
	switch {
	case awscall.IsCode(err, "QueueDoesNotExist"), awscall.IsCode(err, "AWS.SimpleQueueService.NonExistentQueue"):
		return backend.Errorf(backend.ErrNotFound, "%w: correct backend.ecs.eventQueueURL", err)
	case awscall.IsCode(err, "OverLimit"), awscall.IsCode(err, "RequestThrottled"):
		class = backend.ErrThrottled
	case awscall.IsCode(err, "KmsAccessDenied"), awscall.IsCode(err, "InvalidSecurity"):
		class = backend.ErrDenied
	case errors.Is(err, context.Canceled):
		return err
	default:
		return awscall.Classify(err)
	}
	return backend.Classed(class, err)
}
