package plan

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// restartsAll gives containers a rule that restarts all of the pod when they exit with 42.
func restartsAll(names ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		never := corev1.ContainerRestartPolicyNever
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				c := &list[i]
				if !slices.Contains(names, c.Name) {
					continue
				}
				if c.RestartPolicy == nil {
					c.RestartPolicy = &never
				}
				c.RestartPolicyRules = []corev1.ContainerRestartRule{{
					Action: corev1.ContainerRestartRuleActionRestartAllContainers,
					ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
						Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
					},
				}}
			}
		}
	}
}

func inRound(n int, c backend.ContainerFacts) backend.ContainerFacts {
	c.Round = n
	return c
}

// TestRestartAll reads as the rules for pods whose containers all restart.
func TestRestartAll(t *testing.T) {
	never := policy("Never")
	pod := func(change ...func(*corev1.Pod)) *corev1.Pod {
		return aPod(slices.Concat(
			[]func(*corev1.Pod){never, apps("a", "b"), inits("i")}, change, []func(*corev1.Pod){restartsAll("a")},
		)...)
	}
	old := []backend.ContainerFacts{ran1("i", 0, 1, 2, 0), ran1("a", 0, 2, 8, 42), ran1("b", 0, 2, 9, 137)}
	with := func(more ...backend.ContainerFacts) backend.PodFacts {
		return attempt(0, true, slices.Concat(old, more)...)
	}
	for _, tt := range []planCase{
		{
			name: "another exit code: the policy decides", phase: "Failed",
			in:   input(pod(), 9, attempt(0, true, ran1("i", 0, 1, 2, 0), ran1("a", 0, 2, 8, 1), ran1("b", 0, 2, 9, 1))),
			want: []string{"stop attempt 0 with grace 2s"},
		},
		{
			name: "it matches: what runs ends at once, whatever its grace", phase: "Running",
			in:   input(pod(), 9, attempt(0, true, ran1("i", 0, 1, 2, 0), ran1("a", 0, 2, 8, 42), runs("b", 0, 2))),
			want: []string{"stop container b attempt 0 with grace 2s"}, couldRun: true,
		},
		{
			name: "no preStop hook runs", phase: "Running",
			in: input(pod(func(pod *corev1.Pod) {
				pod.Spec.Containers[1].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{}}}
			}), 9, attempt(0, true, ran1("i", 0, 1, 2, 0), ran1("a", 0, 2, 8, 42), runs("b", 0, 2))),
			want: []string{"stop container b attempt 0 with grace 2s"}, couldRun: true,
		},
		{
			name: "an order to end it slowly is overtaken", phase: "Running",
			in: input(pod(), 9, attempt(0, true, ran1("i", 0, 1, 2, 0), ran1("a", 0, 2, 8, 42), runs("b", 0, 2))),
			mem: func(m *Memory) {
				m.Terminations = map[string]ContainerTermination{"b": {ID: "b-id0", Deadline: at(38)}}
				m.ContainerStops["b/b-id0"] = StopRequest{At: at(8), Deadline: at(38)}
			},
			want: []string{"stop container b attempt 0 with grace 2s"}, couldRun: true,
		},
		{
			name: "what was made and not started is removed", phase: "Pending",
			in:   input(pod(), 9, attempt(0, true, ran1("i", 0, 1, 2, 0), ran1("a", 0, 2, 8, 42), made("b", 0))),
			want: []string{"remove container b attempt 0"}, couldRun: true,
		},
		{
			name: "a start without a reply may be of the round before", phase: "Pending",
			in: input(pod(), 9, with()), mem: func(m *Memory) { m.LostStarts["b"] = at(8) }, wake: 13, couldRun: true,
		},
		{
			name: "sidecars end after the apps", phase: "Running",
			in: input(pod(sidecarNamed("s")), 9, attempt(
				0, true, runs("s", 0, 0), ran1("i", 0, 1, 2, 0), ran1("a", 0, 2, 8, 42), runs("b", 0, 2),
			)),
			want: []string{"stop container b attempt 0 with grace 2s"}, couldRun: true,
		},
		{
			name: "sidecars end", phase: "Pending",
			in:   input(pod(sidecarNamed("s")), 9, with(runs("s", 0, 0))),
			want: []string{"stop container s attempt 0 with grace 2s"}, couldRun: true,
		},
		{
			name: "ephemeral containers stay", phase: "Pending",
			in: input(pod(func(pod *corev1.Pod) {
				pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{
					{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}},
				}
			}), 9, with(runs("e", 0, 3))),
			want: []string{"start container i attempt 1"}, couldRun: true,
		},
		{
			name: "all have ended: the init containers run again", phase: "Pending",
			in: input(pod(), 9, with()), want: []string{"start container i attempt 1"},
		},
		{
			name: "without a crash backoff", phase: "Pending",
			in: input(pod(), 9, with()), want: []string{"start container i attempt 1"},
			mem: func(m *Memory) { m.Backoff[key("i")] = Backoff{Delay: time.Minute, Last: at(8)} },
		},
		{
			name: "the apps wait for them", phase: "Pending",
			in: input(pod(), 11, with(inRound(1, runs("i", 1, 10)))), couldRun: true,
		},
		{
			name: "then all apps run again, those that ended for good too", phase: "Running",
			in:   input(pod(), 12, with(inRound(1, ran1("i", 1, 10, 11, 0)))),
			want: []string{"start container a attempt 1", "start container b attempt 1", "remove container i attempt 0"},
		},
		{
			name: "the round goes on", phase: "Running",
			in:   input(pod(), 12, with(inRound(1, ran1("i", 1, 10, 11, 0)), inRound(1, runs("a", 1, 11)))),
			want: []string{"start container b attempt 1", "remove container i attempt 0"}, couldRun: true,
		},
		{
			name: "an init container that fails in it fails the pod", phase: "Failed",
			in:   input(pod(), 12, with(inRound(1, ran1("i", 1, 10, 11, 1)))),
			want: []string{"stop attempt 0 with grace 2s"},
		},
		{
			name: "it matches again: the next round", phase: "Running",
			in: input(pod(), 20, attempt(0, true, inRound(1, ran1("i", 1, 10, 11, 0)), ran1("a", 0, 2, 8, 42),
				inRound(1, ran1("a", 1, 11, 19, 42)), inRound(1, runs("b", 1, 11)))),
			want: []string{"stop container b attempt 1 with grace 2s", "remove container a attempt 0"}, couldRun: true,
		},
		{
			name: "two that match begin one round", phase: "Running",
			in: input(aPod(never, apps("a", "b"), restartsAll("a", "b")), 9, attempt(
				0, true, ran1("a", 0, 2, 8, 42), ran1("b", 0, 2, 9, 42),
			)),
			want: []string{"start container a attempt 1", "start container b attempt 1"},
		},
		{
			name: "and what is killed for it begins no other", phase: "Running",
			in: input(aPod(
				never, apps("a", "b"), restartsAll("a", "b"),
			), 9, attempt(0, true, ran1("a", 0, 2, 8, 42), ran1("b", 0, 2, 9, 42),
				inRound(1, runs("a", 1, 9)), inRound(1, runs("b", 1, 9)))), couldRun: true,
		},
		{
			name: "an init container's exit", phase: "Pending",
			in: input(
				aPod(never, inits("i", "j"), restartsAll("j")), 9, attempt(0, true, ran1("i", 0, 1, 2, 0), ran1("j", 0, 2, 8, 42)),
			),
			want: []string{"start container i attempt 1"},
		},
		{
			name: "the sandbox dies meanwhile: all of it in a new one", phase: "Pending",
			in: input(pod(), 9, attempt(0, false, old...)), want: []string{"launch attempt 1", "start container i attempt 1"},
		},
		{
			name: "deleted meanwhile", phase: "Failed",
			in: input(pod(deleted(30, 9)), 9, with()), want: []string{"remove attempt 0"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if p := tt.decide(t); p.CouldRun != tt.couldRun {
				t.Errorf("could run: %v", p.CouldRun)
			}
		})
	}
}

