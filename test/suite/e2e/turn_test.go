package e2e

import (
	"flag"
	"slices"
	"sync"
	"testing"
	"time"
)

// share is how much of the machine a test takes.
type share int

const (
	// waiter is a test that mostly waits for time to pass: an outage, a cut, a backoff.
	waiter share = iota
	// worker is a test that keeps a core busy: rollouts, kills, many pods.
	worker
)

// turns lets the package's tests run beside each other, but not all: so many of each
// share at a time. Of those that stand in line the longest goes first, so that no
// long one runs alone in the end.
var turns = lineOf(map[share]int{waiter: 6, worker: 3})

type line struct {
	mu      sync.Mutex
	free    map[share]int
	waiting map[share][]place
}

type place struct {
	takes time.Duration
	begin chan struct{}
}

func lineOf(free map[share]int) *line {
	return &line{free: free, waiting: map[share][]place{}}
}

// turn makes a test parallel and returns when it may begin. It takes about so long
// on two cores; the order alone depends on it.
func turn(t *testing.T, s share, takes time.Duration) {
	t.Helper()
	p := turns.stand(s, takes) // before any parallel test goes on, so that all are in line
	t.Parallel()
	turns.call(s)
	<-p.begin
	began := time.Now()
	t.Cleanup(func() {
		t.Logf("its turn took %s", time.Since(began).Round(time.Second))
		turns.leave(s)
	})
}

func (l *line) stand(s share, takes time.Duration) place {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := place{takes, make(chan struct{})}
	l.waiting[s] = append(l.waiting[s], p)
	slices.SortStableFunc(l.waiting[s], func(x, y place) int { return int(y.takes - x.takes) })
	return p
}

// call lets in those for whom there is room.
func (l *line) call(s share) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.free[s] > 0 && len(l.waiting[s]) > 0 {
		close(l.waiting[s][0].begin)
		l.waiting[s] = l.waiting[s][1:]
		l.free[s]--
	}
}

func (l *line) leave(s share) {
	l.mu.Lock()
	l.free[s]++
	l.mu.Unlock()
	l.call(s)
}

// letAllStand makes every test that calls turn stand in line at once: how many run
// is the line's matter, not that of -parallel.
func letAllStand() error {
	flag.Parse()
	return flag.Set("test.parallel", "1000")
}

func TestTheLongestGoesFirst(t *testing.T) {
	l := lineOf(map[share]int{worker: 1})
	short, long := l.stand(worker, time.Second), l.stand(worker, time.Minute)
	l.call(worker)
	l.call(worker) // there is room for one
	select {
	case <-long.begin:
	default:
		t.Fatal("the longest waits")
	}
	select {
	case <-short.begin:
		t.Fatal("two go at once")
	default:
	}
	l.leave(worker)
	select {
	case <-short.begin:
	default:
		t.Fatal("nobody goes when one has left")
	}
}
