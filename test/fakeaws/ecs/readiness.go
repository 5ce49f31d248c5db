package ecs

import (
	"cmp"
	"container/heap"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// The helper's agent tells a queue which of its task's containers are ready, and how others
// ended, where these variables say so. Where containers really run, they do it themselves.
const (
	reportQueueEnv = "BURSTLET_REPORT_QUEUE"
	reportOfEnv    = "BURSTLET_REPORT_CONTAINERS"
	superviseEnv   = "BURSTLET_SUPERVISE"
	reportLivesEnv = "BURSTLET_REPORT_LIVES"
	reportKeyEnv   = "BURSTLET_REPORT_KEY"
)

// When it tells: soon after a change, once more, and then unchanged.
const (
	reportPoll     = 250 * time.Millisecond
	reportRepeat   = 15 * time.Second
	reportSnapshot = 5 * time.Minute
)

// reporter is the agent of a task, as far as it tells.
type reporter struct {
	queue, key string
	of, lives  []string
	agent      int // its container
	// last is when it told last, seq how often, changed whether that was a change; never
	// before the first.
	last    time.Duration
	seq     int
	changed bool
	planned time.Duration
}

// reporterOf is that of a task whose containers are read from their commands; nil where
// there is none.
func reporterOf(t *task) *reporter {
	if t.driver != nil {
		return nil
	}
	for i := range t.def.ContainerDefinitions {
		env := func(name string) string { return envOf(t.def, t.ov, i, name) }
		r := &reporter{queue: env(reportQueueEnv), key: env(reportKeyEnv), agent: i, last: -1, planned: never}
		if r.queue != "" && r.key != "" && isHelper(argv(&t.def.ContainerDefinitions[i], t.ov), "agent") {
			comma := func(r rune) bool { return r == ',' }
			r.of, r.lives = strings.FieldsFunc(env(reportOfEnv), comma), strings.FieldsFunc(env(reportLivesEnv), comma)
			return r
		}
	}
	return nil
}

// verdict is what a container's supervisor has found by then; nil: nothing yet.
func (t *task) verdict(name string, at time.Duration) *bool {
	i := t.def.index(name)
	if i < 0 {
		return nil
	}
	c := &t.life.containers[i]
	if !c.ran() || at < c.start {
		return nil
	}
	ready := c.does == nil || len(c.does.phases) == 0
	judged := ready
	if c.does != nil {
		for _, p := range c.does.phases {
			if sum(c.start, p.from) <= at {
				ready = p.healthy
				judged = judged || ready
			}
		}
	}
	if !judged {
		return nil
	}
	return new(ready && at < c.end)
}

// changes are when the agent of a task sees another verdict of a container, in any order.
func (r *reporter) changes(t *task, name string) []time.Duration {
	i := t.def.index(name)
	if i < 0 || !t.life.containers[i].ran() {
		return nil
	}
	c := &t.life.containers[i]
	if c.does == nil || len(c.does.phases) == 0 {
		return []time.Duration{c.start, c.end}
	}
	out := []time.Duration{c.end}
	for _, p := range c.does.phases {
		if p.healthy || r.seq > 0 { // before, it has found nothing
			out = append(out, sum(c.start, p.from))
		}
	}
	return out
}

// supervised is a container under the helper's supervisor that ran; nil: it did not.
func (t *task) supervised(name string) *containerLife {
	if i := t.def.index(name); i >= 0 && t.life.containers[i].ran() && t.life.containers[i].supervised {
		return &t.life.containers[i]
	}
	return nil
}

// tellsEnd is true if a container's supervisor says how it ended: it does not where it was
// killed too, and one that writes a report of its own tells nobody else.
func (c *containerLife) tellsEnd() bool {
	return c.end != never && !c.lost && !c.does.oom && !c.does.reports()
}

// lifeOf is what a container's supervisor has said by then of how it ended.
func (t *task) lifeOf(name string, at time.Duration) map[string]any {
	c := t.supervised(name)
	if c == nil || at < c.end || !c.tellsEnd() {
		return map[string]any{}
	}
	spec := envOf(t.def, t.ov, t.def.index(name), superviseEnv)
	return map[string]any{
		"started": t.created.Add(c.start),
		"ended": map[string]any{"at": t.created.Add(c.end), "exit": c.exit, "report": map[string]any{
			"exit": c.exit, "fromLogs": c.exit != 0 && strings.Contains(spec, `"messageFromLogs":true`),
		}},
	}
}

// reportsDue plans what the agent of a task tells next.
func (s *Server) reportsDue(t *task) {
	r := t.reporter
	if r == nil {
		return
	}
	agent := &t.life.containers[r.agent]
	next := never
	change := func(at time.Duration) {
		if at > agent.end {
			return
		}
		at = sum(max(at, agent.start), reportPoll)
		if !agent.lost {
			at = min(at, agent.end) // it looks a last time
		}
		if at > r.last {
			next = min(next, at)
		}
	}
	for _, name := range r.of {
		for _, at := range r.changes(t, name) {
			change(at)
		}
	}
	for _, name := range r.lives {
		if c := t.supervised(name); c != nil && c.tellsEnd() {
			change(c.end)
		}
	}
	next = min(next, r.repeats())
	if !agent.ran() || next > agent.end || next == agent.end && agent.lost {
		next = never
	}
	if r.planned = next; next != never {
		heap.Push(&s.reports, dueEvent{t.created.Add(next), t})
	}
}

// repeats is when it tells again what it has told, unless that changes before.
func (r *reporter) repeats() time.Duration {
	switch {
	case r.seq == 0:
		return never
	case r.changed:
		return r.last + reportRepeat
	}
	return r.last + reportSnapshot
}

// report puts what agents have told by now into their queues.
func (s *Server) report(now time.Time) {
	for len(s.reports) > 0 && !s.reports[0].at.After(now) {
		e, _ := heap.Pop(&s.reports).(dueEvent)
		r := e.task.reporter
		if at := r.planned; at != never && e.task.created.Add(at).Equal(e.at) {
			s.tellReadiness(e.task, at)
			s.reportsDue(e.task)
		}
	}
}

// tellReadiness is one message, if the task's role may send it.
func (s *Server) tellReadiness(t *task, at time.Duration) {
	r := t.reporter
	ready, lives, text := map[string]*bool{}, map[string]any{}, ""
	for _, name := range r.of {
		ready[name] = t.verdict(name, at)
	}
	for _, name := range r.lives {
		lives[name] = t.lifeOf(name, at)
	}
	r.changed = at != r.last+reportRepeat && at != r.last+reportSnapshot
	r.last = at
	r.seq++
	b, err := json.Marshal(map[string]any{"task": t.arn, "seq": r.seq, "ready": ready, "lives": lives})
	if err != nil { // our own types
		panic(err)
	}
	text = string(b)
	mac := hmac.New(sha256.New, []byte(r.key))
	mac.Write([]byte("readiness\x00" + text))
	body, err := json.Marshal(map[string]string{
		"burstletReadiness": text, "mac": base64.RawURLEncoding.EncodeToString(mac.Sum(nil)),
	})
	if err != nil {
		panic(err)
	}
	name := r.queue[strings.LastIndex(r.queue, "/")+1:]
	q := s.queues[name]
	if !s.allowed(TaskRole, "sqs:SendMessage", s.arnOf("sqs", name)) || q == nil || t.role() == "" {
		return
	}
	sent := t.created.Add(at)
	q.add(&message{body: string(body), sent: sent, visible: sent})
	s.wake()
}

// maxMessage is the longest message, in bytes (SQS API, SendMessage: MessageBody).
const maxMessage = 1 << 20

// sendMessage is SQS API, SendMessage.
func (s *Server) sendMessage(c *request) (any, *apiError) {
	var in struct {
		QueueURL *string `json:"QueueUrl"`
		Body     *string `json:"MessageBody"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	q, e := s.queue(in.QueueURL, c.action)
	if e != nil {
		return nil, e
	}
	switch body := value(in.Body); {
	case body == "":
		return nil, failf("MissingParameter", "The request must contain the parameter MessageBody.")
	case len(body) > maxMessage:
		return nil, failf("InvalidParameterValue",
			"One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", maxMessage)
	}
	m := &message{body: *in.Body, sent: c.now, visible: c.now}
	q.add(m)
	s.wake()
	return map[string]any{"MessageId": m.id[:32], "MD5OfMessageBody": md5Of(m.body)}, nil
}

// healthPublished is how often the health of containers is sent to ECS (amazon-ecs-agent,
// ecs-agent/tcs/client/client.go: defaultPublishMetricsInterval), healthLate how long after
// that DescribeTasks shows it: undocumented (containers-roadmap 849: it is asynchronous).
const (
	healthPublished = 20 * time.Second
	healthLate      = 2 * time.Second
)

// healthOf is the health of a container as it is shown at a time: as it was sent to ECS last.
// Of a container that has ended nothing is sent any more, so that its last change may never be
// seen (amazon-ecs-agent, agent/stats/engine.go: getTaskHealthUnsafe).
func (c *Config) healthOf(l *containerLife, at time.Duration) string {
	if c.Kindness.HealthAtOnce {
		return l.status(at)
	}
	every := cmp.Or(c.Observed.HealthEvery, healthPublished)
	sent := max(0, at-healthLate) / every * every
	if l.end <= sent {
		sent = max(0, l.end-1) / every * every
	}
	return l.status(sent)
}
