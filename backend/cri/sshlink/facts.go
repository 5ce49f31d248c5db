package sshlink

import (
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// stageWords are how far an attempt came, for counters.
var stageWords = map[stage]string{
	stageSetup: "setup", stageReach: "reach", stageHostKey: "host_key", stageAuthenticate: "authenticate",
}

// counts are of one line.
type counts struct {
	connects, losses uint64
	failures         map[string]uint64
}

// countConnect counts a connection that was made.
func (l *line) countConnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.connects++
}

// count counts the end of a connection, or of an attempt to make one.
func (l *line) count(connected bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if connected {
		l.counts.losses++
		return
	}
	at := stageReach
	var failed *connectError
	if errors.As(err, &failed) {
		at = failed.stage
	}
	if l.counts.failures == nil {
		l.counts.failures = map[string]uint64{}
	}
	l.counts.failures[stageWords[at]]++
}

// facts are those of now.
func (l *line) facts() backend.LinkFacts {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := backend.LinkFacts{
		Name: l.name, Up: l.live != nil, Connects: l.counts.connects, Losses: l.counts.losses,
		Failures: maps.Clone(l.counts.failures), Received: l.traffic.received.Load(), Sent: l.traffic.sent.Load(),
	}
	if l.live != nil {
		f.RoundTrip = time.Duration(l.live.roundTrip.Load())
	}
	return f
}

// traffic counts the bytes of a line over all its connections.
type traffic struct{ received, sent atomic.Uint64 }

func (t *traffic) receive(n int) {
	if t != nil {
		t.received.Add(uint64(n)) //nolint:gosec // never negative
	}
}

func (t *traffic) send(n int) {
	if t != nil {
		t.sent.Add(uint64(n)) //nolint:gosec // never negative
	}
}
