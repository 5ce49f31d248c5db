package plan

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// newMemory starts from what the API holds, with maps that tests fill.
func newMemory(status corev1.PodStatus) Memory {
	return Memory{
		Status: status, Backoff: map[string]Backoff{}, Failures: map[string]Failure{},
		Lost: map[int]time.Time{}, LostStarts: map[string]time.Time{}, Stops: map[int]StopRequest{},
		Removes:        map[int]Removal{},
		ContainerStops: map[string]StopRequest{}, Hooks: map[HookKey]HookState{}, Placed: map[string]string{},
		Mounted: map[string]bool{},
		Known:   map[string]Progress{},
	}
}

// TestAdopt reads as what is assumed of a pod from an earlier life.
func TestAdopt(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   Input
		lost []int
		left float64 // seconds of grace, 0 for no order
	}{
		{name: "no facts: a launch may be under way", in: input(aPod(), 10), lost: []int{0}},
		{name: "a live sandbox: none is", in: input(aPod(), 10, attempt(0, true))},
		{
			name: "a sandbox just made: a twin of its launch may be",
			in:   settles(input(aPod(), 10, attempt(0, true)), 9*time.Second), lost: []int{0},
		},
		{name: "one just made of which there can be no other", in: once(settles(
			input(aPod(), 10, attempt(0, true)), 9*time.Second,
		))},
		{name: "a dead sandbox: the next may be", in: input(aPod(), 10, attempt(0, false)), lost: []int{1}},
		{name: "completed: a sandbox may yet appear", in: input(aPod(completed), 10), lost: []int{0}},
		{name: "completed task: told when no launch could make one", in: task(input(aPod(completed), 10))},
		{name: "deleted long ago: a moment is left", in: input(aPod(deleted(30, 5)), 10, attempt(0, true)), left: 2},
		{name: "deleted a while ago: the rest is left", in: input(aPod(deleted(30, 25)), 10, attempt(0, true)), left: 15},
		{
			name: "deleted just now, by a clock ahead of ours: no more than was asked for",
			in:   input(aPod(deleted(30, 90)), 10, attempt(0, true)), left: 30,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMemory(tt.in.Memory.Status)
			m.Adopt(&tt.in, at(8))
			if got := slices.Sorted(maps.Keys(m.Lost)); !slices.Equal(got, tt.lost) {
				t.Errorf("lost launches %v, want %v", got, tt.lost)
			}
			switch {
			case (m.Termination == nil) != (tt.left == 0):
				t.Errorf("order %+v", m.Termination)
			case m.Termination != nil && !m.Termination.Deadline.Equal(at(10+tt.left)):
				t.Errorf("deadline %v, want %v", m.Termination.Deadline, at(10+tt.left))
			}
		})
	}
}

// TestAdoptStarts reads as whether a start of an earlier life may be under way.
func TestAdoptStarts(t *testing.T) {
	for name, tt := range map[string]struct {
		in   Input
		want bool
	}{
		"a live sandbox, and its container does not run":    {input(aPod(), 10, attempt(0, true)), true},
		"a live sandbox, and its container runs":            {input(aPod(), 10, attempt(0, true, runs("a", 0, 5))), false},
		"nothing was ever seen of it":                       {input(aPod(), 10), false},
		"it ran and has vanished, its sandbox's number too": {input(aPod(running(0)), 10), true},
		"it ran, and its sandbox is dead":                   {input(aPod(running(0)), 10, attempt(0, false)), false},
		"completed":                                         {input(aPod(completed), 10), false},
		"a task that has vanished":                          {task(input(aPod(running(0)), 10)), false},
	} {
		m := newMemory(tt.in.Memory.Status)
		m.Adopt(&tt.in, at(8))
		if lost, ok := m.LostStarts["a"]; ok != tt.want || ok && !lost.Equal(at(8)) {
			t.Errorf("%s: lost %v at %v, want %v", name, ok, lost, tt.want)
		}
	}
}

func once(in Input) Input { in.Once = true; return in }

func settles(in Input, settle time.Duration) Input {
	in.Settle = settle
	return in
}

