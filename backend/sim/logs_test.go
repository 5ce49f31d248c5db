package sim_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

const firstLine = "simulated container c: no process runs\n"

// logging launches a pod whose container starts 5 s later, and then writes a, 2 s later b and c, 2 s later d.
func logging(t *testing.T) (*sim.Remote, backend.Backend, backend.ContainerRef) {
	t.Helper()
	r := sim.New(sim.Config{PodUnit: true, Latency: sim.Latency{Start: 5 * time.Second}})
	b := r.Backend()
	s := spec("u", 0, container("c", "sh", "-c", "echo a; sleep 2; echo b; echo c >&2; sleep 2; echo -n d"))
	must(t, b.Pods.Launch(t.Context(), t.Context(), s))
	return r, b, backend.ContainerRef{Pod: s.Ref(), Name: "c"}
}

// TestWhatALogShows: what was written by then, of it what is asked for, and with Follow until the container's end.
func TestWhatALogShows(t *testing.T) {
	all := firstLine + "a\nb\nc\nd"
	for name, tt := range map[string]struct {
		at    int // seconds after the launch
		opts  backend.LogOptions
		since time.Duration // after the launch; 0 is all
		want  string
		takes time.Duration
	}{
		"before it starts":  {at: 4, want: ""},
		"as it starts":      {at: 5, want: firstLine + "a\n"},
		"between its lines": {at: 6, want: firstLine + "a\n"},
		"two at once":       {at: 7, want: firstLine + "a\nb\nc\n"},
		"after its end":     {at: 99, want: all},

		"no line":              {at: 20, opts: backend.LogOptions{Tail: new(int64(0))}, want: ""},
		"the last line":        {at: 20, opts: backend.LogOptions{Tail: new(int64(1))}, want: "d"},
		"the last two":         {at: 20, opts: backend.LogOptions{Tail: new(int64(2))}, want: "c\nd"},
		"all but the first":    {at: 20, opts: backend.LogOptions{Tail: new(int64(4))}, want: "a\nb\nc\nd"},
		"more than there are":  {at: 20, opts: backend.LogOptions{Tail: new(int64(99))}, want: all},
		"the last line so far": {at: 6, opts: backend.LogOptions{Tail: new(int64(1))}, want: "a\n"},

		"no byte":     {at: 20, opts: backend.LogOptions{LimitBytes: new(int64(0))}, want: ""},
		"three bytes": {at: 20, opts: backend.LogOptions{LimitBytes: new(int64(3))}, want: firstLine[:3]},
		"within a later line": {
			at: 20, opts: backend.LogOptions{LimitBytes: new(int64(3)), Tail: new(int64(4))}, want: "a\nb",
		},
		"more bytes than there": {at: 20, opts: backend.LogOptions{LimitBytes: new(int64(99))}, want: all},

		"since its start":       {at: 20, since: 5 * time.Second, want: all},
		"since later":           {at: 20, since: 6 * time.Second, want: "b\nc\nd"},
		"since the very moment": {at: 20, since: 7 * time.Second, want: "b\nc\nd"},
		"since a moment later":  {at: 20, since: 7*time.Second + 1, want: "d"},
		"since the future":      {at: 20, since: time.Hour, want: ""},

		"with times": {
			at: 20, opts: backend.LogOptions{Timestamps: true, Tail: new(int64(2))},
			want: "2000-01-01T00:00:07Z c\n2000-01-01T00:00:09Z d",
		},
		"times count too": {
			at: 20, opts: backend.LogOptions{Timestamps: true, Tail: new(int64(1)), LimitBytes: new(int64(4))}, want: "2000",
		},

		"followed from the start": {opts: backend.LogOptions{Follow: true}, want: all, takes: 9 * time.Second},
		"followed from now on": {
			at: 6, opts: backend.LogOptions{Follow: true, Tail: new(int64(0))}, want: "b\nc\nd", takes: 3 * time.Second,
		},
		"followed as far as the limit": {
			at: 6, opts: backend.LogOptions{Follow: true, Tail: new(int64(1)), LimitBytes: new(int64(3))},
			want: "a\nb", takes: time.Second,
		},
		"followed since later": {
			at: 6, opts: backend.LogOptions{Follow: true}, since: 8 * time.Second, want: "d", takes: 3 * time.Second,
		},
		"followed after its end": {at: 20, opts: backend.LogOptions{Follow: true}, want: all},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				launched := time.Now()
				_, b, ref := logging(t)
				if tt.since > 0 {
					tt.opts.Since = launched.Add(tt.since)
				}
				time.Sleep(time.Duration(tt.at) * time.Second)
				begun := time.Now()
				log, err := b.Logs.Open(t.Context(), ref, tt.opts)
				must(t, err)
				got, err := io.ReadAll(log)
				if took := time.Since(begun); string(got) != tt.want || err != nil || took != tt.takes {
					t.Errorf("%q, %v after %v; want %q after %v", got, err, took, tt.want, tt.takes)
				}
				must(t, log.Close())
			})
		})
	}
}

// TestFollowedLogsEnd: with the container or the pod, and with whoever follows them.
func TestFollowedLogsEnd(t *testing.T) {
	type following struct {
		remote *sim.Remote
		b      backend.Backend
		log    io.Closer
		cancel context.CancelFunc
	}
	for name, tt := range map[string]struct {
		end  func(ctx context.Context, a following) error
		want error
	}{
		"the pod is stopped": {
			func(ctx context.Context, a following) error { return a.b.Pods.Stop(ctx, backend.Ref{UID: "u"}, 0) }, nil,
		},
		"the pod is removed": {
			func(ctx context.Context, a following) error { return a.b.Pods.Remove(ctx, backend.Ref{UID: "u"}) }, nil,
		},
		"the pod vanishes": {func(_ context.Context, a following) error { a.remote.Vanish("u"); return nil }, nil},
		"it is closed":     {func(_ context.Context, a following) error { return a.log.Close() }, io.ErrClosedPipe},
		"it is given up":   {func(_ context.Context, a following) error { a.cancel(); return nil }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, b, ref := logging(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				log, err := b.Logs.Open(ctx, ref, backend.LogOptions{Follow: true})
				must(t, err)
				time.AfterFunc(6*time.Second, func() {
					if err := tt.end(t.Context(), following{r, b, log, cancel}); err != nil {
						t.Error(err)
					}
				})
				got, err := io.ReadAll(log)
				if string(got) != firstLine+"a\n" || !errors.Is(err, tt.want) {
					t.Errorf("%q, %v, want %v", got, err, tt.want)
				}
				must(t, log.Close())
			})
		})
	}
}

// TestLogsOfNone: a log is of one container of one attempt, as long as that is there.
func TestLogsOfNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, b, ref := logging(t)
		other, second, unknown := ref, ref, ref
		other.Name, second.Attempt, unknown.Pod.UID = "d", 1, "v"
		for name, ref := range map[string]backend.ContainerRef{
			"another container": other, "another attempt": second, "another pod": unknown,
		} {
			if _, err := b.Logs.Open(t.Context(), ref, backend.LogOptions{}); backend.Class(err) != "NotFound" {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := r.BackendFor("two").Logs.Open(t.Context(), ref, backend.LogOptions{}); backend.Class(err) != "NotFound" {
			t.Errorf("another node: %v", err)
		}
		r.Vanish("u")
		_, err := b.Logs.Open(t.Context(), ref, backend.LogOptions{})
		if backend.Class(err) != "NotFound" || !strings.Contains(err.Error(), "read log of container u/c attempt 0") {
			t.Errorf("gone: %v", err)
		}
	})
}
