package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestEnd reads as the rules of the way down.
func TestEnd(t *testing.T) {
	alive := attempt(0, true, runs("a", 0, 1))
	dead := attempt(0, true, ran1("a", 0, 1, 2, 143))
	for _, tt := range []planCase{
		{
			name: "deleted: stop within the grace asked for", in: input(aPod(deleted(7, 9), running(0)), 2, alive),
			want: []string{"stop attempt 0 with grace 7s"}, phase: "Running", couldRun: true,
		},
		{
			name: "deleted with grace 0: still a moment", in: input(aPod(deleted(0, 2), running(0)), 2, alive),
			want: []string{"stop attempt 0 with grace 2s"}, phase: "Running", couldRun: true,
		},
		{
			name: "asked already: wait", in: input(aPod(deleted(7, 9), running(0)), 4, alive),
			mem: func(m *Memory) {
				m.Termination = &TerminationOrder{Deadline: at(9), Gone: true}
				m.Stops[0] = StopRequest{At: at(2), Deadline: at(9)}
			},
			phase: "Running", couldRun: true,
		},
		{
			name: "a shorter grace replaces the longer one", in: input(aPod(deleted(1, 5), running(0)), 4, alive),
			mem: func(m *Memory) {
				m.Termination = &TerminationOrder{Deadline: at(32), Gone: true}
				m.Stops[0] = StopRequest{At: at(2), Deadline: at(32)}
			},
			want: []string{"stop attempt 0 with grace 2s"}, phase: "Running", couldRun: true,
		},
		{
			name: "a longer grace does not", in: input(aPod(deleted(60, 64), running(0)), 4, alive),
			mem: func(m *Memory) {
				m.Termination = &TerminationOrder{Deadline: at(9), Gone: true}
				m.Stops[0] = StopRequest{At: at(2), Deadline: at(9)}
			},
			phase: "Running", couldRun: true,
		},
		{
			name: "no exit seen: asked again with what is left", in: input(aPod(deleted(30, 32), running(0)), 12, alive),
			mem: func(m *Memory) {
				m.Termination = &TerminationOrder{Deadline: at(32), Gone: true}
				m.Stops[0] = StopRequest{At: at(2), Deadline: at(32)}
			},
			want: []string{"stop attempt 0 with grace 20s"}, phase: "Running", couldRun: true,
		},
		{
			name: "exited: terminal, and removed", in: input(aPod(deleted(7, 9), running(0)), 3, dead),
			want: []string{"remove attempt 0"}, phase: "Failed",
		},
		{
			name: "exited with 0: succeeded",
			in:   input(aPod(deleted(7, 9), running(0)), 3, attempt(0, true, ran1("a", 0, 1, 2, 0))),
			want: []string{"remove attempt 0"}, phase: "Succeeded",
		},
		{
			name: "gone, but not proved: ask once", in: input(aPod(deleted(7, 9)), 3),
			want: []string{"remove attempt 0"}, phase: "Failed",
		},
		{
			name: "gone and proved: reclaimed", in: input(aPod(deleted(7, 9)), 3),
			mem:   func(m *Memory) { m.Removes[0] = Removal{Count: 1, Proven: true} },
			phase: "Failed", reclaimed: true,
		},
		{
			name: "removed: prove it at once", in: input(aPod(deleted(7, 9)), 3, dead),
			mem:  func(m *Memory) { m.Removes[0] = Removal{Count: 1, Last: at(2.95)} },
			want: []string{"remove attempt 0"}, phase: "Failed",
		},
		{
			name: "removed twice without proof: again after a while", in: input(aPod(deleted(7, 9)), 3, dead),
			mem:   func(m *Memory) { m.Removes[0] = Removal{Count: 2, Last: at(2.95)} },
			phase: "Failed",
		},
		{
			name: "a launch without a reply may yet appear: wait until it settled", in: input(aPod(deleted(7, 9)), 3),
			mem:   func(m *Memory) { m.Lost[0] = at(1) },
			phase: "Failed",
		},
		{
			name: "settled: prove it", in: input(aPod(deleted(7, 9)), 7),
			mem:  func(m *Memory) { m.Lost[0] = at(1) },
			want: []string{"remove attempt 0"}, phase: "Failed",
		},
		{
			name: "a task without a reply, settled by facts from before: it may run until its removal proves otherwise",
			in:   task(input(aPod(deleted(7, 9)), 7)), mem: func(m *Memory) { m.Lost[0] = at(1) },
			want: []string{"remove attempt 0"}, phase: "Failed", couldRun: true,
		},
		{
			name: "a start without a reply: its container may run", in: input(aPod(deleted(7, 9)), 3, attempt(0, true)),
			mem:  func(m *Memory) { m.LostStarts["a"] = at(1) },
			want: []string{"remove attempt 0"}, phase: "Failed", couldRun: true, wake: 6,
		},
		{
			name: "settled, and its sandbox is there: it may run still", in: input(aPod(deleted(7, 9)), 7, attempt(0, true)),
			mem:  func(m *Memory) { m.LostStarts["a"] = at(1) },
			want: []string{"remove attempt 0"}, phase: "Failed", couldRun: true,
		},
		{
			name: "settled, and its sandbox has ended: it does not", in: input(aPod(deleted(7, 9)), 7, attempt(0, false)),
			mem:  func(m *Memory) { m.LostStarts["a"] = at(1) },
			want: []string{"remove attempt 0"}, phase: "Failed",
		},
		{
			name: "completed: the sandbox ends, containers stay for their logs",
			in:   input(aPod(policy("Never"), completed), 9, attempt(0, true, ran1("a", 0, 1, 2, 0))),
			want: []string{"stop attempt 0 with grace 30s"}, phase: "Succeeded",
		},
		{
			name: "completed and sandbox ended: nothing to do",
			in:   input(aPod(policy("Never"), completed), 9, attempt(0, false, ran1("a", 0, 1, 2, 0))), phase: "Succeeded",
		},
		{
			name: "completed in the API, container forgotten by the remote: not run again",
			in:   input(aPod(policy("Always"), completed), 9), phase: "Succeeded",
		},
		{
			name: "completed, then deleted",
			in:   input(aPod(policy("Never"), completed, deleted(7, 16)), 9, attempt(0, false, ran1("a", 0, 1, 2, 0))),
			want: []string{"remove attempt 0"}, phase: "Succeeded",
		},
		{
			name: "vanished from the API", in: removed(input(aPod(running(0)), 9, alive)),
			want: []string{"stop attempt 0 with grace 30s"}, phase: "Running", couldRun: true,
		},
		{
			name: "behaviour 23: an orphan has 2 s to exit too", in: orphan(input(nil, 9, alive)),
			want: []string{"stop attempt 0 with grace 2s"}, couldRun: true,
		},
		{
			name: "behaviour 23: and a pod without any grace whose time is over",
			in:   input(aPod(noGrace, running(0), overdue), 9, alive),
			want: []string{"stop attempt 0 with grace 2s"}, phase: "Failed", couldRun: true,
		},
		{
			name: "behaviour 23: and one that is evicted", in: ordered(input(aPod(running(0)), 9, alive), at(10)),
			want: []string{"stop attempt 0 with grace 2s"}, phase: "Failed", couldRun: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := tt.decide(t)
			if p.Reclaimed != tt.reclaimed || p.CouldRun != tt.couldRun {
				t.Errorf("reclaimed %v could run %v, want %v %v", p.Reclaimed, p.CouldRun, tt.reclaimed, tt.couldRun)
			}
		})
	}
}

func completed(pod *corev1.Pod) {
	running(0)(pod)
	pod.Status.Phase = corev1.PodSucceeded
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
}

func noGrace(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = new(int64) }

// overdue has activeDeadlineSeconds passed.
func overdue(pod *corev1.Pod) {
	pod.Spec.ActiveDeadlineSeconds = new(int64)
	pod.Status.StartTime = &metav1.Time{Time: t0}
}

func removed(in Input) Input { in.Removed = true; return in }

func orphan(in Input) Input { in.Ref = in.Facts[0].Ref; return in }
