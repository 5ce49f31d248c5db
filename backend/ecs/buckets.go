package ecs

import (
	"context"
	"errors"

	"golang.org/x/time/rate"

	"github.com/burstlet/burstlet/backend"
)

// buckets are AWS's documented API rates per account and region (ECS API,
// "Request throttling for the Amazon ECS API", and "Fargate throttling quotas").
// RunTask takes from two of them and is held to half of the one that it shares
// with StopTask, so stops are never behind starts.
type buckets struct {
	register, describeDefinition, modify, runTask, read, readCluster *rate.Limiter
}

func newBuckets() buckets {
	return buckets{
		register:           rate.NewLimiter(1, 20),
		describeDefinition: rate.NewLimiter(20, 50),
		modify:             rate.NewLimiter(40, 100),
		runTask:            rate.NewLimiter(20, 20),
		read:               rate.NewLimiter(20, 100),
		readCluster:        rate.NewLimiter(20, 50),
	}
}

// errNotSent is in the chain of an error from before anything was sent.
var errNotSent = errors.New("not sent")

// wait takes one token of each bucket. It returns Throttled if the context would
// end before they are there, Unavailable if it has ended.
func wait(ctx context.Context, limiters ...*rate.Limiter) error {
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