// TestRecord reads as what is remembered of each result.
func TestRecord(t *testing.T) {
	launch := Launch{Spec: backend.LaunchSpec{Pod: aPod(), Attempt: 1}}
	start := StartContainer{Spec: backend.ContainerSpec{Container: corev1.Container{Name: "a"}, Hash: "h"}}
	again := start
	again.Restart, again.Ended, again.Loop = true, at(1), "a@h"
	remove := RemovePod{Ref: backend.Ref{Attempt: 1}, Settles: true}
	early := RemovePod{Ref: backend.Ref{Attempt: 1}}
	for _, tt := range []struct {
		name string
		r    []Result
		ok   func(m *Memory) bool
	}{
		{"launched: nothing is lost", []Result{{Action: launch}}, func(m *Memory) bool {
			return len(m.Lost) == 0 &&
				len(m.Failures) == 0
		}},
		{
			"the reply of a launch was lost",
			[]Result{{Action: launch, Err: backend.ErrUnavailable}},
			func(m *Memory) bool { return m.Lost[1].Equal(at(5)) && m.Failures[podKey].Delay == time.Second },
		},
		{
			"an unknown error of a launch: it may yet appear",
			[]Result{{Action: launch, Err: errors.New("oops")}},
			func(m *Memory) bool { return m.Lost[1].Equal(at(5)) },
		},
		{
			"no capacity: nothing was made, a long wait",
			[]Result{{Action: launch, Err: backend.ErrCapacity}},
			func(m *Memory) bool { return len(m.Lost) == 0 && m.Failures[podKey].Delay == 30*time.Second },
		},
		{
			"no capacity again: twice as long",
			[]Result{{Action: launch, Err: backend.ErrCapacity}, {Action: launch, Err: backend.ErrCapacity}},
			func(m *Memory) bool { return m.Failures[podKey].Delay == time.Minute },
		},
		{
			"invalid: no wait to speak of, its class decides",
			[]Result{{Action: launch, Err: backend.ErrInvalid}},
			func(m *Memory) bool { return len(m.Lost) == 0 && m.Failures[podKey].Class == "Invalid" },
		},
		{
			"replayed: found",
			[]Result{{Action: launch, Err: backend.ErrUnavailable}, {Action: launch}},
			func(m *Memory) bool { return len(m.Lost) == 0 && len(m.Failures) == 0 },
		},
		{
			"lost, then proved absent",
			[]Result{{Action: launch, Err: backend.ErrUnavailable}, {Action: remove, Err: backend.ErrNotFound}},
			func(m *Memory) bool { return len(m.Lost) == 0 && m.Removes[1].Proven },
		},
		{
			"lost, and not there before it settled: it may yet appear",
			[]Result{{Action: launch, Err: backend.ErrUnavailable}, {Action: early, Err: backend.ErrNotFound}},
			func(m *Memory) bool { return m.Lost[1].Equal(at(5)) },
		},
		{
			"removal accepted is no proof",
			[]Result{{Action: remove}},
			func(m *Memory) bool { return !m.Removes[1].Proven && m.Removes[1].Count == 1 },
		},
		{
			"removal failed is no proof",
			[]Result{{Action: remove, Err: backend.ErrUnavailable}},
			func(m *Memory) bool { return !m.Removes[1].Proven },
		},
		{
			"the reply of a start was lost",
			[]Result{{Action: start, Err: backend.ErrUnavailable}},
			func(m *Memory) bool { return m.LostStarts["a"].Equal(at(5)) },
		},
		{
			"and found",
			[]Result{{Action: start, Err: backend.ErrUnavailable}, {Action: start}},
			func(m *Memory) bool { return len(m.LostStarts) == 0 },
		},
		{
			"a pull that failed started nothing",
			[]Result{{Action: start, Err: errors.New("x"), Reason: "ErrImagePull", Unmade: true}},
			func(m *Memory) bool { return len(m.LostStarts) == 0 && m.Failures["a"].Delay == 10*time.Second },
		},
		{"first start: no crash loop", []Result{{Action: start}}, func(m *Memory) bool { return len(m.Backoff) == 0 }},
		{
			"restart: the crash loop begins",
			[]Result{{Action: again}},
			func(m *Memory) bool { return m.Backoff["a@h"] == Backoff{Delay: 10 * time.Second, Last: at(5)} },
		},
		{
			"restarts: it doubles, up to five minutes",
			[]Result{
				{Action: again},
				{Action: again},
				{Action: again},
				{Action: again},
				{Action: again},
				{Action: again},
				{Action: again},
			},
			func(m *Memory) bool { return m.Backoff["a@h"].Delay == 5*time.Minute },
		},
		{
			"a stop that failed is asked again soon, not at once",
			[]Result{{Action: StopPod{Deadline: at(30)}, Err: backend.ErrUnavailable}},
			func(m *Memory) bool { return m.Stops[0].At.Add(stopRepeat).Equal(at(6)) },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMemory(corev1.PodStatus{})
			for _, r := range tt.r {
				r.At = at(5)
				m.Record(r)
			}
			if !tt.ok(&m) {
				t.Errorf("memory is %+v", m)
			}
		})
	}
}
