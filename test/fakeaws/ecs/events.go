package ecs

import (
	"container/heap"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"
)

// dueEvent is when a task has its next event, as far as was known when it was
// planned.
type dueEvent struct {
	at   time.Time
	task *task
}

// agenda is a heap of planned events, the earliest first.
type agenda []dueEvent

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a agenda) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }

// Push is heap.Interface's.
func (a *agenda) Push(x any) {
	//nolint:forcetypeassert // heap.Push below is the only caller
	*a = append(*a, x.(dueEvent))
}

// Pop is heap.Interface's.
func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	old[len(old)-1] = dueEvent{}
	*a = old[:len(old)-1]
	return last
}

// eventsDue plans the events of a task whose life was derived.
func (s *Server) eventsDue(t *task) {
	if len(s.queues) == 0 {
		return
	}
	t.changes = t.life.changes()
	s.plan(t)
	if t.reporter == nil {
		t.reporter = reporterOf(t)
	}
	s.reportsDue(t)
}

// plan puts the next event of a task on the agenda.
func (s *Server) plan(t *task) {
	if at := t.nextChange(); at != never {
		heap.Push(&s.events, dueEvent{t.created.Add(at), t})
	}
}

// nextChange is the first change that was not told.
func (t *task) nextChange() time.Duration {
	for _, at := range t.changes {
		if at > t.told {
			return at
		}
	}
	return never
}

// pump sends the events of all changes up to now (ECS developer guide, "Amazon ECS
// task state change events": on every change of a task or one of its containers).
func (s *Server) pump(now time.Time) {
	for len(s.events) > 0 && !s.events[0].at.After(now) {
		e, _ := heap.Pop(&s.events).(dueEvent)
		// A plan from before the task was acted on does not hold any more.
		if at := e.task.nextChange(); at != never && e.task.created.Add(at).Equal(e.at) {
			s.tell(e.task, at)
			e.task.told = at
			s.plan(e.task)
		}
	}
}

// tell puts an event into the queues (EventBridge user guide: at least once, in no
// order).
func (s *Server) tell(t *task, at time.Duration) {
	n := chance(t.arn, at)
	f := s.cfg.Events
	if f.Lose > 0 && n%uint64(f.Lose) == 1%uint64(f.Lose) {
		return
	}
	copies := uint64(1)
	if f.Double > 0 && n%uint64(f.Double) == 0 {
		copies = 2
	}
	for k := range copies {
		delay := s.cfg.Delays.Event
		if f.Jitter > 0 {
			delay += time.Duration((n >> 8 * (k + 1)) % uint64(f.Jitter))
		}
		sent := t.created.Add(at).Add(delay)
		for _, q := range s.queues {
			q.add(&message{task: t, at: at, sent: sent, visible: sent})
		}
	}
	s.wake()
}

// chance is a number that depends on what it is asked for alone.
func chance(arn string, at time.Duration) uint64 {
	return binary.BigEndian.Uint64([]byte(digest(arn + at.String()))[:8])
}

// envelope is an event as EventBridge sends it to SQS (ECS developer guide,
// "Amazon ECS task state change events"): like a task of DescribeTasks, with times
// as text, an interface's type eni, and no health.
func (s *Server) envelope(t *task, at time.Duration) string {
	when := t.created.Add(at)
	b, err := json.Marshal(s.view(t, when, false))
	if err != nil { // our own type
		panic(err)
	}
	var detail map[string]any
	if err := json.Unmarshal(b, &detail); err != nil {
		panic(err)
	}
	for k, v := range detail {
		if ms, ok := v.(float64); ok && strings.HasSuffix(k, "At") {
			detail[k] = iso(time.UnixMilli(int64(math.Round(ms * 1000))))
		}
	}
	delete(detail, "healthStatus")
	delete(detail, "tags")
	detail["updatedAt"] = iso(when)
	attachments, _ := detail["attachments"].([]any)
	for _, a := range attachments {
		if a, ok := a.(map[string]any); ok && a["type"] == "ElasticNetworkInterface" {
			a["type"] = "eni"
		}
	}
	containers, _ := detail["containers"].([]any)
	for _, c := range containers {
		if c, ok := c.(map[string]any); ok {
			delete(c, "healthStatus")
		}
	}
	id := digest(t.arn + at.String())
	b, err = json.Marshal(map[string]any{
		"version": "0", "id": strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:32]}, "-"),
		"detail-type": "ECS Task State Change", "source": "aws.ecs", "account": s.cfg.Account,
		"time":   when.UTC().Format(time.RFC3339),
		"region": s.cfg.Region, "resources": []string{t.arn}, "detail": detail,
	})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func iso(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Send puts a message of a test's own into a queue.
func (s *Server) Send(queueName, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[queueName]; q != nil {
		now := time.Now()
		q.add(&message{body: body, sent: now, visible: now})
		s.wake()
	}
}

// add inserts by the time it is sent.
func (q *queue) add(m *message) {
	q.serial++
	m.id = digest(q.name + string(rune(q.serial)) + m.sent.String())
	i := len(q.messages)
	for i > 0 && q.messages[i-1].sent.After(m.sent) {
		i--
	}
	q.messages = slices.Insert(q.messages, i, m)
}
