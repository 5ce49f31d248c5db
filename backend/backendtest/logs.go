package backendtest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/burstlet/burstlet/backend"
)

// readLog reads a log to its end and returns its lines. A remote may write lines
// of its own before those of the container.
func (s *suite) readLog(ref backend.ContainerRef, opts backend.LogOptions) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), s.f.Eventually)
	defer cancel()
	text, err := s.readLogUntil(ctx, ref, opts)
	s.must(err)
	return text
}

// readLogUntil reads until the end of the log or of the context.
func (s *suite) readLogUntil(ctx context.Context, ref backend.ContainerRef, opts backend.LogOptions) (string, error) {
	stream, err := s.Logs.Open(ctx, ref, opts)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(stream)
	if closing := stream.Close(); err == nil {
		err = closing
	}
	return string(text), err
}

// awaitLog reads a log, which may be late, until it ends with some lines.
func (s *suite) awaitLog(ref backend.ContainerRef, want ...string) string {
	s.Helper()
	var text string
	s.eventually(fmt.Sprintf("the log of %s ends with %q", ref.Name, want), func() (err error) {
		ctx, cancel := context.WithTimeout(s.Context(), s.f.Eventually)
		defer cancel()
		if text, err = s.readLogUntil(ctx, ref, backend.LogOptions{}); err == nil && !endsWith(text, want) {
			err = fmt.Errorf("it is %q", text)
		}
		return err
	})
	return text
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// wantEnd checks the last lines of a log.
func (s *suite) wantEnd(what, text string, want ...string) {
	s.Helper()
	if !endsWith(text, want) {
		s.Errorf("%s: %q, want it to end with %q", what, text, want)
	}
}

func endsWith(text string, want []string) bool {
	got := lines(text)
	return len(got) >= len(want) && slices.Equal(got[len(got)-len(want):], want)
}

func logOptions(s *suite) {
	ref := s.run(s.pod(program{"sh", "-c", "echo first; sleep 1; echo second; sleep 1; echo third; exit 0"}), 0)
	c := s.facts(s.awaitExited(ref), "c0", 0).Ref(ref)
	all := s.awaitLog(c, "first", "second", "third")
	tail := s.readLog(c, backend.LogOptions{Tail: new(int64(2))})
	s.wantEnd("tail 2", tail, "second", "third")
	if len(lines(tail)) != 2 {
		s.Errorf("tail 2: %q", tail)
	}
	if none := s.readLog(c, backend.LogOptions{Tail: new(int64(0))}); none != "" {
		s.Errorf("tail 0: %q", none)
	}
	if many := s.readLog(c, backend.LogOptions{Tail: new(int64(1000))}); many != all {
		s.Errorf("tail 1000: %q, want all: %q", many, all)
	}
	if part := s.readLog(c, backend.LogOptions{LimitBytes: new(int64(4))}); part != all[:4] {
		s.Errorf("limit of 4 bytes: %q of %q", part, all)
	}
	s.logTimes(c, all)
}

// logTimes checks timestamps, and with them what since leaves.
func (s *suite) logTimes(c backend.ContainerRef, all string) {
	stamped := lines(s.readLog(c, backend.LogOptions{Timestamps: true}))
	var texts []string
	var before, last time.Time
	for _, l := range stamped {
		at, text, _ := strings.Cut(l, " ")
		t, err := time.Parse(time.RFC3339Nano, at)
		if err != nil || t.Before(last) {
			s.Errorf("line %q: bad time or order: %v", l, err)
		}
		before, last = last, t
		texts = append(texts, text)
	}
	if got := strings.Join(texts, "\n") + "\n"; got != all {
		s.Errorf("with timestamps: %q, without: %q", got, all)
	}
	since := s.readLog(c, backend.LogOptions{Since: last.Add(before.Sub(last) / 2)})
	if since != "third\n" {
		s.Errorf("since a moment between the last two lines: %q", since)
	}
}

func logFollow(s *suite) {
	ref := s.run(s.pod(program{"sh", "-c", "echo first; sleep 1; echo last; exit 0"}), 0)
	f := s.await(ref, "c0 started", func(f backend.PodFacts) bool {
		return len(f.Containers) == 1 && !f.Containers[0].StartedAt.IsZero()
	})
	text := s.readLog(s.facts(f, "c0", 0).Ref(ref), backend.LogOptions{Follow: true})
	s.wantEnd("followed", text, "first", "last")

	ref = s.run(s.pod(untilTerm), 0)
	c := s.facts(s.awaitRunning(ref), "c0", 0).Ref(ref)
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	stream, err := s.Logs.Open(ctx, c, backend.LogOptions{Follow: true})
	s.must(err)
	defer func() { _ = stream.Close() }()
	done := s.call(func() error {
		_, err := io.Copy(io.Discard, stream)
		return err
	})
	s.pause(settle)
	select {
	case err := <-done:
		s.Fatalf("a followed log ended before container and context: %v", err)
	default:
	}
	cancel()
	if err := s.ended(done, "a followed log whose context ended"); err != nil {
		s.Logf("it ended: %v", err)
	}
}

func logUnknown(s *suite) {
	c := backend.ContainerRef{Pod: backend.Ref{UID: uuid.NewUUID()}, Name: "c0"}
	stream, err := s.Logs.Open(s.Context(), c, backend.LogOptions{})
	s.wantClass("open the log of nothing", err, backend.ErrNotFound)
	if stream != nil {
		s.Error(fmt.Errorf("a stream beside an error; closing it: %w", stream.Close()))
	}
}
