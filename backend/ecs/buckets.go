package ecs

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/burstlet/burstlet/backend"
)

// buckets are AWS's documented API rates per account and region (ECS API,
// "Request throttling for the Amazon ECS API", and "Fargate throttling quotas").
// Stops come before starts before reads: RunTask is held to half of the bucket that
// it shares with StopTask, waiting in its own first, and reads have a bucket of
// their own. Of the bursts of RunTask and StopTask a little is left: requests may
// arrive closer to each other than they were sent.
type buckets struct {
	register, describeDefinition, modify, read, readCluster *rate.Limiter
	runTask                                                 *queue
}

func newBuckets() buckets {
	return buckets{
		register:           rate.NewLimiter(1, 20),
		describeDefinition: rate.NewLimiter(20, 50),
		modify:             rate.NewLimiter(40, 90),
		runTask:            newQueue(20, 18),
		read:               rate.NewLimiter(20, 100),
		readCluster:        rate.NewLimiter(20, 50),
	}
}

// limiter is a bucket to wait at.
type limiter interface {
	Wait(ctx context.Context) error
}

// queue is a bucket that many wait at who may leave again. A limiter alone promises
// each a token at once, and one that is given up is lost: who comes after a thousand
// that left would wait for all of theirs.
type queue struct {
	limiter *rate.Limiter
	first   chan struct{} // held by who waits for the next token
	waiting atomic.Int64
}

func newQueue(r rate.Limit, burst int) *queue {
	return &queue{limiter: rate.NewLimiter(r, burst), first: make(chan struct{}, 1)}
}

var errTooLong = errors.New("the queue is longer than the call may wait")

// Wait takes a token, in the order of calls. It fails at once if the context would
// end before.
func (q *queue) Wait(ctx context.Context) error {
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

// errNotSent is in the chain of an error from before anything was sent.
var errNotSent = errors.New("not sent")

// wait takes one token of each bucket, unless what the call is to make is not wanted
// any more. It returns Throttled if the context would end before they are there,
// Unavailable if it has ended.
func wait(ctx context.Context, limiters ...limiter) error {
	ctx, cancel := backend.Wanted(ctx)
	defer cancel()
	for _, l := range limiters {
		if err := l.Wait(ctx); err != nil {
			class := backend.ErrThrottled
			if ctx.Err() != nil {
				class = backend.ErrUnavailable
			}
			return backend.Errorf(class, "wait for the rate limit of the ECS API: %w, %w", errNotSent, err)
		}
	}
	return nil
}
