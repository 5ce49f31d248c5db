package soak

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// What docs/operations.md promises; the two are changed together.
const (
	// leaseGap: a node renews its lease every 10 s, and misses one renewal at most.
	leaseGap = 20 * time.Second
	// leaseLife is after what silence a lease has run out: not even when the process that
	// leads is killed.
	leaseLife = 40 * time.Second
	// failover is how long a node is without a process after the one that led it was killed.
	failover = 20 * time.Second
	// podStart is the 99th percentile of the time from a pod's creation until it is Ready,
	// its image being there.
	podStart = 5 * time.Second
	// statusLatency is the 99th percentile of the time from a change until the API has it.
	statusLatency = 5 * time.Second
	// lifeWrites is how many writes of the pod its life may cost under load; a kubelet's costs
	// 6.4 without.
	lifeWrites = 6.0
	// growth is how much more of memory, goroutines or files a process may have in its last
	// part than in its second.
	growth = 1.1
)

// gap is the time between two renewals of a lease.
type gap struct {
	from, to time.Time
	// killed says that the process that led was killed meanwhile.
	killed bool
}

func (g gap) length() time.Duration { return g.to.Sub(g.from) }

// gaps are the times between renewals, given in order; end is when nobody looked any more.
func gaps(renewals, kills []time.Time, end time.Time) []gap {
	var found []gap
	for i, from := range renewals {
		to := end
		if i+1 < len(renewals) {
			to = renewals[i+1]
		}
		found = append(found, gap{from, to, slices.ContainsFunc(kills, func(k time.Time) bool {
			return !k.Before(from) && k.Before(to)
		})})
	}
	return found
}

// onTime wants no lease missed by more than a renewal, nor run out when a process was killed.
func onTime(found []gap) error {
	if len(found) < 2 {
		return fmt.Errorf("%d renewals seen", len(found))
	}
	var errs []error
	for _, g := range found {
		limit := leaseGap
		if g.killed {
			limit = leaseLife
		}
		if g.length() > limit {
			errs = append(
				errs, fmt.Errorf("not renewed from %s for %v, want %v", g.from.Format(time.TimeOnly), g.length(), limit),
			)
		}
	}
	return errors.Join(errs...)
}

// longest is the longest gap in which the leader was killed, or was not.
func longest(found []gap, killed bool) (most time.Duration) {
	for _, g := range found {
		if g.killed == killed {
			most = max(most, g.length())
		}
	}
	return most
}

// flat compares the median of the last part with that of the first. What is there besides
// growth, slack, is for numbers so small that one more is much.
func flat(what string, parts [][]float64, slack float64) error {
	if len(parts) < 2 || len(parts[0]) == 0 || len(parts[len(parts)-1]) == 0 {
		return fmt.Errorf("%s was not sampled", what)
	}
	first, last := median(parts[0]), median(parts[len(parts)-1])
	if last > first*growth+slack {
		return fmt.Errorf("%s grew from %.1f to %.1f", what, first, last)
	}
	return nil
}

func median(of []float64) float64 { return quantile(of, 0.5) }

// quantile is the smallest number that a part q of all does not exceed; 0 of none.
func quantile(of []float64, q float64) float64 {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// bucket is one of a histogram: how many were at most so long.
type bucket struct{ atMost, count float64 }

// within is the bound of the bucket that a part q of all is in, and how many there are. The
// true quantile is not above it.
func within(buckets []bucket, q float64) (bound, count float64) {
	if len(buckets) == 0 {
		return 0, 0
	}
	count = buckets[len(buckets)-1].count
	for _, b := range buckets {
		if bound = b.atMost; b.count >= q*count {
			break
		}
	}
	return bound, count
}

// since is what was observed after an earlier look.
func since(before, after []bucket) []bucket {
	diff := slices.Clone(after)
	for i := range diff {
		if i < len(before) {
			diff[i].count -= before[i].count
		}
	}
	return diff
}
