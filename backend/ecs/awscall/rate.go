package awscall

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/burstlet/burstlet/backend"
)

// Limiter is a bucket of tokens to wait at.
type Limiter interface {
	Wait(ctx context.Context) error
}

// Queue is a bucket of tokens whose waiters may leave again. A rate.Limiter alone
// reserves a token for each waiter at once, and a reserved token that is given up is
// lost: the next caller would wait for the tokens of all that left.
type Queue struct {
	limiter *rate.Limiter
	first   chan struct{} // held by the one that waits for the next token
	waiting atomic.Int64
}

// NewQueue returns a full bucket of burst tokens that gains r tokens a second.
func NewQueue(r rate.Limit, burst int) *Queue {
	return &Queue{limiter: rate.NewLimiter(r, burst), first: make(chan struct{}, 1)}
}

var errTooLong = errors.New("the queue is longer than the call may wait")

// Wait takes a token, in the order of calls. It fails at once if the context would
// end before.
func (q *Queue) Wait(ctx context.Context) error {
	ahead := float64(q.waiting.Add(1) - 1)
	defer q.waiting.Add(-1)
	turn := time.Duration((ahead - q.limiter.Tokens()) / float64(q.limiter.Limit()) * float64(time.Second))
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < turn {
		return errTooLong
	}
	select {
	case q.first <- struct{}{}:
		defer func() { <-q.first }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return q.limiter.Wait(ctx)
}

// Waiting is how many callers wait for a token now.
func (q *Queue) Waiting() int { return int(q.waiting.Load()) }

// ErrNotSent is in the chain of an error from before anything was sent.
var ErrNotSent = errors.New("not sent")

// Wait takes one token of each bucket, in order. Errors: Throttled if the context would
// end before the tokens are there, Unavailable if it has ended; both wrap ErrNotSent.
func Wait(ctx context.Context, limiters ...Limiter) error {
	for _, l := range limiters {
		if err := l.Wait(ctx); err != nil {
			class := backend.ErrThrottled
			if ctx.Err() != nil {
				class = backend.ErrUnavailable
			}
			return backend.Errorf(class, "wait for the rate limit of the ECS API: %w, %w", ErrNotSent, err)
		}
	}
	return nil
}
