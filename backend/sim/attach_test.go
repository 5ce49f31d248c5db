package sim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

// TestAttachedOutput: what is written from now on, each stream to where it is wanted, until the container's end.
func TestAttachedOutput(t *testing.T) {
	for name, tt := range map[string]struct {
		out, errs bool // wanted
		tty       bool
		at        int // seconds after the start
		want      [2]string
		takes     time.Duration
	}{
		"both":             {true, true, false, 1, [2]string{"b\nd\n", "c\n"}, 3 * time.Second},
		"the output":       {true, false, false, 1, [2]string{"b\nd\n", ""}, 3 * time.Second},
		"the errors":       {false, true, false, 1, [2]string{"", "c\n"}, 3 * time.Second},
		"nothing":          {false, false, false, 1, [2]string{}, 3 * time.Second},
		"as it is written": {true, true, false, 2, [2]string{"d\n", ""}, 2 * time.Second},
		"of a terminal":    {true, true, true, 1, [2]string{"b\r\nc\r\nd\r\n", ""}, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := sim.New(sim.Config{PodUnit: true}).Backend()
				s := spec("u", 0, container("c", "sh", "-c", "echo a; sleep 2; echo b; echo c >&2; sleep 2; echo d"))
				s.Containers[0].Container.TTY = tt.tty
				must(t, b.Pods.Launch(t.Context(), t.Context(), s))
				time.Sleep(time.Duration(tt.at) * time.Second)
				var out, errs strings.Builder
				streams := backend.AttachSpec{Stdin: untouched{t}} // the container has no input
				if tt.out {
					streams.Stdout = &out
				}
				if tt.errs {
					streams.Stderr = &errs
				}
				begun := time.Now()
				must(t, b.Attach.Attach(t.Context(), backend.ContainerRef{Pod: s.Ref(), Name: "c"}, streams))
				if got := [2]string{out.String(), errs.String()}; got != tt.want || time.Since(begun) != tt.takes {
					t.Errorf("%q after %v, want %q after %v", got, time.Since(begun), tt.want, tt.takes)
				}
			})
		})
	}
}

// untouched is an input that nobody is to read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the input was read")
	return 0, io.EOF
}

// takesNothing is an output that takes nothing.
type takesNothing struct{}

func (takesNothing) Write([]byte) (int, error) { return 0, errors.New("enough") }

// TestAttachmentsEnd: with whoever attached, with what takes no more output, and with the container.
func TestAttachmentsEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		ref   backend.ContainerRef
		limit time.Duration
		out   io.Writer
		class string
		says  string
		takes time.Duration
	}{
		"the container ends":   {takes: 4 * time.Second},
		"given up":             {limit: time.Second, class: "Transient", says: "deadline exceeded", takes: time.Second},
		"no more is taken":     {out: takesNothing{}, class: "Transient", says: "output: enough", takes: 2 * time.Second},
		"another container":    {ref: backend.ContainerRef{Name: "d"}, class: "NotFound", says: "attach to container u/d"},
		"another attempt":      {ref: backend.ContainerRef{Name: "c", Attempt: 1}, class: "NotFound", says: "does not run"},
		"one that has ended":   {ref: backend.ContainerRef{Name: "ended"}, class: "NotFound", says: "it does not run"},
		"one that has not run": {ref: backend.ContainerRef{Name: "late"}, class: "NotFound", says: "it does not run"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := sim.New(sim.Config{PodUnit: true, Script: lateIsLate}).Backend()
				must(t, b.Pods.Launch(t.Context(), t.Context(), spec("u", 0,
					container("c", "sh", "-c", "sleep 2; echo a; sleep 2"), container("ended", "true"), container("late", "true"))))
				if tt.limit == 0 {
					tt.limit = time.Minute
				}
				if tt.ref.Name == "" {
					tt.ref.Name = "c"
				}
				tt.ref.Pod.UID = "u"
				ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
				defer cancel()
				begun := time.Now()
				err := b.Attach.Attach(ctx, tt.ref, backend.AttachSpec{Stdout: tt.out})
				if took := time.Since(begun); backend.Class(err) != tt.class || took != tt.takes {
					t.Errorf("%v after %v, want %q after %v", err, took, tt.class, tt.takes)
				}
				if err != nil && !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%v, want %q", err, tt.says)
				}
			})
		})
	}
}

