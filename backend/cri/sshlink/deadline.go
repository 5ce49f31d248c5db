package sshlink

import (
	"sync"
	"time"
)

// deadline is the deadline of one direction: its channel is closed once the
// deadline has passed, and replaced when a new one is set.
type deadline struct {
	mu     sync.Mutex
	timer  *time.Timer
	passed chan struct{}
}

func newDeadline() *deadline { return &deadline{passed: make(chan struct{})} }

func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.passed
}

// set replaces the deadline; the zero time is none.
func (d *deadline) set(t time.Time) {
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

func (d *deadline) isPassed() bool {
	select {
	case <-d.wait():
		return true
	default:
		return false
	}
}

// stop frees the timer.
func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