func sidecarNamed(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		always := corev1.ContainerRestartPolicyAlways
		pod.Spec.InitContainers = slices.Insert(
			pod.Spec.InitContainers, 0, corev1.Container{Name: name, Image: "img", RestartPolicy: &always},
		)
	}
}

// TestRestartAllStatus: what others see of a restart of all containers.
func TestRestartAllStatus(t *testing.T) {
	pod := aPod(policy("Never"), inits("i"), restartsAll("a"))
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}}
	in := input(pod, 9, attempt(0, true, ran1("i", 0, 1, 2, 0), ran1("a", 0, 2, 8, 42)))
	s := Decide(in).Status
	c := TrueCondition(&s, corev1.AllContainersRestarting)
	if c == nil || c.Reason != "RestartAllContainersStarted" ||
		c.Message != "container a exited with restart policy rule (exit code 42)" {
		t.Errorf("condition %+v", c)
	}
	if TrueCondition(&s, corev1.PodInitialized) == nil {
		t.Error("the pod is not initialized any more")
	}
	for _, c := range []corev1.ContainerStatus{s.InitContainerStatuses[0], s.ContainerStatuses[0]} {
		if c.State.Waiting == nil || c.State.Waiting.Reason != "RestartingAllContainers" ||
			c.LastTerminationState.Terminated == nil {
			t.Errorf("%s: %+v, before that %+v", c.Name, c.State, c.LastTerminationState)
		}
	}
	if end := s.ContainerStatuses[0].LastTerminationState.Terminated; end.ExitCode != 42 ||
		end.ContainerID != "rt://a-id0" {
		t.Errorf("its end %+v", end)
	}

	in = input(pod, 10, attempt(0, true, ran1("i", 0, 1, 2, 0), ran1("a", 0, 2, 8, 42), inRound(1, runs("i", 1, 9))))
	in.Memory.Status = s
	s = Decide(in).Status
	if TrueCondition(&s, corev1.AllContainersRestarting) != nil || TrueCondition(&s, corev1.PodInitialized) == nil {
		t.Errorf("conditions %+v", s.Conditions)
	}
	if s.InitContainerStatuses[0].RestartCount != 1 || s.ContainerStatuses[0].State.Waiting == nil {
		t.Errorf("%+v", s)
	}

	// The remote has lost the container that began it: the API knows.
	s.InitContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	in = input(pod, 12, attempt(0, true, inRound(1, ran1("i", 1, 9, 10, 0))))
	in.Memory.Status = s
	wantActions(t, Decide(in), "start container a attempt 1")
}
