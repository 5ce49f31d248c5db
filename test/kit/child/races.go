package child

import (
	"bytes"
	"io"
	"sync"
)

// What the race detector prints before a report, and how much is kept of the first.
const (
	raceMark   = "WARNING: DATA RACE"
	raceReport = 8 << 10
)

// races passes on what a program prints and looks for reports of the race detector.
type races struct {
	to io.Writer

	mu sync.Mutex
	// last is the end of what was written, shorter than the mark; with a report, that.
	last   []byte
	report bool
}

// Write implements [io.Writer].
func (r *races) Write(p []byte) (int, error) {
	r.look(p)
	return r.to.Write(p)
}

func (r *races) look(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.report {
		r.last = append(r.last, p[:min(len(p), raceReport-len(r.last))]...)
		return
	}
	r.last = append(r.last, p...)
	if at := bytes.Index(r.last, []byte(raceMark)); at >= 0 {
		r.report = true
		r.last = bytes.Clone(r.last[at:min(len(r.last), at+raceReport)])
		return
	}
	r.last = bytes.Clone(r.last[max(0, len(r.last)-len(raceMark)+1):])
}

// found is the first report, "" without one.
func (r *races) found() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.report {
		return ""
	}
	return string(r.last)
}
