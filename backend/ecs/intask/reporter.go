package intask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// When readiness is told.
const (
	// readyPoll is how often the supervisors' files are read.
	readyPoll = 250 * time.Millisecond
	// readyRepeat is when a change is told again: whoever reads the queue may not have
	// known the task yet.
	readyRepeat = 15 * time.Second
	// readySnapshot is how often it is told unchanged.
	readySnapshot = 5 * time.Minute
	// readyRetry and readyRetryMost bound the pause after a failure, which doubles.
	readyRetry     = time.Second
	readyRetryMost = 5 * time.Minute
)

// reporter tells burstlet how containers are, by the queue that it reads: what ECS shows of
// health checks is published every 20 s and seen later, and it does not tell the words of an end.
type reporter struct {
	task       Task
	queue, key string
	arn        string
	// last is what was told last, seq the number of that.
	last sight
	seq  int64
	// due is when to tell next though nothing changed; repeat is true for a change that is
	// told once more.
	due    time.Time
	repeat bool
	pause  time.Duration
	said   string
}

// sight is how containers are, by name.
type sight struct {
	ready map[string]*bool
	lives map[string]Life
}

func (s sight) equal(o sight) bool {
	return maps.EqualFunc(s.ready, o.ready, func(a, b *bool) bool { return a == b || a != nil && b != nil && *a == *b }) &&
		maps.EqualFunc(s.lives, o.lives, Life.equal)
}

// report tells how the containers of EnvReportOf and EnvReportLives are until ctx ends, and a
// last time then. Without a queue or a key there is nothing to tell.
func (t Task) report(ctx context.Context) {
	r := &reporter{
		task: t, queue: t.Env(EnvReportQueue), key: t.Env(EnvReportKey),
		last: sight{ready: map[string]*bool{}, lives: map[string]Life{}},
	}
	for _, name := range namesOf(t.Env(EnvReportOf)) {
		r.last.ready[name] = nil
	}
	for _, name := range namesOf(t.Env(EnvReportLives)) {
		r.last.lives[name] = Life{}
	}
	if r.queue == "" || r.key == "" || len(r.last.ready)+len(r.last.lives) == 0 {
		return
	}
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		r.look(ctx, time.Now())
		select {
		case <-ctx.Done():
			r.pause = 0
			r.look(context.WithoutCancel(ctx), time.Now()) // each call has its bound
			return
		case <-ticker.C:
		}
	}
}

func namesOf(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// look reads how the containers are, and tells it where that is due.
func (r *reporter) look(ctx context.Context, now time.Time) {
	seen := sight{ready: map[string]*bool{}, lives: map[string]Life{}}
	for name, before := range r.last.ready {
		seen.ready[name] = r.task.verdict(name, before)
	}
	for name, before := range r.last.lives {
		seen.lives[name] = r.task.life(name, before)
	}
	changed := !seen.equal(r.last)
	if r.pause > 0 && now.Before(r.due) || !changed && (r.due.IsZero() || now.Before(r.due)) {
		return
	}
	err := r.tell(ctx, seen, now)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.pause = min(max(2*r.pause, readyRetry), readyRetryMost)
		r.due = now.Add(r.pause)
		r.say(err)
	default:
		r.last, r.pause, r.said = seen, 0, ""
		r.repeat = changed
		r.due = now.Add(readySnapshot)
		if r.repeat {
			r.due = now.Add(readyRepeat)
		}
	}
}

// say logs what is wrong, once.
func (r *reporter) say(err error) {
	if text := err.Error(); text != r.said {
		r.said = text
		r.task.Log.Printf("readiness and ends of containers are seen late: %s", text)
	}
}

// verdict is what a container's supervisor says of it; nil while it has found nothing. One
// that was judged before and is not now has been started again.
func (t Task) verdict(name string, before *bool) *bool {
	b, err := os.ReadFile(filepath.Join(t.runDir(), name, healthFile))
	text := string(b)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return before
	case err == nil && text == healthy:
		return new(true)
	case before == nil && (err != nil || slices.Contains(pendingTexts, text)):
		return nil
	}
	return new(false)
}

// tell sends one message.
func (r *reporter) tell(ctx context.Context, seen sight, now time.Time) error {
	if r.arn == "" {
		var task struct{ TaskARN string }
		if err := r.task.getJSON(ctx, r.task.Env(envMetadata)+"/task", &task); err != nil {
			return fmt.Errorf("read the task's metadata: %w", err)
		}
		r.arn = task.TaskARN
	}
	r.seq = max(r.seq+1, now.UnixMilli()) // it grows though the agent were started again
	body, err := Readiness{Task: r.arn, Seq: r.seq, Ready: seen.ready, Lives: seen.lives}.Sign(r.key)
	if err != nil {
		return err
	}
	return r.task.sendMessage(ctx, r.queue, body)
}

// sendMessage is SQS API, SendMessage.
func (t Task) sendMessage(ctx context.Context, queue, text string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, status, err := t.callService(ctx, service{"sqs", "1.0", "AmazonSQS.SendMessage"},
		map[string]string{"QueueUrl": queue, "MessageBody": text})
	if err != nil {
		return fmt.Errorf("send to queue: %w", err)
	}
	if status != http.StatusOK {
		var why struct {
			Type string `json:"__type"`
		}
		_ = json.Unmarshal(answer, &why) // what cannot be read is told by its status
		return fmt.Errorf("send to queue %s: status %d: %s (the task's role needs sqs:SendMessage on it)",
			queue, status, why.Type)
	}
	return nil
}
