package kubeletapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
)

func ptr[T any](v T) *T { return &v }

func noLogs(context.Context, string, bool, backend.LogOptions) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("")), nil
}

// endless is a log that ends with its context.
func endless(ctx context.Context, _ string, _ bool, _ backend.LogOptions) (io.ReadCloser, error) {
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	return r, nil
}

func TestParseLogRequest(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		query string
		want  logRequest
		wrong string // parameter that the error names
	}{
		{query: "", want: logRequest{}},
		{query: "follow=true&timestamps=1&previous", want: logRequest{
			previous: true,
			opts:     backend.LogOptions{Follow: true, Timestamps: true},
		}},
		{query: "follow=false&timestamps=0&previous=FALSE", want: logRequest{}},
		{query: "tailLines=0", want: logRequest{opts: backend.LogOptions{Tail: ptr(int64(0))}}},
		{query: "tailLines=7", want: logRequest{opts: backend.LogOptions{Tail: ptr(int64(7))}}},
		{query: "tail=3&tailLines=7", want: logRequest{opts: backend.LogOptions{Tail: ptr(int64(3))}}},
		{query: "tail=all&tailLines=7", want: logRequest{}},
		{query: "tailLines=-1", wrong: "tailLines"},
		{query: "tailLines=all", wrong: "tailLines"},
		{query: "tailLines=1.5", wrong: "tailLines"},
		{query: "limitBytes=10", want: logRequest{opts: backend.LogOptions{LimitBytes: ptr(int64(10))}}},
		{query: "limitBytes=0", wrong: "limitBytes"},
		{query: "sinceSeconds=60", want: logRequest{opts: backend.LogOptions{Since: now.Add(-time.Minute)}}},
		{query: "sinceSeconds=0", wrong: "sinceSeconds"},
		{query: "sinceSeconds=x", wrong: "sinceSeconds"},
		{query: "sinceTime=2026-01-02T03:04:04Z", want: logRequest{opts: backend.LogOptions{Since: now.Add(-time.Second)}}},
		{query: "sinceTime=yesterday", wrong: "sinceTime"},
		{query: "sinceTime=null", want: logRequest{}},
		{query: "sinceTime=2026-01-02T03:04:04Z&sinceSeconds=1", wrong: "sinceTime"},
		{query: "stream=All&unknown=1", want: logRequest{}},
		{query: "stream=Stderr", wrong: "stream"},
	} {
		t.Run(tc.query, func(t *testing.T) {
			query, err := url.ParseQuery(tc.query)
			if err != nil {
				t.Fatal(err)
			}
			got, err := parseLogRequest(query, now)
			if tc.wrong != "" {
				if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), "parameter "+tc.wrong) {
					t.Fatalf("got error %v, want one that names %s", err, tc.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(logRequest{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParseLogRequest(f *testing.F) {
	f.Add("tailLines=1&sinceSeconds=9223372036854775807")
	f.Add("sinceTime=2026-01-02T03:04:04.5%2B01:00&follow")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Fuzz(func(t *testing.T, raw string) {
		query, err := url.ParseQuery(raw)
		if err != nil {
			return
		}
		req, err := parseLogRequest(query, now)
		if err != nil {
			if !errors.Is(err, backend.ErrInvalid) {
				t.Errorf("unclassified error %v", err)
			}
			return
		}
		if req.opts.Tail != nil && *req.opts.Tail < 0 || req.opts.LimitBytes != nil && *req.opts.LimitBytes < 1 {
			t.Errorf("out of bounds: %+v", req.opts)
		}
		if query.Get("sinceSeconds") != "" && !req.opts.Since.Before(now) {
			t.Errorf("since is not before now: %v", req.opts.Since)
		}
	})
}

func TestContainerLogs(t *testing.T) {
	r := &reviews{tokens: map[string]string{"t": "u"}, rights: all("u")}
	engine := &fakeEngine{}
	s := serve(t, engine, r, nil)
	call := s.caller(t, nil, "t")

	t.Run("asks the engine for the right log", func(t *testing.T) {
		engine.logs = func(_ context.Context, path string, previous bool, opts backend.LogOptions) (io.ReadCloser, error) {
			if path != "ns/pod/c" || !previous || opts.Tail == nil || *opts.Tail != 2 {
				t.Errorf("got %s previous=%v %+v", path, previous, opts)
			}
			return io.NopCloser(strings.NewReader("one\ntwo\n")), nil
		}
		resp := call("/containerLogs/ns/pod/c?tailLines=2&previous=true")
		if text := body(t, resp); resp.StatusCode != 200 || text != "one\ntwo\n" ||
			!strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
			t.Errorf("got %d %q %v", resp.StatusCode, text, resp.Header)
		}
	})
	t.Run("follows without delay", func(t *testing.T) {
		pr, pw := io.Pipe()
		engine.logs = func(context.Context, string, bool, backend.LogOptions) (io.ReadCloser, error) { return pr, nil }
		resp := call("/containerLogs/ns/pod/c?follow=true") // returns although nothing was written
		if resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
		for _, line := range []string{"first\n", "second\n"} {
			if _, err := io.WriteString(pw, line); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(line))
			if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != line {
				t.Fatalf("got %q, %v", got, err)
			}
		}
		pw.Close()
		if rest := body(t, resp); rest != "" {
			t.Errorf("after the end: %q", rest)
		}
	})
}

func TestContainerLogsBreakingOff(t *testing.T) {
	r := &reviews{tokens: map[string]string{"t": "u"}, rights: all("u")}
	engine := &fakeEngine{}
	s := serve(t, engine, r, nil)
	call := s.caller(t, nil, "t")
	t.Run("a client that leaves ends the log", func(t *testing.T) {
		ended := make(chan struct{})
		engine.logs = func(ctx context.Context, path string, previous bool, opts backend.LogOptions) (io.ReadCloser, error) {
			context.AfterFunc(ctx, func() { close(ended) })
			return endless(ctx, path, previous, opts)
		}
		resp := call("/containerLogs/ns/pod/c?follow=true")
		resp.Body.Close()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("the log's context did not end")
		}
	})
	t.Run("a broken log does not look complete", func(t *testing.T) {
		engine.logs = func(context.Context, string, bool, backend.LogOptions) (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader("half"), brokenReader{})), nil
		}
		resp := call("/containerLogs/ns/pod/c?follow=true")
		if data, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("read %q without an error", data)
		}
	})
}

