package ecs

import (
	"context"
	"sync"
	"time"
)

// way is what messages of a session go over in one direction: it takes any number,
// and does to them what the configuration says.
type way struct {
	latency time.Duration
	// some wakes who carries.
	some chan struct{}

	mu     sync.Mutex
	loss   lossy
	queued []parcel
}

// parcel is a message under way.
type parcel struct {
	due  time.Time
	data []byte
}

func newWay(cfg SessionConfig) *way {
	return &way{latency: cfg.Latency, loss: lossy{faults: cfg.Faults}, some: make(chan struct{}, 1)}
}

// send lets a message go, whatever becomes of it.
func (w *way) send(data []byte) {
	w.mu.Lock()
	arriving := w.loss.pass(data)
	w.mu.Unlock()
	for _, d := range arriving {
		w.put(d)
	}
}

// put lets a message arrive.
func (w *way) put(data []byte) {
	w.mu.Lock()
	w.queued = append(w.queued, parcel{time.Now().Add(w.latency), data})
	w.mu.Unlock()
	select {
	case w.some <- struct{}{}:
	default:
	}
}

func (w *way) length() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queued)
}

// carry delivers messages when they are due, until the context ends or one cannot
// be delivered.
func (w *way) carry(ctx context.Context, deliver func([]byte) error) {
	for {
		w.mu.Lock()
		some := w.queued
		w.queued = nil
		w.mu.Unlock()
		for _, p := range some {
			if pause(ctx, time.Until(p.due)) != nil || deliver(p.data) != nil {
				return
			}
		}
		if len(some) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-w.some:
		}
	}
}

// lossy does to messages what a bad way does.
type lossy struct {
	faults FrameFaults
	n      int
	held   []byte
}

// pass returns what arrives of a message.
func (l *lossy) pass(data []byte) [][]byte {
	l.n++
	every := func(n int) bool { return n > 0 && l.n%n == 0 }
	var out [][]byte
	switch {
	case every(l.faults.Drop):
	case every(l.faults.Double):
		out = [][]byte{data, data}
	case every(l.faults.Swap) && l.held == nil:
		l.held = data
		return nil
	default:
		out = [][]byte{data}
	}
	if l.held != nil {
		out, l.held = append(out, l.held), nil
	}
	return out
}
