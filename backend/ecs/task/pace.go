package task

import "time"

// How soon tasks are read anew, so that reads stay far below the rate that all
// users of an account share, and a change is still seen soon.
const (
	// readMoving is for tasks that come or go.
	readMoving = time.Second
	// readRest is for all that rest, readSlowest where there are many of them or
	// EventBridge tells of changes.
	readRest    = 5 * time.Second
	readSlowest = time.Minute
	// listOpen is for listings while it is not known what there is: a launch without
	// a reply, a task that was seen once.
	listOpen = 2 * time.Second
	// missingSlowest bounds the doubling for a task that ECS does not show (ECS API,
	// RunTask: "exponential backoff, starting with a couple of seconds").
	missingSlowest = 30 * time.Second
)

// batch is how many tasks one call describes (ECS API, DescribeTasks: tasks).
const batch = 100

// calls is how many DescribeTasks calls n tasks take.
func calls(n int) time.Duration { return time.Duration((n + batch - 1) / batch) }

// restPeriod is how often n tasks at rest are read: 15 calls a minute up to 1,500,
// then once a minute.
func restPeriod(n int, hints bool) time.Duration {
	if hints {
		return readSlowest
	}
	return min(max(calls(n)*4*time.Second, readRest), readSlowest)
}

// movingPeriod is how often n tasks that come or go are read: a quarter of the
// documented rate at most.
func movingPeriod(n int) time.Duration {
	return max(calls(n)*200*time.Millisecond, readMoving)
}

// missingPeriod is how often a task is asked for that is missing for so long.
func missingPeriod(since time.Duration) time.Duration {
	return min(max(since/2, listOpen), missingSlowest)
}
