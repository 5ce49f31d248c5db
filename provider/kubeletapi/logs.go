package kubeletapi

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/backend"
)

// logRequest is a parsed query of containerLogs.
type logRequest struct {
	previous bool
	opts     backend.LogOptions
}

// parseLogRequest reads the parameters of PodLogOptions as the kubelet does:
// the same words for booleans, the old "tail" beside tailLines, the same bounds.
// Errors are of class Invalid and name the parameter.
func parseLogRequest(query url.Values, now time.Time) (logRequest, error) {
	var req logRequest
	req.opts.Follow = flag(query, "follow")
	req.opts.Timestamps = flag(query, "timestamps")
	req.previous = flag(query, "previous")
	if stream := query.Get("stream"); stream != "" && stream != "All" {
		return req, invalid("stream", "only All can be served, not %q", stream)
	}
	var err error
	tail := "tailLines"
	if query.Get("tail") != "" {
		tail = "tail"
	}
	if query.Get(tail) != "all" || tail != "tail" {
		if req.opts.Tail, err = number(query, tail, 0); err != nil {
			return req, err
		}
	}
	if req.opts.LimitBytes, err = number(query, "limitBytes", 1); err != nil {
		return req, err
	}
	req.opts.Since, err = since(query, now)
	return req, err
}

// flag reads a boolean: present without a value is true, and so is every word
// but "false" and "0".
func flag(query url.Values, name string) bool {
	values, ok := query[name]
	if !ok || len(values) == 0 {
		return false
	}
	return !strings.EqualFold(values[0], "false") && values[0] != "0"
}

// number reads a whole number that may be absent.
func number(query url.Values, name string, least int64) (*int64, error) {
	text := query.Get(name)
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, invalid(name, "%q is not a whole number", text)
	}
	if n < least {
		return nil, invalid(name, "must be at least %d, not %d", least, n)
	}
	return &n, nil
}

func since(query url.Values, now time.Time) (time.Time, error) {
	seconds, err := number(query, "sinceSeconds", 1)
	if err != nil {
		return time.Time{}, err
	}
	text := query.Get("sinceTime")
	if text == "null" {
		text = ""
	}
	switch {
	case seconds != nil && text != "":
		return time.Time{}, invalid("sinceTime", "at most one of sinceTime and sinceSeconds may be given")
	case seconds != nil:
		return now.Add(-time.Duration(min(*seconds, maxSeconds)) * time.Second), nil
	case text == "":
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, invalid("sinceTime", "%q is not a time as 2006-01-02T15:04:05Z", text)
	}
	return at, nil
}

// maxSeconds keeps sinceSeconds within a Duration, which is 292 years.
const maxSeconds = int64(math.MaxInt64 / time.Second)

func invalid(name, format string, args ...any) error {
	return backend.Errorf(backend.ErrInvalid, "invalid parameter %s: %s", name, fmt.Sprintf(format, args...))
}

// containerLogs streams a container's log.
func (s *Server) containerLogs(w http.ResponseWriter, r *http.Request) {
	req, err := parseLogRequest(r.URL.Query(), time.Now())
	if err != nil {
		fail(w, r, err)
		return
	}
	ctx := r.Context()
	logs, err := s.cfg.Engine.ContainerLogs(ctx,
		r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"), req.previous, req.opts)
	if err != nil {
		fail(w, r, err)
		return
	}
	defer func() {
		if err := logs.Close(); err != nil {
			log.G(ctx).WithError(err).Debug("log not closed cleanly")
		}
	}()
	w.Header().Set("Content-Type", "text/plain")
	if err := pour(w, logs, req.opts.Follow); err != nil && ctx.Err() == nil {
		log.G(ctx).WithError(err).Warn("log stream broke off")
		// The status is sent already: breaking the connection is the only way
		// left to tell the client that this is not the end of the log.
		panic(http.ErrAbortHandler)
	}
}

// A followed log may tell nothing for days: its buffer is small until it fills it.
const (
	quietBuffer = 4 << 10
	busyBuffer  = 32 << 10
)

// pour copies a log to the client, when following without delay.
func pour(w http.ResponseWriter, logs io.Reader, follow bool) error {
	out := http.NewResponseController(w)
	if follow {
		w.WriteHeader(http.StatusOK)
		if err := out.Flush(); err != nil {
			return fmt.Errorf("send headers: %w", err)
		}
	}
	buf := make([]byte, quietBuffer)
	for {
		n, err := logs.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return fmt.Errorf("send log: %w", err)
			}
			if follow {
				if err := out.Flush(); err != nil {
					return fmt.Errorf("send log: %w", err)
				}
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read log: %w", err)
		case n == len(buf) && n < busyBuffer:
			buf = make([]byte, busyBuffer)
		}
	}
}
