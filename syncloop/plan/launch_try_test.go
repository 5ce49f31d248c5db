package plan

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// awaiting is a pod of which the API holds a refused launch.
func awaiting(reason string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: AwaitingCapacity, Status: corev1.ConditionTrue, Reason: reason,
		})
	}
}

// tries is the input of a backend that counts, as a worker begins with it.
func tries(in Input) Input {
	in.Containers, in.Tries = false, true
	in.Memory.Try = LaunchTryIn(&in.Pod.Status)
	return in
}

func TestLaunchTries(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   Input
		mem  func(*Memory)
		// try of the launch planned; -1 for none.
		try    int
		counts bool
	}{
		{name: "the first", in: tries(input(aPod(), 9)), try: 0, counts: true},
		{name: "a backend that does not count", in: task(input(aPod(awaiting("Attempt0Try2")), 9)), try: 0},
		{
			name: "the API holds the number: the next", in: tries(input(aPod(awaiting("Attempt0Try2")), 9)), try: 2,
			counts: true,
		},
		{
			name: "the API does not hold the number yet: none", in: tries(input(aPod(awaiting("Attempt0Try1")), 9)),
			mem: func(m *Memory) { m.Try.Count = 2 }, try: -1,
		},
		{
			name: "a number of an older attempt counts for nothing", try: 0, counts: true,
			in: tries(input(aPod(awaiting("Attempt0Try2")), 9, attempt(0, false, ran1("a", 0, 1, 2, 1)))),
		},
		{
			name: "a launch of before may yet come true: the same again, and no refusal of it counts",
			in:   tries(input(aPod(awaiting("Attempt0Try2")), 9)), mem: func(m *Memory) { m.Lost[0] = at(8) }, try: 2,
		},
		{
			name: "it has settled", in: tries(input(aPod(awaiting("Attempt0Try2")), 19)),
			mem: func(m *Memory) { m.Lost[0] = at(8) }, try: 2, counts: true,
		},
		{name: "nonsense in the condition", in: tries(input(aPod(awaiting("Attempt0Try-4")), 9)), try: 0, counts: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.mem != nil {
				tt.mem(&tt.in.Memory)
			}
			p := Decide(tt.in)
			if tt.try < 0 {
				wantActions(t, p)
				return
			}
			if len(p.Actions) != 1 {
				t.Fatalf("actions %v", p.Actions)
			}
			if l, ok := p.Actions[0].(Launch); !ok || l.Spec.Try != tt.try || l.Counts != tt.counts {
				t.Errorf("%+v, want try %d, counts %v", l, tt.try, tt.counts)
			}
		})
	}
}

func TestRefusalMakesAnotherTry(t *testing.T) {
	launch := func(counts bool) Launch {
		return Launch{Spec: backend.LaunchSpec{Pod: aPod(), Attempt: 3, Try: 1}, Counts: counts}
	}
	for name, tt := range map[string]struct {
		action Launch
		err    error
		want   LaunchTry
		delay  time.Duration
	}{
		"refused for lack of room":           {launch(true), backend.ErrCapacity, LaunchTry{3, 2}, 5 * time.Second},
		"the same where refusals prove none": {launch(false), backend.ErrCapacity, LaunchTry{3, 1}, 30 * time.Second},
		"throttled: the same launch again":   {launch(true), backend.ErrThrottled, LaunchTry{3, 1}, time.Second},
		"no reply: the same launch again":    {launch(true), backend.ErrUnavailable, LaunchTry{3, 1}, time.Second},
		"credentials: the same launch again": {launch(true), backend.ErrDenied, LaunchTry{3, 1}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(corev1.PodStatus{})
			m.Try = LaunchTry{3, 1}
			m.Record(Result{Action: tt.action, Err: tt.err, At: at(5)})
			if m.Try != tt.want || m.Failures[podKey].Delay != tt.delay {
				t.Errorf("%+v after %v, want %+v after %v", m.Try, m.Failures[podKey].Delay, tt.want, tt.delay)
			}
		})
	}
}

