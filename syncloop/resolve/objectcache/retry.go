package objectcache

import (
	"errors"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/burstlet/burstlet/backend"
)

const (
	// refusedBase is the first delay after Forbidden or NotFound: the Node
	// authorizer's graph, and the API server's own caches, fill a moment after a
	// pod was bound.
	refusedBase = 10 * time.Millisecond
	// failedBase is the first delay after any other failure, as of the kubelet's
	// volume operations (goroutinemap/exponentialbackoff).
	failedBase = 500 * time.Millisecond
	// retryMax bounds the delays, which double.
	retryMax = time.Minute
	// patience is how long failures are kept from pods: most end sooner.
	patience = 5 * time.Second
)

// retry counts the failures in a row of one request. The zero value has none.
type retry struct {
	failures int
	since    time.Time
	reported bool
}

// report is true once in a row of failures: the log needs no more.
func (r *retry) report() bool {
	first := !r.reported
	r.reported = true
	return first
}

// failed notes a failure and says in how long to ask again, and whether pods are
// to be told.
func (r *retry) failed(now time.Time, err error) (delay time.Duration, told bool) {
	if r.failures == 0 {
		r.since = now
	}
	base := failedBase
	if refused(err) {
		base = refusedBase
	}
	delay = min(retryMax, base<<min(r.failures, 16))
	r.failures++
	told = now.Sub(r.since) >= patience || errors.Is(err, backend.ErrUnsupported)
	if base == failedBase || told {
		delay += jitter(delay / 5)
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		delay = max(delay, time.Duration(seconds)*time.Second)
	}
	return delay, told
}

// refused reports an error that says something of the object. Any other leaves
// what is known as it is.
func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }

// jitter is a random part of limit, which may be 0.
func jitter(limit time.Duration) time.Duration {
	return time.Duration(rand.Int64N(int64(limit) + 1))
}
