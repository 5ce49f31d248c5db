package ssm

import (
	"slices"
	"time"
)

// Numbers of sending again, after RFC 6298 as both ends of the protocol have it
// (amazon-ssm-agent, agent/session/config/config.go).
const (
	firstTimeout   = 200 * time.Millisecond
	maxTimeout     = time.Second
	firstRoundTrip = 100 * time.Millisecond
	granularity    = 10 * time.Millisecond
	// window is how many frames may be under way, unacknowledged.
	window = 512
	// resent is how many of them are sent again at once, the oldest.
	resent = 16
	// giveUp is how long a frame may go unacknowledged.
	giveUp = time.Minute
)

// outbox keeps what was sent until it is acknowledged.
type outbox struct {
	next int64
	// unacked are in the order of their numbers.
	unacked []*sent
	// roundTrip is a mean, variation that of its changes.
	roundTrip, variation, timeout time.Duration
}

type sent struct {
	sequence    int64
	data        []byte
	first, last time.Time
	again       bool
}

func newOutbox() outbox { return outbox{roundTrip: firstRoundTrip, timeout: firstTimeout} }

func (o *outbox) full() bool { return len(o.unacked) >= window }

// add makes the next frame of the stream and returns its bytes.
func (o *outbox) add(what payloadType, payload []byte, now time.Time) []byte {
	f := frame{kind: typeInput, created: now, sequence: o.next, id: newMessageID(), what: what, payload: payload}
	s := &sent{sequence: o.next, data: f.encode(), first: now, last: now}
	o.next++
	o.unacked = append(o.unacked, s)
	return s.data
}

// acked forgets a frame that came. Each has an acknowledgement of its own.
func (o *outbox) acked(sequence int64, now time.Time) {
	i, ok := slices.BinarySearchFunc(o.unacked, sequence, func(s *sent, n int64) int { return int(s.sequence - n) })
	if !ok {
		return
	}
	if s := o.unacked[i]; !s.again { // else it is not known which time was answered
		o.measure(now.Sub(s.last))
	}
	o.unacked = slices.Delete(o.unacked, i, i+1)
}

// measure adapts the timeout to a round trip.
func (o *outbox) measure(took time.Duration) {
	o.variation += ((o.roundTrip - took).Abs() - o.variation) / 4
	o.roundTrip += (took - o.roundTrip) / 8
	o.timeout = min(maxTimeout, o.roundTrip+max(granularity, 4*o.variation))
}

// due returns what is to be sent again now. lost is true once a frame was without
// an answer for too long.
func (o *outbox) due(now time.Time) (again [][]byte, lost bool) {
	for _, s := range o.unacked[:min(len(o.unacked), resent)] {
		if now.Sub(s.first) >= giveUp {
			return nil, true
		}
		wait := o.timeout
		if s.again {
			wait = maxTimeout
		}
		if now.Sub(s.last) < wait {
			continue
		}
		s.last, s.again = now, true
		again = append(again, s.data)
	}
	return again, false
}
