package kubeletapi

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"syscall"

	"github.com/containerd/log"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/burstlet/burstlet/backend"
)

// SystemLogs reads what the pods' host logs, as backend.SystemLogs does. Errors:
// Unsupported where there is no host.
type SystemLogs interface {
	SystemLog(ctx context.Context, q backend.SystemLogQuery) (io.ReadCloser, error)
}

// logsRoot is the path below which the host's logs are.
const logsRoot = "/logs/"

// systemLogRoutes adds the host's logs (kubelet: InstallSystemLogHandler).
func (s *Server) systemLogRoutes(mux *http.ServeMux) {
	if !s.cfg.SystemLogHandler {
		mux.HandleFunc(logsRoot, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "logs endpoint is disabled.", http.StatusMethodNotAllowed)
		})
		return
	}
	mux.HandleFunc("GET "+logsRoot, s.systemLogs)
}

// systemLogs answers with a file or a directory of the host's logs; where queries are
// enabled, with what services logged (kubelet: logServer).
func (s *Server) systemLogs(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, logsRoot)
	if s.cfg.SystemLogQuery {
		q, errs := parseNodeLogQuery(r.URL.Query())
		switch {
		case len(errs) > 0:
			answerError(w, r, http.StatusBadRequest, errs.ToAggregate())
			return
		case q != nil && name != "" && name != "/":
			answerError(w, r, http.StatusNotAcceptable, errors.New("path not allowed in query mode"))
			return
		case q != nil:
			s.nodeLogQuery(w, r, q)
			return
		}
	}
	s.systemLogPath(w, r, path.Clean("/"+name)+slash(name))
}

// slash is that at the end of a path to a directory below the first.
func slash(name string) string {
	if strings.HasSuffix(name, "/") && path.Clean("/"+name) != "/" {
		return "/"
	}
	return ""
}

func (s *Server) nodeLogQuery(w http.ResponseWriter, r *http.Request, q *nodeLogQuery) {
	if errs := q.validate(); len(errs) > 0 {
		answerError(w, r, http.StatusNotAcceptable, errs.ToAggregate())
		return
	}
	if len(q.services) == 0 {
		// A kubelet takes only names without the slash that Kubernetes' documentation has.
		s.queriedFile(w, r, q.files[0])
		return
	}
	q.Services = q.services
	logs, err := s.cfg.Engine.SystemLog(r.Context(), q.SystemLogQuery)
	if err != nil {
		fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain;charset=UTF-8")
	if r.Header.Get("Accept-Encoding") == "gzip" {
		w.Header().Set("Content-Encoding", "gzip")
		compressed := gzipResponse{w, gzip.NewWriter(w)}
		s.sendSystemLog(r, compressed, logs, compressed.to.Close)
		return
	}
	s.sendSystemLog(r, w, logs, nil)
}

// gzipResponse compresses a response's body.
type gzipResponse struct {
	http.ResponseWriter
	to *gzip.Writer
}

func (g gzipResponse) Write(p []byte) (int, error) { return g.to.Write(p) }

// queriedFile answers a query for a file. One that cannot be had is the query's fault.
func (s *Server) queriedFile(w http.ResponseWriter, r *http.Request, file string) {
	name := strings.TrimLeft(strings.ReplaceAll(file, `\`, "/"), "/")
	logs, err := s.cfg.Engine.SystemLog(r.Context(), backend.SystemLogQuery{Path: name})
	switch {
	case errors.Is(err, backend.ErrNotFound), errors.Is(err, backend.ErrInvalid):
		answerError(w, r, http.StatusNotAcceptable,
			field.ErrorList{field.Invalid(field.NewPath("query"), []string{file}, err.Error())}.ToAggregate())
	case err != nil:
		fail(w, r, err)
	case name == "" || strings.HasSuffix(name, "/"):
		s.sendSystemLogNames(w, r, logs)
	default:
		s.sendSystemLogFile(w, r, logs)
	}
}

// systemLogPath answers as a file server does, without ranges and times.
func (s *Server) systemLogPath(w http.ResponseWriter, r *http.Request, name string) {
	logs, err := s.cfg.Engine.SystemLog(r.Context(), backend.SystemLogQuery{Path: strings.TrimPrefix(name, "/")})
	switch {
	case errors.Is(err, syscall.EISDIR):
		// Relative: the API server has a path of its own before it.
		w.Header().Set("Location", (&url.URL{Path: path.Base(name) + "/"}).String())
		w.WriteHeader(http.StatusMovedPermanently)
	case err != nil:
		fail(w, r, err)
	case strings.HasSuffix(name, "/"):
		s.sendSystemLogNames(w, r, logs)
	default:
		s.sendSystemLogFile(w, r, logs)
	}
}

// sendSystemLogNames shows a directory as net/http's file server does.
func (s *Server) sendSystemLogNames(w http.ResponseWriter, r *http.Request, logs io.ReadCloser) {
	names, err := io.ReadAll(logs)
	if err = errors.Join(err, logs.Close()); err != nil {
		fail(w, r, fmt.Errorf("list logs of the host: %w", err))
		return
	}
	var page bytes.Buffer
	page.WriteString("<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n")
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if name != "" {
			fmt.Fprintf(&page, "<a href=\"%s\">%s</a>\n", (&url.URL{Path: name}).String(), html.EscapeString(name))
		}
	}
	page.WriteString("</pre>\n")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if _, err := w.Write(page.Bytes()); err != nil {
		log.G(r.Context()).WithError(err).Debug("list of logs not sent")
	}
}

// sniffed is how much of a file tells its kind.
const sniffed = 512

// sendSystemLogFile sends a file: as text whatever text it is, for a log may have been
// written by anybody.
func (s *Server) sendSystemLogFile(w http.ResponseWriter, r *http.Request, logs io.ReadCloser) {
	begun := bufio.NewReaderSize(logs, 32<<10)
	first, err := begun.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		fail(w, r, errors.Join(fmt.Errorf("read a log of the host: %w", err), logs.Close()))
		return
	}
	kind := http.DetectContentType(first)
	if strings.HasPrefix(kind, "text/") {
		kind = "text/plain; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	s.sendSystemLog(r, w, struct {
		io.Reader
		io.Closer
	}{begun, logs}, nil)
}

// sendSystemLog copies a log to the client, and then ends what was written.
func (s *Server) sendSystemLog(r *http.Request, w http.ResponseWriter, logs io.ReadCloser, end func() error) {
	err := pour(w, logs, false)
	if closed := logs.Close(); closed != nil {
		log.G(r.Context()).WithError(closed).Debug("log of the host not closed cleanly")
	}
	if err == nil && end != nil {
		err = end()
	}
	if err != nil {
		if r.Context().Err() == nil {
			log.G(r.Context()).WithError(err).Warn("stream of the host's log broke off")
		}
		panic(http.ErrAbortHandler) // as for a container's log
	}
}