// An error that says that nothing was made leaves nothing to wait for.
func TestUnmadeLaunchIsNotLost(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		lost bool
	}{
		"no reply":                        {backend.ErrUnavailable, true},
		"no reply, but nothing was asked": {backend.Unmade(backend.ErrUnavailable), false},
		"refused, for no known reason":    {backend.Unmade(errors.New("there is no such subnet")), false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(corev1.PodStatus{})
			m.Record(Result{
				Action: Launch{Spec: backend.LaunchSpec{Pod: aPod()}}, Err: fmt.Errorf("launch: %w", tt.err), At: at(5),
			})
			if _, lost := m.Lost[0]; lost != tt.lost {
				t.Errorf("lost %v, want %v", lost, tt.lost)
			}
		})
	}
}

func TestAwaitingCapacityCondition(t *testing.T) {
	refused := awaiting("Attempt1Try2")
	for _, tt := range []struct {
		name string
		in   Input
		want corev1.ConditionStatus // empty: there is none
	}{
		{"while it is refused", tries(input(aPod(refused), 9)), corev1.ConditionTrue},
		{
			"the attempt is there, perhaps not in listings", tries(input(aPod(refused), 3, attempt(1, true, runs("a", 0, 1)))),
			corev1.ConditionFalse,
		},
		{
			"it shows but has not started", tries(input(aPod(refused), 9, attempt(1, true, made("a", 0)))),
			corev1.ConditionFalse,
		},
		{"it runs", tries(input(aPod(refused), 9, attempt(1, true, runs("a", 0, 1)))), ""},
		{"it ended", tries(input(aPod(refused), 9, attempt(1, false, ran1("a", 0, 1, 2, 1)))), ""},
		{
			"the attempt before is listed still", tries(input(aPod(refused), 9, attempt(0, false, ran1("a", 0, 1, 2, 1)))),
			corev1.ConditionTrue,
		},
		{"the next attempt is there", tries(input(aPod(refused), 9, attempt(2, true, made("a", 0)))), ""},
		{"the pod ends", tries(input(aPod(refused, deleted(30, 5)), 9)), ""},
		{"the backend does not count", task(input(aPod(refused), 9)), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := Decide(tt.in)
			var got corev1.ConditionStatus
			for _, c := range p.Status.Conditions {
				if c.Type == AwaitingCapacity {
					if got = c.Status; c.Reason != "Attempt1Try2" || c.Message == "" {
						t.Errorf("%+v", c)
					}
				}
			}
			if got != tt.want {
				t.Errorf("condition %q, want %q", got, tt.want)
			}
		})
	}
}

// What the remote takes back fails, by the remote's reason, at the first notice.
func TestDisruptedByTheRemote(t *testing.T) {
	taken := func(a backend.PodFacts) backend.PodFacts {
		a.Disrupted, a.Reason, a.Message = true, "Preempted", "Your Spot Task was interrupted."
		return a
	}
	for _, tt := range []struct {
		name   string
		in     Input
		phase  corev1.PodPhase
		reason string
		target bool
		said   int
	}{
		{
			"it is going to be taken", task(input(aPod(running(0)), 9, taken(attempt(0, true, runs("a", 0, 1))))), "Failed",
			"Preempted", true, 1,
		},
		{
			"it was taken", task(input(aPod(running(0)), 9, taken(attempt(0, false, ran1("a", 0, 1, 2, 143))))), "Failed",
			"Preempted", true, 1,
		},
		{"a later attempt runs", task(input(
			aPod(running(1)), 9, taken(attempt(0, false, ran1("a", 0, 1, 2, 143))), attempt(1, true, runs("a", 1, 3)),
		)), "Running", "", false, 0},
		{
			"the pod had ended before", task(input(aPod(completed), 9, taken(attempt(0, false, ran1("a", 0, 1, 2, 0))))),
			"Succeeded", "", false, 0,
		},
		{
			"single containers: the engine's business", input(aPod(running(0)), 9, taken(attempt(0, true, runs("a", 0, 1)))),
			"Running", "", false, 0,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := Decide(tt.in)
			target := false
			for _, c := range p.Status.Conditions {
				target = target || c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
			}
			if p.Status.Phase != tt.phase || p.Status.Reason != tt.reason || target != tt.target || len(p.Events) != tt.said {
				t.Errorf("%s %q, DisruptionTarget %v, Events %v", p.Status.Phase, p.Status.Reason, target, p.Events)
			}
		})
	}
}
