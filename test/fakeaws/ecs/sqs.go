package ecs

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of SQS (API reference, ReceiveMessage, DeleteMessageBatch; developer
// guide, "Message visibility timeout" and "Queue attributes").
const (
	maxReceive         = 10
	maxWait            = 20
	maxVisibility      = 43200
	standardVisibility = 30
	maxBatchID         = 80
	retention          = 4 * 24 * time.Hour
)

// queue is an SQS standard queue.
type queue struct {
	name     string
	serial   int
	messages []*message // by when they were sent
}

// message is an event of a task, or has a body of its own.
type message struct {
	id            string
	task          *task
	at            time.Duration
	body          string
	sent, visible time.Time
	first         time.Time
	receives      int
}

func (m *message) handle() string { return m.id + "." + strconv.Itoa(m.receives) }

func (s *Server) sqsActions() map[string]handler {
	return map[string]handler{
		"GetQueueUrl":                  s.getQueueURL,
		"GetQueueAttributes":           s.getQueueAttributes,
		"ReceiveMessage":               s.receiveMessage,
		"SendMessage":                  s.sendMessage,
		"DeleteMessage":                s.deleteMessage,
		"DeleteMessageBatch":           s.deleteMessageBatch,
		"ChangeMessageVisibility":      s.changeVisibility,
		"ChangeMessageVisibilityBatch": s.changeVisibilityBatch,
	}
}

// QueueURL is the address of a queue.
func (s *Server) QueueURL(name string) string {
	return fmt.Sprintf("https://sqs.%s.amazonaws.com/%s/%s", s.cfg.Region, s.cfg.Account, name)
}

// queue finds one by URL, and asks for the right to use it.
func (s *Server) queue(url *string, action string) (*queue, *apiError) {
	name := value(url)
	name = name[strings.LastIndex(name, "/")+1:]
	if e := s.authorize("sqs:"+action, s.arnOf("sqs", name)); e != nil {
		return nil, e
	}
	q := s.queues[name]
	if q == nil || s.QueueURL(name) != *url {
		return nil, failf("QueueDoesNotExist", "The specified queue does not exist.")
	}
	return q, nil
}

func (s *Server) getQueueURL(c *request) (any, *apiError) {
	var in struct {
		QueueName *string `json:"QueueName"`
		Owner     *string `json:"QueueOwnerAWSAccountId"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	url := s.QueueURL(value(in.QueueName))
	if _, e := s.queue(&url, c.action); e != nil {
		return nil, e
	}
	return map[string]any{"QueueUrl": url}, nil
}

func (s *Server) getQueueAttributes(c *request) (any, *apiError) {
	var in struct {
		QueueURL *string  `json:"QueueUrl"`
		Names    []string `json:"AttributeNames"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	q, e := s.queue(in.QueueURL, c.action)
	if e != nil {
		return nil, e
	}
	q.expire(c.now)
	visible, hidden, delayed := 0, 0, 0
	for _, m := range q.messages {
		switch {
		case m.sent.After(c.now):
			delayed++
		case m.visible.After(c.now):
			hidden++
		default:
			visible++
		}
	}
	all := map[string]string{
		"QueueArn": s.arnOf("sqs", q.name), "VisibilityTimeout": strconv.Itoa(standardVisibility),
		"MessageRetentionPeriod": strconv.Itoa(int(retention / time.Second)), "ReceiveMessageWaitTimeSeconds": "0",
		"ApproximateNumberOfMessages": strconv.Itoa(visible), "ApproximateNumberOfMessagesNotVisible": strconv.Itoa(hidden),
		"ApproximateNumberOfMessagesDelayed": strconv.Itoa(delayed),
	}
	out := map[string]string{}
	for _, n := range in.Names {
		v, ok := all[n]
		switch {
		case n == "All":
			out = all
		case ok:
			out[n] = v
		default:
			return nil, failf("InvalidAttributeName", "Unknown Attribute %s.", n)
		}
	}
	return map[string]any{"Attributes": out}, nil
}

type receiveInput struct {
	QueueURL          *string  `json:"QueueUrl"`
	Max               *int32   `json:"MaxNumberOfMessages"`
	Wait              *int32   `json:"WaitTimeSeconds"`
	Visibility        *int32   `json:"VisibilityTimeout"`
	AttributeNames    []string `json:"AttributeNames"`
	SystemNames       []string `json:"MessageSystemAttributeNames"`
	MessageAttributes []string `json:"MessageAttributeNames"`
	AttemptID         *string  `json:"ReceiveRequestAttemptId"`
}

// receiveMessage is SQS API, ReceiveMessage: with WaitTimeSeconds it waits for a
// message; one received is hidden for the visibility timeout.
func (s *Server) receiveMessage(c *request) (any, *apiError) {
	var in receiveInput
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	q, e := s.queue(in.QueueURL, c.action)
	if e != nil {
		return nil, e
	}
	most, wait, hide, e := in.bounds()
	if e != nil {
		return nil, e
	}
	q.expire(c.now)
	names := append(in.AttributeNames, in.SystemNames...)
	out := []any{}
	next := c.arrived.Add(time.Duration(wait) * time.Second)
	deadline := !c.now.Before(next)
	for _, plans := range []agenda{s.events, s.reports} {
		if len(plans) > 0 && plans[0].at.Before(next) {
			next = plans[0].at
		}
	}
	for _, m := range q.messages {
		switch {
		case len(out) == int(most):
		case !m.visible.After(c.now):
			m.received(c.now, time.Duration(hide)*time.Second)
			out = append(out, s.messageView(m, names))
		case m.visible.Before(next):
			next = m.visible
		}
	}
	switch {
	case len(out) > 0:
		return map[string]any{"Messages": out}, nil
	case deadline:
		return map[string]any{}, nil
	}
	return waitUntil(next), nil
}

// bounds are how many messages a request wants, and for how long, in seconds, it
// waits for them and hides them.
func (in *receiveInput) bounds() (most, wait, hide int32, e *apiError) {
	most, wait, hide = or(in.Max, 1), value(in.Wait), or(in.Visibility, standardVisibility)
	if most < 1 || most > maxReceive || wait < 0 || wait > maxWait || hide < 0 || hide > maxVisibility {
		e = failf(
			"InvalidParameterValue", "Value for parameter MaxNumberOfMessages, WaitTimeSeconds or VisibilityTimeout is invalid.",
		)
	}
	return most, wait, hide, e
}

// received hides a message for a time.
func (m *message) received(now time.Time, hide time.Duration) {
	m.receives++
	m.visible = now.Add(hide)
	if m.first.IsZero() {
		m.first = now
	}
}

// messageView is SQS API, Message.
func (s *Server) messageView(m *message, names []string) map[string]any {
	body := m.body
	if m.task != nil {
		body = s.envelope(m.task, m.at)
	}
	v := map[string]any{"MessageId": m.id[:32], "ReceiptHandle": m.handle(), "Body": body, "MD5OfBody": md5Of(body)}
	all := map[string]string{
		"SentTimestamp": strconv.FormatInt(m.sent.UnixMilli(), 10), "ApproximateReceiveCount": strconv.Itoa(m.receives),
		"ApproximateFirstReceiveTimestamp": strconv.FormatInt(m.first.UnixMilli(), 10),
	}
	attributes := map[string]string{}
	for k, val := range all {
		if slices.Contains(names, k) || slices.Contains(names, "All") {
			attributes[k] = val
		}
	}
	if len(attributes) > 0 {
		v["Attributes"] = attributes
	}
	return v
}

func md5Of(body string) string {
	sum := md5.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}

// expire drops messages older than the retention period.
func (q *queue) expire(now time.Time) {
	i := 0
	for i < len(q.messages) && now.Sub(q.messages[i].sent) > retention {
		i++
	}
	q.messages = slices.Delete(q.messages, 0, i)
}

// find is the message of a receipt handle, which is good until it is received
// again; -1 for none, which may have been deleted before.
func (q *queue) find(handle string) (int, *apiError) {
	id, n, ok := strings.Cut(handle, ".")
	if _, err := strconv.Atoi(n); !ok || err != nil || len(id) != 64 {
		return -1, failf("ReceiptHandleIsInvalid", "The input receipt handle is invalid.")
	}
	return slices.IndexFunc(q.messages, func(m *message) bool { return m.id == id && m.handle() == handle }), nil
}
