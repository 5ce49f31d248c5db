// Package deadline is the deadline of a connection that has none by itself. It
// imports nothing of the project.
package deadline

import (
	"sync"
	"time"
)

// Deadline is the deadline of one direction of a connection. It is safe for
// concurrent use.
type Deadline struct {
	mu     sync.Mutex
	timer  *time.Timer
	passed chan struct{}
}

// New makes a deadline that is not set.
func New() *Deadline { return &Deadline{passed: make(chan struct{})} }

// Passed is closed once the deadline has passed. A deadline that is set after that has
// another channel.
func (d *Deadline) Passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.passed
}

// Set replaces the deadline; the zero time is none.
func (d *Deadline) Set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	// A timer that could no longer be stopped closes the channel that it was for.
	select {
	case <-d.passed:
		d.passed = make(chan struct{})
	default:
	}
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		close(d.passed)
		return
	}
	passed := d.passed
	var timer *time.Timer
	timer = time.AfterFunc(left, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.timer == timer {
			close(passed)
			d.timer = nil
		}
	})
	d.timer = timer
}

// HasPassed is true once the deadline has passed.
func (d *Deadline) HasPassed() bool {
	select {
	case <-d.Passed():
		return true
	default:
		return false
	}
}

// Stop frees the timer: the deadline will not pass any more.
func (d *Deadline) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
