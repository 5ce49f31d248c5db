package helper

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// copyBlock is how much of a log is passed on at once.
const copyBlock = 64 << 10

// serveLog answers with the log as the body. The arguments begin the request's
// body; its end says that the container has ended.
func (s *server) serveLog(w http.ResponseWriter, r *http.Request) {
	args := json.NewDecoder(r.Body)
	var a logArgs
	if err := args.Decode(&a); err != nil {
		writeError(w, fmt.Errorf("read arguments: %w", errMalformed))
		return
	}
	var ended chan struct{}
	if a.Follow {
		ended = make(chan struct{})
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			// An error is no end: the client has gone, and the context with it.
			if _, err := io.Copy(io.Discard, r.Body); err == nil {
				close(ended)
			}
		}()
		defer func() {
			_ = r.Body.Close() // Ends the reading; there is nothing to lose.
			<-gone
		}()
	}
	log, err := s.openLog(r, a.request(ended))
	if err != nil {
		writeError(w, err)
		return
	}
	stream(w, r, log)
}

// serveSystemLog answers with logs of the host as the body.
func (s *server) serveSystemLog(w http.ResponseWriter, r *http.Request) {
	args, err := readBody(r.Body, r.ContentLength, maxMessage)
	if err != nil {
		writeError(w, fmt.Errorf("read arguments: %w", err))
		return
	}
	var q host.SystemLogRequest
	if err := decode(args, &q); err != nil {
		writeError(w, err)
		return
	}
	log, err := s.openSystemLog(r, q)
	if err != nil {
		writeError(w, err)
		return
	}
	stream(w, r, log)
}

// stream answers with a log and closes it; its error is the trailer.
func stream(w http.ResponseWriter, r *http.Request, log io.ReadCloser) {
	w.Header().Set("Trailer", errorTrailer)
	w.WriteHeader(http.StatusOK)
	out := &flusher{w: w, control: http.NewResponseController(w)}
	err := errors.Join(out.Flush(), copyLog(out, log), log.Close())
	if err != nil && r.Context().Err() == nil {
		text, encodeErr := json.Marshal(toWire(err))
		if encodeErr == nil {
			w.Header().Set(errorTrailer, base64.StdEncoding.EncodeToString(text))
		}
	}
}

func (s *server) openLog(r *http.Request, q host.LogRequest) (log io.ReadCloser, err error) {
	defer recovered(opLog, &err)
	return s.host.Log(r.Context(), q)
}

func (s *server) openSystemLog(r *http.Request, q host.SystemLogRequest) (log io.ReadCloser, err error) {
	defer recovered(opSystem, &err)
	return s.host.SystemLog(r.Context(), q)
}

func copyLog(w io.Writer, log io.Reader) (err error) {
	defer recovered(opLog, &err)
	// Not io.CopyBuffer: a WriterTo would choose its own pieces.
	buf := make([]byte, copyBlock)
	for {
		n, err := log.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// flusher passes on each piece at once: a follower waits for it.
type flusher struct {
	w       io.Writer
	control *http.ResponseController
}

func (f *flusher) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err != nil {
		return n, err
	}
	return n, f.Flush()
}

func (f *flusher) Flush() error { return f.control.Flush() }
