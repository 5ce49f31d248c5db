package intask

import "testing"

// What the agent of ECS Exec runs in a container is none of the container's: AWS starts it
// from outside, where its parent is not seen.
func TestWhatDescendsFromASupervisor(t *testing.T) {
	const supervisor, main, child, orphan, agent, worker, stranger = 1, 10, 11, 12, 20, 21, 30
	parents := map[int]int{
		supervisor: 0, main: supervisor, child: main, orphan: supervisor, agent: 0, worker: agent, stranger: 31, 31: 30,
	}
	for pid, want := range map[int]bool{
		supervisor: false, main: true, child: true, orphan: true, agent: false, worker: false, stranger: false,
	} {
		if got := descends(parents, pid, supervisor); got != want {
			t.Errorf("%d: %t", pid, got)
		}
	}
}
