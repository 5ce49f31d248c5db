package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		s := newScreen(&out)
		time.Sleep(12340 * time.Millisecond)
		s.heading("Doing %s", "it")
		s.command("sh", "-c", "echo it's 100%", "-o", "wide", "")
		s.text("one\n\ntwo\n\n")
		s.text("")
		want := "\n[ 12.3s] Doing it\n" +
			"    $ sh -c 'echo it'\\''s 100%' -o wide ''\n" +
			"    one\n    \n    two\n"
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("wanted -, got +:\n%s", diff)
		}
	})
}

func TestDuring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		failed := errors.New("exit status 1")
		err := newScreen(&out).during(t.Context(), []string{"building "}, func(_ context.Context, log io.Writer) error {
			write(t, log, "buil")
			write(t, log, "ding etcd\nnoise ")
			time.Sleep(11 * time.Second)
			write(t, log, "1\r\n\nnoise 2\nunfinished")
			time.Sleep(10 * time.Second)
			return failed
		})
		want := "    building etcd\n" +
			"    … 10s (building etcd)\n" +
			"    … 20s (noise 2)\n"
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("wanted -, got +:\n%s", diff)
		}
		if !errors.Is(err, failed) || !strings.HasSuffix(err.Error(), "last:\nbuilding etcd\nnoise 1\nnoise 2") {
			t.Errorf("error %v", err)
		}
	})
}

func TestDuringKeepsLittle(t *testing.T) {
	err := newScreen(io.Discard).during(t.Context(), nil, func(_ context.Context, log io.Writer) error {
		for i := range 1000 {
			write(t, log, fmt.Sprintf("line %d\n", i))
		}
		return errors.New("failed")
	})
	lines := strings.Split(err.Error(), "\n")[1:]
	if len(lines) != tailLines || lines[0] != "line 980" {
		t.Errorf("%d lines, the first is %q", len(lines), lines[0])
	}
}

func TestAwait(t *testing.T) {
	pending := errors.New("3 Pending")
	tests := map[string]struct {
		look    func(time.Duration) error
		cancel  time.Duration
		want    string
		wantErr error
	}{
		"soon, and nothing is told": {
			look: func(d time.Duration) error {
				if d < 900*time.Millisecond {
					return pending
				}
				return nil
			},
		},
		"changes are told": {
			look: func(d time.Duration) error {
				switch {
				case d < 2*time.Second:
					return pending
				case d < 4*time.Second:
					return errors.New("3 Running")
				}
				return nil
			},
			want: "    … 1s: 3 Pending\n    … 2s: 3 Running\n",
		},
		"too late": {
			look:    func(time.Duration) error { return pending },
			want:    "    … 1s: 3 Pending\n    … 11s: 3 Pending\n",
			wantErr: pending,
		},
		"interrupted": {
			look:    func(time.Duration) error { return pending },
			cancel:  500 * time.Millisecond,
			wantErr: context.Canceled,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.cancel > 0 {
					time.AfterFunc(tc.cancel, cancel)
				}
				var out strings.Builder
				began := time.Now()
				err := newScreen(&out).await(
					ctx, "pods", 20*time.Second, func(context.Context) error { return tc.look(time.Since(began)) },
				)
				if !errors.Is(err, tc.wantErr) {
					t.Errorf("error %v", err)
				}
				if late := errors.Is(err, errTooLate); late != errors.Is(tc.wantErr, pending) {
					t.Errorf("too late: %t: %v", late, err)
				}
				if diff := cmp.Diff(tc.want, out.String()); diff != "" {
					t.Errorf("wanted -, got +:\n%s", diff)
				}
			})
		})
	}
}

// TestAwaitQuotesTheWorld checks that a look that the limit cut short does not
// hide what was seen before.
func TestAwaitQuotesTheWorld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pending := errors.New("3 Pending")
		looks := 0
		err := newScreen(io.Discard).await(t.Context(), "pods", time.Second, func(ctx context.Context) error {
			if looks++; looks == 1 {
				return pending
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, errTooLate) || !errors.Is(err, pending) {
			t.Errorf("error %v", err)
		}
	})
}

func TestLastLines(t *testing.T) {
	for text, want := range map[string]string{"": "", "a\nb\n": "a\nb", "a\nb\nc": "b\nc"} {
		if got := lastLines(text, 2); got != want {
			t.Errorf("of %q: %q, not %q", text, got, want)
		}
	}
}

func write(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Error(err)
	}
}
