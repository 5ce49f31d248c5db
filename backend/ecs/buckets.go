package ecs

import (
	"golang.org/x/time/rate"

	"github.com/burstlet/burstlet/backend/ecs/awscall"
)

// buckets are AWS's documented API rates per account and region (ECS API,
// "Request throttling for the Amazon ECS API", and "Fargate throttling quotas").
// Stops come before starts before reads: RunTask is held to half of the bucket that
// it shares with StopTask, waiting in its own first, and reads have a bucket of
// their own. Of the bursts of RunTask and StopTask a little is left: requests may
// arrive closer to each other than they were sent.
type buckets struct {
	register, describeDefinition, modify, read, readCluster *rate.Limiter
	runTask                                                 *awscall.Queue
}

func newBuckets() buckets {
	return buckets{
		register:           rate.NewLimiter(1, 20),
		describeDefinition: rate.NewLimiter(20, 50),
		modify:             rate.NewLimiter(40, 90),
		runTask:            awscall.NewQueue(20, 18),
		read:               rate.NewLimiter(20, 100),
		readCluster:        rate.NewLimiter(20, 50),
	}
}
