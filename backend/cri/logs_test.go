package cri

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// logWorld is a running container with a log file that the test writes.
type logWorld struct {
	*world
	r    *remote
	ref  backend.ContainerRef
	file *os.File
	line int
}

func newLogWorld(t *testing.T) *logWorld {
	t.Helper()
	w := newWorld(t)
	r, _ := w.connect(t)
	ref := runPod(t, r, testPod("u1"), "main")
	f, err := os.OpenFile(
		filepath.Join(w.cfg.PodLogsDir, "ns_name-u1_u1", "main", "0.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644,
	)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return &logWorld{world: w, r: r, ref: backend.ContainerRef{Pod: ref, Name: "main"}, file: f}
}

func (w *logWorld) write(t *testing.T, tag, text, end string) {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, w.line, 0, time.UTC)
	w.line++
	_, err := fmt.Fprintf(w.file, "%s stdout %s %s%s", at.Format(time.RFC3339Nano), tag, text, end)
	must(t, err)
}

func (w *logWorld) read(t *testing.T, opts backend.LogOptions) string {
	t.Helper()
	stream, err := logs{w.r}.Open(t.Context(), w.ref, opts)
	must(t, err)
	text, err := io.ReadAll(stream)
	must(t, err)
	must(t, stream.Close())
	return string(text)
}

func TestReadLog(t *testing.T) {
	w := newLogWorld(t)
	w.write(t, "F", "one", "\n")
	w.write(t, "P", "tw", "\n")
	w.write(t, "F", "o", "\n")
	_, err := w.file.WriteString("not a record\n")
	must(t, err)
	w.write(t, "F", "three", "")
	for _, tt := range []struct {
		name string
		opts backend.LogOptions
		want string
	}{
		{"all", backend.LogOptions{}, "one\ntwo\nthree\n"},
		{"tail", backend.LogOptions{Tail: new(int64(3))}, "two\nthree\n"}, // what is no record is a line, too
		{"tail 0", backend.LogOptions{Tail: new(int64(0))}, ""},
		{"since", backend.LogOptions{Since: time.Date(2026, 1, 2, 3, 4, 3, 0, time.UTC)}, "three\n"},
		{"since within a line", backend.LogOptions{Since: time.Date(2026, 1, 2, 3, 4, 2, 0, time.UTC)}, "three\n"},
		{"limit", backend.LogOptions{LimitBytes: new(int64(6))}, "one\ntw"},
		{
			"times",
			backend.LogOptions{Timestamps: true, Tail: new(int64(3))},
			"2026-01-02T03:04:01.000000000Z two\n2026-01-02T03:04:03.000000000Z three\n",
		},
	} {
		if got := w.read(t, tt.opts); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	other := w.ref
	other.Attempt = 1
	_, err = logs{w.r}.Open(t.Context(), other, backend.LogOptions{})
	wantClass(t, err, backend.ErrNotFound)
	byUID := w.ref
	byUID.Pod = backend.Ref{UID: "u1"}
	stream, err := logs{w.r}.Open(t.Context(), byUID, backend.LogOptions{})
	must(t, err)
	must(t, stream.Close())
}

func TestFollowLog(t *testing.T) {
	w := newLogWorld(t)
	w.write(t, "F", "one", "\n")
	stream, err := logs{w.r}.Open(t.Context(), w.ref, backend.LogOptions{Follow: true})
	must(t, err)
	lines := bufio.NewReader(stream)
	next := func(want string) {
		t.Helper()
		if got, err := lines.ReadString('\n'); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	next("one\n")
	w.write(t, "F", "tw", "") // half a record
	_, err = w.file.WriteString("o\n")
	must(t, err)
	next("two\n")
	id, _ := w.fake.Container("main")
	w.write(t, "F", "last", "\n")
	w.fake.Exit(id, 0, "Completed")
	next("last\n")
	if rest, err := io.ReadAll(lines); err != nil || len(rest) != 0 {
		t.Errorf("%q, %v after the end of the container", rest, err)
	}
	must(t, stream.Close())
}

func TestFollowEndsWithContextAndClose(t *testing.T) {
	w := newLogWorld(t)
	w.write(t, "F", "one", "\n")
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := logs{w.r}.Open(ctx, w.ref, backend.LogOptions{Follow: true})
	must(t, err)
	cancel()
	if _, err := io.ReadAll(stream); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the end of the context", err)
	}
	must(t, stream.Close())
	unread, err := logs{w.r}.Open(t.Context(), w.ref, backend.LogOptions{Follow: true})
	must(t, err)
	must(t, unread.Close()) // returns although nobody reads
}
