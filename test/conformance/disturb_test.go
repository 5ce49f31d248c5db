package conformance

import (
	"os"
	"testing"
	"time"
)

func TestDisturbanceKillsAndStartsUntilItEnds(t *testing.T) {
	n := scripted(t, "echo life\nexec sleep 1000")
	n.awaitLog(t, "life", 1)
	undisturbed := (&Cluster{node: n}).Disturb(t.Context(), Disturbance{KillEvery: 500 * time.Millisecond})
	n.awaitLog(t, "life", 3)
	if err := undisturbed(); err != nil {
		t.Error(err)
	}
	select {
	case <-n.done:
		t.Error("it does not run at the end")
	case err := <-n.failed:
		t.Errorf("a kill is a failure: %v", err)
	default:
	}
}

func TestDisturbanceTellsWhatItCouldNotDo(t *testing.T) {
	n := scripted(t, "echo life\nexec sleep 1000")
	n.awaitLog(t, "life", 1)
	if err := os.Remove(n.program); err != nil {
		t.Fatal(err)
	}
	undisturbed := (&Cluster{node: n}).Disturb(t.Context(), Disturbance{KillEvery: 10 * time.Millisecond})
	<-n.done
	if err := undisturbed(); err == nil {
		t.Error("a program that is gone was started again")
	}
}