// lateIsLate starts the container "late" an hour after the others.
func lateIsLate(_ *corev1.Pod, c corev1.Container, _ int) sim.Life {
	life := sim.FromArgv(c)
	if c.Name == "late" {
		life.StartAfter = time.Hour
	}
	return life
}

// TestProgramsGoOn: what a program does once it has read what was typed, all of it by then and from then on.
func TestProgramsGoOn(t *testing.T) {
	sees := func(want string, argv ...string) func(*testing.T, backend.Backend) {
		return func(t *testing.T, b backend.Backend) { wantOutput(t, b, "c", want, argv...) }
	}
	uses := func(want measured) func(*testing.T, backend.Backend) {
		return func(t *testing.T, b backend.Backend) {
			if got, _ := measure(t, b); got["c"] != want {
				t.Errorf("it uses %+v, want %+v", got["c"], want)
			}
		}
	}
	answers := func(want string) func(*testing.T, backend.Backend) {
		return func(t *testing.T, b backend.Backend) {
			if got := get(t.Context(), b, backend.Ref{UID: "u"}, "10.88.0.1:80"); got != want {
				t.Errorf("it answers %s, want %s", got, want)
			}
		}
	}
	for name, tt := range map[string]struct {
		script string
		at     int    // seconds after its start somebody attaches
		wants  string // in its log, after a minute
		check  func(*testing.T, backend.Backend)
	}{
		"it writes":               {"cat > /f; sleep 999", 1, "", sees("typed\n", "cat", "/f")},
		"with what was there":     {"echo x > /f; cat >> /f; cat /f; sleep 999", 1, "x\ntyped\n", nil},
		"it sees what others did": {"cat; ls /tmp; cat /tmp/made; sleep 999", 1, "typed\nmade\nby another\n", nil},
		"it saw what it had":      {"mkdir /d; touch /d/a; ls /d; cat; sleep 999", 1, "a\ntyped\n", nil},
		"it uses more": {
			"use cpu=1 memory=1Mi; cat; use cpu=2; sleep 999", 10, "typed\n", uses(measured{2000, 10_000 + 120_000, 1}),
		},
		"it listens":               {"cat; serve 80", 1, "typed\n", answers("200")},
		"it listened before":       {"serve 80 ready-after=2s", 1, "", answers("200")},
		"it listens later":         {"cat; serve 80 ready-after=70s", 40, "typed\n", answers("refused")},
		"it fails after a while":   {"cat; serve 80 fail-after=30s", 40, "typed\n", answers("500")},
		"it fails no sooner":       {"cat; serve 80 fail-after=70s", 40, "typed\n", answers("200")},
		"it knows the time":        {"date; sleep 5; date; cat; date; sleep 99", 9, dates(0, 5) + "typed\n" + dates(9), nil},
		"attached before it reads": {"sleep 5; cat; date; sleep 999", 1, "typed\n" + dates(5), nil},
		"what nobody knows before": {"nonsense; cat", 1, "", nil},
		"what nobody knows after":  {"cat; nonsense; echo on; sleep 999", 1, "typed\nsh: nonsense: not found\non\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, ref := attaching(t, true, false, "sh", "-c", tt.script)
				time.Sleep(time.Duration(tt.at) * time.Second)
				_, _, err := run(t.Context(), b, "c", "", "sh", "-c", "echo by another > /tmp/made")
				must(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err = b.Attach.Attach(ctx, ref, backend.AttachSpec{Stdin: strings.NewReader("typed\n")})
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("left: %v", err)
				}
				log, err := b.Logs.Open(t.Context(), ref, backend.LogOptions{})
				must(t, err)
				text, err := io.ReadAll(log)
				must(t, err)
				if got := strings.TrimPrefix(string(text), firstLine); got != tt.wants {
					t.Errorf("it wrote %q, want %q", got, tt.wants)
				}
				if tt.check != nil {
					tt.check(t, b)
				}
			})
		})
	}
}

// dates are what date says so many seconds after a test began.
func dates(seconds ...int) string {
	out := ""
	for _, s := range seconds {
		out += fmt.Sprintf("Sat Jan  1 00:00:%02d UTC 2000\n", s)
	}
	return out
}
