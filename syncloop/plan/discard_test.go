package plan

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestDiscard: what an evicted pod has on its host goes once the pod has ended, and so does
// what a pod has that ended before, when its host needs the room.
func TestDiscard(t *testing.T) {
	evicted := &TerminationOrder{
		Deadline: at(9), Phase: corev1.PodFailed, Reason: "Evicted", Disrupted: true, Discard: true,
	}
	discard := func(in Input, order *TerminationOrder) Input { in.Order = order; return in }
	for _, tt := range []struct {
		planCase
		discarded bool
	}{
		{planCase: planCase{
			name: "it runs: stopped", in: discard(input(aPod(running(0)), 8, attempt(0, true, runs("a", 0, 1))), evicted),
			want: []string{"stop attempt 0 with grace 2s"}, phase: "Failed", couldRun: true,
		}},
		{planCase: planCase{
			name: "it has ended, its sandbox lives: stopped",
			in:   discard(input(aPod(running(0)), 8, attempt(0, true, ran1("a", 0, 1, 2, 143))), evicted),
			want: []string{"stop attempt 0 with grace 2s"}, phase: "Failed",
		}},
		{planCase: planCase{
			name: "nothing is live: removed",
			in:   discard(input(aPod(running(0)), 8, attempt(0, false, ran1("a", 0, 1, 2, 143))), evicted),
			want: []string{"remove attempt 0"}, phase: "Failed",
		}},
		{planCase: planCase{
			name: "proved", in: discard(input(aPod(running(0)), 8), evicted), phase: "Failed",
			mem: func(m *Memory) { m.Removes[0] = Removal{Count: 2, Proven: true} },
		}, discarded: true},
		{planCase: planCase{
			name: "completed before: removed, no outcome changes",
			in: discard(
				input(aPod(policy("Never"), completed), 9, attempt(0, false, ran1("a", 0, 1, 2, 0))),
				&TerminationOrder{Deadline: at(9), Discard: true},
			),
			want: []string{"remove attempt 0"}, phase: "Succeeded",
		}},
		{planCase: planCase{
			name: "it completed just before it was evicted: no disruption",
			in:   discard(input(aPod(policy("Never"), completed), 9, attempt(0, false, ran1("a", 0, 1, 2, 0))), evicted),
			want: []string{"remove attempt 0"}, phase: "Succeeded",
		}},
		{planCase: planCase{
			name:  "a task has no host",
			in:    task(discard(input(aPod(running(0)), 8, attempt(0, false, ran1("a", 0, 1, 2, 143))), evicted)),
			phase: "Failed",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := tt.decide(t)
			if p.Discarded != tt.discarded || p.Reclaimed || p.CouldRun != tt.couldRun {
				t.Errorf("discarded %v, reclaimed %v, could run %v", p.Discarded, p.Reclaimed, p.CouldRun)
			}
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.DisruptionTarget && tt.phase == "Succeeded" {
					t.Errorf("a pod that succeeded was disrupted: %+v", c)
				}
			}
		})
	}
}

// ordered has the node order the end of the pod.
func ordered(in Input, deadline time.Time) Input {
	in.Order = &TerminationOrder{Deadline: deadline, Phase: corev1.PodFailed, Reason: "Evicted"}
	return in
}
