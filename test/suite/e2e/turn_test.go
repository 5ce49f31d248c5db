package e2e

import (
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
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
var turns *line

// usual is how long a process may take to start, while each core starts them, on a machine
// that has room for all that is to run at once. Such starts are most of what containers make a
// machine do: of runtimes, shims, plugins for networks and probes. Where they take longer,
// fewer tests and rows run beside each other, so that they meet their deadlines still.
const usual = 3 * time.Millisecond

// startTakes is how long a process takes to start on this machine.
var startTakes time.Duration

// room is how many run at once on this machine where n do on a usual one.
func room(n int) int {
	if startTakes <= usual {
		return n
	}
	return max(1, int(math.Round(float64(n)*float64(usual)/float64(startTakes))))
}

// stretched is how long this machine may take for what a usual one does in d.
func stretched(d time.Duration) time.Duration {
	return time.Duration(float64(d) * max(1, float64(startTakes)/float64(usual)))
}

// takeTurns prepares the line.
func takeTurns() error {
	for range 3 { // the least: other things start on the machine as well
		took, err := startsProcesses(20)
		if err != nil {
			return err
		}
		if startTakes == 0 || took < startTakes {
			startTakes = took
		}
	}
	turns = lineOf(map[share]int{waiter: room(6), worker: room(3)})
	fmt.Fprintf(os.Stderr, "a process starts in %v: %d tests that wait and %d that work at once\n",
		startTakes.Round(10*time.Microsecond), turns.free[waiter], turns.free[worker])
	return letAllStand()
}

// startsProcesses is how long one takes of n that each core starts one after the other.
func startsProcesses(n int) (time.Duration, error) {
	var cores errgroup.Group
	began := time.Now()
	for range runtime.NumCPU() {
		cores.Go(func() error {
			for range n {
				if err := exec.Command("true").Run(); err != nil {
					return fmt.Errorf("measure how long a process takes to start: %w", err)
				}
			}
			return nil
		})
	}
	err := cores.Wait()
	return time.Since(began) / time.Duration(n), err
}

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

func TestRoom(t *testing.T) {
	measured := startTakes
	t.Cleanup(func() { startTakes = measured })
	for _, tt := range []struct {
		takes   time.Duration
		n, want int
	}{{usual / 4, 6, 6}, {usual, 3, 3}, {2 * usual, 6, 3}, {3 * usual, 3, 1}, {100 * usual, 6, 1}} {
		if startTakes = tt.takes; room(tt.n) != tt.want {
			t.Errorf("%d of %d at once where a process starts in %v, want %d", room(tt.n), tt.n, tt.takes, tt.want)
		}
		if want := time.Minute * max(1, tt.takes/usual); stretched(time.Minute) != want {
			t.Errorf("a minute is %v where a process starts in %v, want %v", stretched(time.Minute), tt.takes, want)
		}
	}
}
