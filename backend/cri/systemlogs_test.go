package cri

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// loggingHost is a host that has logs of its own.
type loggingHost struct {
	host.Host
	asked host.SystemLogRequest
	err   error
}

func (h *loggingHost) SystemLog(_ context.Context, r host.SystemLogRequest) (io.ReadCloser, error) {
	h.asked = r
	return io.NopCloser(strings.NewReader("words")), h.err
}

// TestSystemLogs: the query reaches the host in its time, and its errors have classes.
func TestSystemLogs(t *testing.T) {
	h := &loggingHost{}
	r := &remote{host: h}
	now := time.Now()
	r.clock.measured(now, now.Add(time.Hour), now)
	log, err := systemLogs{r}.Open(t.Context(), backend.SystemLogQuery{
		Path: "p", Services: []string{"s"}, Since: now, TailLines: new(3), Boot: new(-1), Pattern: "x",
	})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(log); err != nil || string(text) != "words" {
		t.Errorf("%q, %v", text, err)
	}
	want := host.SystemLogRequest{
		Path: "p", Services: []string{"s"}, Since: now.Add(time.Hour), TailLines: new(3), Boot: new(-1), Pattern: "x",
	}
	if diff := cmp.Diff(want, h.asked); diff != "" {
		t.Error(diff)
	}
	for cause, class := range map[error]error{
		fs.ErrNotExist: backend.ErrNotFound, syscall.ENOTDIR: backend.ErrNotFound,
		backend.Errorf(backend.ErrInvalid, "%w", syscall.EISDIR): backend.ErrInvalid,
		backend.Errorf(backend.ErrUnavailable, "gone"):           backend.ErrUnavailable,
	} {
		h.err = cause
		if _, err := (systemLogs{r}).Open(t.Context(), backend.SystemLogQuery{}); !errors.Is(err, class) {
			t.Errorf("%v: %v, want class %v", cause, err, class)
		}
	}
}
