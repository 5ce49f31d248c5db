package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	ecstypes "github.com/aws/aws-sdk-go-v2/service/ecs/types"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/task"
)

// tasks are those of a node, with AWS's clock ahead of this machine's.
type tasks struct {
	ahead     time.Duration
	inspected int
	err       error
}

func (f *tasks) Inspect(context.Context, []ktypes.UID) ([]backend.PodFacts, error) {
	f.inspected++
	return nil, f.err
}

func (f *tasks) List(context.Context) ([]backend.PodFacts, error) { return nil, f.err }

func (f *tasks) Local(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.Add(-f.ahead)
}

const report = "\x1eburstlet {\"exit\":1,\"message\":\"why\"}\n"

var app = backend.ContainerRef{Pod: backend.Ref{Namespace: "ns", Name: "pod", UID: "uid"}, Name: "app"}

// known is a task with the container app, which ended a while ago.
func known(status string, ended time.Time) *task.Known {
	m, begun := task.NewKnown(task.Config{Settle: time.Minute, Logs: true}), ended.Add(-time.Hour)
	at := func(at *time.Time) time.Time { return aws.ToTime(at) }
	id := identity.Task{UID: "uid", Containers: []identity.Container{{Name: "app", Supervised: true, Fallback: true}}}
	t := ecstypes.Task{
		TaskArn: aws.String("arn"), LastStatus: &status, DesiredStatus: &status, CreatedAt: &begun, StartedAt: &begun,
		Containers: []ecstypes.Container{{Name: aws.String("app"), LastStatus: &status}},
	}
	if status == "STOPPED" {
		t.Containers[0].ExitCode, t.ExecutionStoppedAt, t.StoppedAt = aws.Int32(1), &ended, &ended
	}
	m.Observed(task.Observe(id, t, at, time.Now()))
	return m
}

func reading(api API, f *tasks, opts backend.LogOptions) (*logReader, *strings.Builder, func()) {
	pr, pw := io.Pipe()
	var out strings.Builder
	done := make(chan struct{})
	go func() { defer close(done); _, _ = io.Copy(&out, pr) }()
	l := New(api, "", "g", known("STOPPED", time.Now().Add(-time.Hour)), f)
	r := &logReader{logs: l, ref: app, opts: opts, out: pw, left: -1, stream: "s"}
	if opts.LimitBytes != nil {
		r.left = *opts.LimitBytes
	}
	return r, &out, func() { _ = pw.Close(); <-done }
}

// kubectl logs --tail shows so many lines of the container, whatever the pages are: empty
// ones are no end, and the report of the supervisor is none of the container's lines.
func TestTheTailOfALog(t *testing.T) {
	for name, tc := range map[string]struct {
		pages [][]string
		n     int64
		want  string
	}{
		"nothing":                        {nil, 3, ""},
		"none":                           {[][]string{{"a", "b"}}, 0, ""},
		"the last":                       {[][]string{{"a", "b", "c"}}, 1, "c"},
		"of two pages":                   {[][]string{{"a", "b"}, {"c"}}, 2, "b c"},
		"all of two":                     {[][]string{{"a", "b"}, {"c"}}, 3, "a b c"},
		"more than there is":             {[][]string{{"a", "b"}, {"c"}}, 9, "a b c"},
		"whole pages are passed over":    {[][]string{{"a"}, {"b"}, {"c", "d"}}, 1, "d"},
		"the report does not count":      {[][]string{{"a", "b", report}}, 2, "a b"},
		"a page of the report alone":     {[][]string{{"a", "b"}, {report}}, 1, "b"},
		"the last line has no end":       {[][]string{{"a", "b" + report}}, 1, "b"},
		"the last page is empty":         {[][]string{{"a", "b"}, {}}, 1, "b"},
		"empty pages between":            {[][]string{{"a", "b"}, {}, {}, {"c"}}, 3, "a b c"},
		"an empty page before the first": {[][]string{{}, {"a"}}, 2, "a"},
	} {
		r, out, end := reading(&paged{pages: tc.pages}, &tasks{}, backend.LogOptions{Tail: &tc.n})
		first, err := r.begin(t.Context())
		if err == nil {
			err = r.copy(t.Context(), first)
		}
		end()
		if got := strings.Join(strings.Fields(out.String()), " "); err != nil || got != tc.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tc.want)
		}
	}
}