// fullReads is a log of so many full reads, that notes how much each asked for.
type fullReads struct{ left, asked []int }

func (s *fullReads) Read(p []byte) (int, error) {
	s.asked = append(s.asked, len(p))
	if len(s.left) == 0 {
		return 0, io.EOF
	}
	n := min(len(p), s.left[0])
	s.left = s.left[1:]
	return n, nil
}

// TestQuietLogsCostLittle: hundreds may be followed that tell nothing.
func TestQuietLogsCostLittle(t *testing.T) {
	const quiet, busy = 4 << 10, 32 << 10
	log := &fullReads{left: []int{10, quiet - 1, 1 << 20, 1 << 20, quiet}}
	w := httptest.NewRecorder()
	if err := pour(w, log, true); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{quiet, quiet, quiet, busy, busy, busy}, log.asked); diff != "" {
		t.Errorf("sizes of the buffer, want -, got +:\n%s", diff)
	}
	if n := w.Body.Len(); n != 10+quiet-1+quiet+busy+quiet {
		t.Errorf("%d bytes came", n)
	}
}

func TestContainerLogErrors(t *testing.T) {
	r := &reviews{tokens: map[string]string{"t": "u"}, rights: all("u")}
	engine := &fakeEngine{}
	s := serve(t, engine, r, nil)
	call := s.caller(t, nil, "t")
	for _, tc := range []struct {
		err  error
		code int
	}{
		{backend.Errorf(backend.ErrNotFound, "pod %q does not exist", "x"), 404},
		{backend.Errorf(backend.ErrInvalid, "container is waiting to start: ContainerCreating"), 400},
		{backend.Errorf(backend.ErrUnsupported, "the ecs backend has no logs"), 501},
		{backend.Errorf(backend.ErrUnavailable, "host is away"), 503},
		{backend.Errorf(backend.ErrThrottled, "too many"), 429},
		{backend.Errorf(backend.ErrDenied, "expired"), 502},
		{errors.New("surprise"), 500},
	} {
		t.Run("error "+backend.Class(tc.err), func(t *testing.T) {
			engine.logs = func(context.Context, string, bool, backend.LogOptions) (io.ReadCloser, error) { return nil, tc.err }
			resp := call("/containerLogs/ns/pod/c")
			if text := body(t, resp); resp.StatusCode != tc.code || text != tc.err.Error() {
				t.Errorf("got %d %q, want %d %q", resp.StatusCode, text, tc.code, tc.err)
			}
		})
	}
	t.Run("bad parameter", func(t *testing.T) {
		resp := call("/containerLogs/ns/pod/c?tailLines=many")
		if text := body(t, resp); resp.StatusCode != http.StatusBadRequest || !strings.Contains(text, "tailLines") {
			t.Errorf("got %d %q", resp.StatusCode, text)
		}
	})
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("disk on fire") }

func TestPodLists(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	engine := &fakeEngine{pods: []*corev1.Pod{
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "up", UID: "1"},
			Spec:       corev1.PodSpec{NodeName: "n1"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
				{Name: "c", Image: "busybox", State: running}, {Name: "d", Image: "busybox"},
			}},
		},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "done", UID: "2"}},
	}}
	r := &reviews{tokens: map[string]string{"t": "u"}, rights: all("u")}
	s := serve(t, engine, r, nil)
	call := s.caller(t, nil, "t")

	text := body(t, call("/pods"))
	for _, want := range []string{
		`"kind":"PodList"`, `"apiVersion":"v1"`, `"name":"up"`, `"name":"done"`, `"phase":"Running"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/pods lacks %s: %s", want, text)
		}
	}
	text = body(t, call("/runningpods/"))
	if !strings.Contains(text, `"name":"up"`) || strings.Contains(text, `"done"`) || strings.Contains(text, `"name":"d"`) {
		t.Errorf("/runningpods/: %s", text)
	}
	engine.pods = nil
	if text := body(t, call("/pods")); !strings.Contains(text, `"items":[]`) {
		t.Errorf("empty list: %s", text)
	}
}
