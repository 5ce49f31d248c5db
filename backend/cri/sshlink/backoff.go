package sshlink

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/burstlet/burstlet/backend"
)

const (
	firstPause = 100 * time.Millisecond
	// longestPause is between attempts to reach the host.
	longestPause = 5 * time.Second
	// longestDenied is between attempts to log in with keys that the host refuses: an
	// sshd that punishes those (PerSourcePenalties, 5 s each since OpenSSH 9.8) would
	// lock us out for ten minutes if the two connections asked more often.
	longestDenied = 20 * time.Second
	// jitter is the part of a pause that is left to chance.
	jitter = 0.2
)

// backoff grows from one failure to the next.
type backoff struct{ next time.Duration }

// reset is for after a success.
func (b *backoff) reset() { b.next = 0 }

// pause is how long to wait after a failure.
func (b *backoff) pause(err error) time.Duration {
	longest := longestPause
	if errors.Is(err, backend.ErrDenied) {
		longest = longestDenied
	}
	b.next = min(max(2*b.next, firstPause), longest)
	return time.Duration(float64(b.next) * (1 - jitter + 2*jitter*rand.Float64())) //nolint:gosec // no secret
}