func TestWhatIsShownOfALine(t *testing.T) {
	const hour = time.Hour
	second := func(n int) time.Time { return written.Add(time.Duration(n) * time.Second) }
	for name, tc := range map[string]struct {
		lines []string
		opts  backend.LogOptions
		ahead time.Duration
		want  string
	}{
		"ends of lines are ECS's or ours": {lines: []string{"a", "b\n"}, want: "a\nb\n"},
		"an empty line":                   {lines: []string{""}, want: "\n"},
		"the report":                      {lines: []string{"a", report}, want: "a\n"},
		"with its time": {
			lines: []string{"7"}, opts: backend.LogOptions{Timestamps: true}, want: "1970-01-12T13:46:47.000000000Z 7\n",
		},
		"its time here": {
			lines: []string{"7"}, opts: backend.LogOptions{Timestamps: true}, ahead: hour,
			want: "1970-01-12T12:46:47.000000000Z 7\n",
		},
		"since a line": {
			lines: []string{"1", "2", "3"}, opts: backend.LogOptions{Since: second(2)},
			want: "2\n3\n",
		},
		"since a time here": {
			lines: []string{"1", "2"}, opts: backend.LogOptions{Since: second(2).Add(-hour)},
			ahead: hour, want: "2\n",
		},
		"no bytes": {lines: []string{"a"}, opts: backend.LogOptions{LimitBytes: aws.Int64(0)}},
		"so many bytes": {
			lines: []string{"ab", "cd"}, opts: backend.LogOptions{LimitBytes: aws.Int64(4)},
			want: "ab\nc",
		},
		"more bytes than there are": {
			lines: []string{"ab"}, opts: backend.LogOptions{LimitBytes: aws.Int64(9)}, want: "ab\n",
		},
		"bytes with times": {
			lines: []string{"7"}, opts: backend.LogOptions{Timestamps: true, LimitBytes: aws.Int64(4)}, want: "1970",
		},
	} {
		r, out, end := reading(&paged{pages: [][]string{tc.lines}}, &tasks{ahead: tc.ahead}, tc.opts)
		first, err := r.begin(t.Context())
		if err == nil {
			err = r.copy(t.Context(), first)
		}
		end()
		if err != nil || out.String() != tc.want {
			t.Errorf("%s: %q, %v, want %q", name, out, err, tc.want)
		}
	}
}

// Who follows a log sees an outage as a pause, what is for good at once; who does not
// follow hears of either.
func TestWhichErrorsEndALog(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		follow bool
		ends   bool
	}{
		"throttled": {err: awsError("ThrottlingException", "no"), follow: true},
		"away":      {err: errors.New("connection reset"), follow: true},
		"denied":    {err: awsError("AccessDeniedException", "no"), follow: true, ends: true},
		"never sent": {
			err: backend.Classed(backend.ErrUnavailable, awscall.ErrNotSent), follow: true,
			ends: true,
		},
		"throttled, not followed":   {err: awsError("ThrottlingException", "no"), ends: true},
		"the group is gone":         {err: awsError("ResourceNotFoundException", "log group"), follow: true, ends: true},
		"the stream is not there":   {err: awsError("ResourceNotFoundException", "stream"), follow: true},
		"neither, and not followed": {err: awsError("ResourceNotFoundException", "stream")},
	} {
		synctest.Test(t, func(t *testing.T) {
			api := &paged{pages: [][]string{{"a"}, {"b"}}, errors: []error{nil, tc.err}}
			r, out, end := reading(api, &tasks{}, backend.LogOptions{Follow: tc.follow})
			first, err := r.begin(t.Context())
			if err == nil {
				err = r.copy(t.Context(), first)
			}
			end()
			if (err != nil) != tc.ends {
				t.Errorf("%s: %q, %v", name, out, err)
			}
			if tc.follow && !tc.ends && out.String() != "a\nb\n" {
				t.Errorf("%s: %q", name, out)
			}
		})
	}
}

// Of a container that has ended, what CloudWatch does not show yet is waited for, until the
// end was found or would have to show.
func TestHowLongTheEndOfALogIsWaitedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		status string
		ago    time.Duration
		want   time.Duration
		ended  bool
	}{
		"it runs":           {"RUNNING", 0, 0, false},
		"just ended":        {"STOPPED", 0, 20 * time.Second, true},
		"a while ago":       {"STOPPED", 15 * time.Second, 5 * time.Second, true},
		"long ago":          {"STOPPED", time.Hour, 0, true},
		"found meanwhile":   {"STOPPED", 0, markPoll, true},
		"removed meanwhile": {"", 0, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun, m := time.Now(), task.NewKnown(task.Config{})
			m.Listed(begun, begun)
			if tc.status != "" {
				m = known(tc.status, begun.Add(-tc.ago))
			}
			r := &logReader{logs: New(&paged{}, "", "g", m, &tasks{}), ref: app, stream: "s"}
			if name == "found meanwhile" {
				go func() { m.Marked(task.LogRead{ARN: "arn", Container: "app"}) }()
			}
			ended, err := r.settled(t.Context())
			if took := time.Since(begun); err != nil || ended != tc.ended || took > tc.want || took < tc.want-markPoll {
				t.Errorf("%s: %v, %v after %s, want %s", name, ended, err, took, tc.want)
			}
		})
	}
}

