package cri

import (
	"sync/atomic"
	"time"
)

// clock converts the host's times to ours. Small differences, which no user sees
// and which every measurement would find anew, count as none; others are whole
// seconds, the API's unit, so that a status does not change for a millisecond.
type clock struct {
	ahead atomic.Int64 // of the host's clock before ours, in nanoseconds
}

// tolerated is the difference that a measurement may have from what is believed
// before it is believed instead.
const tolerated = 750 * time.Millisecond

// measured takes the host's time as it was asked between before and after.
func (c *clock) measured(before, hosts, after time.Time) {
	now := before.Add(after.Sub(before) / 2)
	difference := hosts.Sub(now)
	believed := time.Duration(c.ahead.Load())
	if doubt := after.Sub(before)/2 + tolerated; (difference - believed).Abs() <= doubt {
		return
	}
	c.ahead.Store(int64(difference.Round(time.Second)))
}

// ours is a time of the host in our clock; the zero time stays.
func (c *clock) ours(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(-time.Duration(c.ahead.Load()))
}

// theirs is a time of ours in the host's clock; the zero time stays.
func (c *clock) theirs(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(time.Duration(c.ahead.Load()))
}

// fromNanos is a time of CRI's in our clock: the zero time for its "not yet".
func (r *remote) fromNanos(ns int64) time.Time {
	if ns <= 0 {
		return time.Time{}
	}
	return r.clock.ours(time.Unix(0, ns))
}
