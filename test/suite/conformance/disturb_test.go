package conformance

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/wait"
)

func TestDisturbanceKillsAndStartsUntilItEnds(t *testing.T) {
	n := scripted(t, "echo life\nexec sleep 1000")
	n.awaitLog(t, "life", 1)
	undisturbed := (&Cluster{node: n}).Disturb(t.Context(), Disturbance{KillEvery: 500 * time.Millisecond})
	n.awaitAnother(t)
	n.awaitAnother(t)
	if err := undisturbed(); err != nil {
		t.Error(err)
	}
	n.awaitLog(t, "life", 2) // the first and the last; others may not have come so far
	select {
	case <-n.process.Done():
		t.Error("it does not run at the end")
	case err := <-n.failed:
		t.Errorf("a kill is a failure: %v", err)
	default:
	}
}

func TestDisturbanceTellsWhatItCouldNotDo(t *testing.T) {
	n := scripted(t, "echo life\nexec sleep 1000")
	n.awaitLog(t, "life", 1)
	if err := os.Remove(n.cfg.Program); err != nil {
		t.Fatal(err)
	}
	gone := n.process.Done()
	undisturbed := (&Cluster{node: n}).Disturb(t.Context(), Disturbance{KillEvery: 10 * time.Millisecond})
	<-gone
	if err := undisturbed(); err == nil {
		t.Error("a program that is gone was started again")
	}
}

// awaitAnother waits until the process is another.
func (n *node) awaitAnother(t *testing.T) {
	t.Helper()
	pid := func() int {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.process.Pid()
	}
	before := pid()
	wait.For(t, patience, "another process", func() error {
		if pid() == before {
			return fmt.Errorf("process %d is not replaced", before)
		}
		return nil
	})
}