// The task of a log without new lines is looked at, ever less often, and at once again
// after a line.
func TestHowOftenATaskIsLookedAtForItsLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, begun := &tasks{}, time.Now()
		r := &logReader{logs: New(&paged{}, "", "g", known("RUNNING", begun), f), ref: app}
		var at []int
		for range 60 {
			before := f.inspected
			if err := r.inspect(t.Context()); err != nil {
				t.Fatal(err)
			}
			if f.inspected > before {
				at = append(at, int(time.Since(begun).Seconds()))
			}
			if err := sleep(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(at, []int{2, 6, 14, 30, 46}) {
			t.Errorf("after %v s", at)
		}
		for _, tc := range []struct {
			err  error
			ends bool
		}{
			{backend.ErrThrottled, false},
			{backend.ErrUnavailable, false},
			{backend.ErrDenied, true},
			{fmt.Errorf("%w: %w", backend.ErrUnavailable, awscall.ErrNotSent), true},
		} {
			f.err, r.inspectIn = tc.err, 0
			if err := r.inspect(t.Context()); (err != nil) != tc.ends {
				t.Errorf("%v: %v", tc.err, err)
			}
		}
	})
}

func TestWhoseLogIsRead(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*backend.ContainerRef)
		list   error
		listed bool
		want   string
	}{
		"it":                {change: func(*backend.ContainerRef) {}},
		"another container": {change: func(r *backend.ContainerRef) { r.Name = "other" }, want: "no task of it is known"},
		"another attempt":   {change: func(r *backend.ContainerRef) { r.Attempt = 1 }, want: "no task of it is known"},
		"another task":      {change: func(r *backend.ContainerRef) { r.Pod.Attempt = 1 }, want: "no task of it is known"},
		"another pod":       {change: func(r *backend.ContainerRef) { r.Pod.UID = "u" }, want: "no task of it is known"},
		"tasks are not known yet": {
			change: func(r *backend.ContainerRef) { r.Pod.UID = "u" }, list: errors.New("not now"), want: "not now",
		},
		"and need not be asked for": {
			change: func(r *backend.ContainerRef) { r.Pod.UID = "u" }, list: errors.New("not now"), listed: true,
			want: "no task of it is known",
		},
	} {
		m, ref := known("STOPPED", time.Now().Add(-time.Hour)), app
		if tc.change(&ref); tc.listed {
			m.Listed(time.Now(), time.Now())
		}
		l := New(&paged{pages: [][]string{{"a"}}}, "", "g", m, &tasks{err: tc.list})
		r, err := l.Open(t.Context(), ref, backend.LogOptions{})
		if tc.want != "" {
			if err == nil || !strings.HasPrefix(err.Error(), "read the log of container "+ref.Name+" of pod ns/pod: ") ||
				!strings.HasSuffix(err.Error(), tc.want) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, err := io.ReadAll(r)
		if string(text) != "a\n" || err != nil || r.Close() != nil {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// lingering is a stream whose calls end a second after their context.
type lingering struct {
	paged
	under atomic.Int32
}

func (l *lingering) GetLogEvents(ctx context.Context, in *cloudwatchlogs.GetLogEventsInput,
	options ...func(*cloudwatchlogs.Options),
) (*cloudwatchlogs.GetLogEventsOutput, error) {
	l.under.Add(1)
	defer l.under.Add(-1)
	out, err := l.paged.GetLogEvents(ctx, in, options...)
	if ctx.Err() != nil {
		time.Sleep(time.Second)
	}
	return out, err
}

// Who has closed a log that it followed knows that nobody reads it any more.
func TestCloseWaitsForWhatReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &lingering{paged: paged{pages: [][]string{{"a"}}}}
		l := New(api, "", "g", known("RUNNING", time.Now()), &tasks{})
		r, err := l.Open(t.Context(), app, backend.LogOptions{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		line := make([]byte, len("a\n"))
		if _, err := io.ReadFull(r, line); err != nil || string(line) != "a\n" {
			t.Fatalf("%q, %v", line, err)
		}
		api.mu.Lock()
		api.hold = make(chan struct{})
		api.mu.Unlock()
		time.Sleep(2 * logPoll)
		if n := api.under.Load(); n != 1 {
			t.Fatalf("%d calls under way, want one that is held", n)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if n := api.under.Load(); n != 0 {
			t.Errorf("%d calls under way after Close", n)
		}
	})
}
