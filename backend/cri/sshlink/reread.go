package sshlink

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// logPatience is how long a log that was asked for waits for a connection, from the
// first that broke.
const logPatience = 10 * time.Second

// reread is a log that is opened anew as long as the connection breaks before
// anything of it came: who asked cannot tell, and may have asked only once.
type reread struct {
	io.ReadCloser
	// anew opens it once more after an error of the connection; nil once something
	// of it came.
	anew func(cause error) (io.ReadCloser, error)
}

// rereadable opens a log; s is signalled at every change of the connection.
func rereadable(ctx context.Context, s *signal, open func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	var until time.Time
	changed := s.wait()
	anew := func(cause error) (io.ReadCloser, error) {
		if until.IsZero() {
			until = time.Now().Add(logPatience)
		}
		patience := time.NewTimer(time.Until(until))
		defer patience.Stop()
		for errors.Is(cause, backend.ErrUnavailable) {
			select {
			case <-changed: // since it was opened
			case <-patience.C:
				return nil, cause
			case <-ctx.Done():
				return nil, cause
			}
			changed = s.wait()
			log, err := open()
			if err == nil {
				return log, nil
			}
			cause = err
		}
		return nil, cause
	}
	log, err := open()
	if err != nil {
		if log, err = anew(err); err != nil {
			return nil, err
		}
	}
	return &reread{ReadCloser: log, anew: anew}, nil
}

// Read reads on.
func (r *reread) Read(p []byte) (int, error) {
	for {
		n, err := r.ReadCloser.Read(p)
		if n > 0 || errors.Is(err, io.EOF) {
			r.anew = nil
		}
		if err == nil || r.anew == nil {
			return n, err
		}
		log, err := r.anew(err)
		if err != nil {
			r.anew = nil
			return 0, err
		}
		broken := r.ReadCloser
		r.ReadCloser = log
		_ = broken.Close() // it has said how it ended
	}
}
