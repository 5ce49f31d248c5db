package plan

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/prober"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// The tables of this file read as the kubelet's behaviours that users and the
// upstream tests rely on; docs/architecture.md says where each one's rule stands.

func change(f func(*corev1.Container)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { f(&pod.Spec.Containers[0]) }
}

var (
	execHandler = &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}
	execProbe   = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
	withPreStop = change(func(c *corev1.Container) { c.Lifecycle = &corev1.Lifecycle{PreStop: execHandler} })
	withPost    = change(func(c *corev1.Container) { c.Lifecycle = &corev1.Lifecycle{PostStart: execHandler} })
	withProbes  = change(func(c *corev1.Container) {
		c.StartupProbe, c.LivenessProbe, c.ReadinessProbe = execProbe, execProbe, execProbe
	})
)

func sidecars(names ...string) func(*corev1.Pod) {
	always := corev1.ContainerRestartPolicyAlways
	return func(pod *corev1.Pod) {
		for _, n := range names {
			pod.Spec.InitContainers = append(
				pod.Spec.InitContainers, corev1.Container{Name: n, Image: "img", RestartPolicy: &always},
			)
		}
	}
}

// found sets what a probe of the first attempt of a container has found.
func found(in Input, name string, kind prober.Kind, o prober.Outcome) Input {
	if in.Probes == nil {
		in.Probes = map[prober.Key]prober.Result{}
	}
	in.Probes[prober.Key{Container: name, ID: name + "-id0", Kind: kind}] = prober.Result{Outcome: o}
	return in
}

func probesOf(p Plan) []string {
	var out []string
	for _, t := range p.Probes {
		out = append(out, t.Container+" "+string(t.Kind))
	}
	return out
}

func hooksOf(p Plan) []string {
	var out []string
	for _, h := range p.Hooks {
		out = append(out, h.Key.Container+" "+string(h.Key.Kind))
	}
	return out
}

func statusOf(t *testing.T, s corev1.PodStatus, name string) corev1.ContainerStatus {
	t.Helper()
	for _, list := range [][]corev1.ContainerStatus{
		s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses,
	} {
		for _, c := range list {
			if c.Name == name {
				return c
			}
		}
	}
	t.Fatalf("no status of container %s", name)
	return corev1.ContainerStatus{}
}

// behaviour is a row: what is known, what must be planned and what is running
// besides.
type behaviour struct {
	planCase
	probes, hooks []string
	// ready and unready are containers that must (not) be ready.
	ready, unready []string
}

func (b behaviour) run(t *testing.T) {
	t.Run(b.name, func(t *testing.T) {
		p := b.decide(t)
		if got := probesOf(p); !slices.Equal(got, b.probes) {
			t.Errorf("probes %q, want %q", got, b.probes)
		}
		if got := hooksOf(p); !slices.Equal(got, b.hooks) {
			t.Errorf("hooks %q, want %q", got, b.hooks)
		}
		for _, name := range b.ready {
			if !statusOf(t, p.Status, name).Ready {
				t.Errorf("container %s is not ready", name)
			}
		}
		for _, name := range b.unready {
			if statusOf(t, p.Status, name).Ready {
				t.Errorf("container %s is ready", name)
			}
		}
	})
}

func TestProbes(t *testing.T) {
	alive := attempt(0, true, runs("a", 0, 1))
	for _, tt := range []behaviour{
		{
			planCase: planCase{
				name: "before startup succeeded only startup is probed", in: input(aPod(withProbes), 2, alive), phase: "Running",
			},
			probes: []string{"a Startup"}, unready: []string{"a"},
		},
		{
			planCase: planCase{
				name: "behaviour 8: readiness is probed at once when startup succeeds",
				in:   found(input(aPod(withProbes), 2, alive), "a", prober.Startup, prober.Success), phase: "Running",
			},
			probes: []string{"a Liveness", "a Readiness"}, unready: []string{"a"},
		},
		{
			planCase: planCase{
				name: "ready when readiness succeeds",
				in: found(
					found(input(aPod(withProbes), 2, alive), "a", prober.Startup, prober.Success), "a", prober.Readiness,
					prober.Success,
				),
				phase: "Running",
			},
			probes: []string{"a Liveness", "a Readiness"}, ready: []string{"a"},
		},
		{
			planCase: planCase{
				name:  "behaviour 5: ready stays ready after a restart until a probe says otherwise",
				in:    input(aPod(withProbes, running(0), wasReady), 2, alive),
				phase: "Running",
			},
			probes: []string{"a Liveness", "a Readiness"}, ready: []string{"a"},
		},
		{
			planCase: planCase{
				name:  "behaviour 5: and then it is not",
				in:    found(input(aPod(withProbes, running(0), wasReady), 2, alive), "a", prober.Readiness, prober.Failure),
				phase: "Running",
			},
			probes: []string{"a Liveness", "a Readiness"}, unready: []string{"a"},
		},
		{
			planCase: planCase{
				name: "behaviour 1: readiness alone is probed while the pod terminates",
				in:   input(aPod(withProbes, running(0), wasReady, deleted(7, 9)), 2, alive),
				want: []string{"stop attempt 0 with grace 7s"}, phase: "Running", couldRun: true,
			},
			probes: []string{"a Readiness"}, ready: []string{"a"},
		},
		{
			planCase: planCase{
				name: "a failed liveness probe ends the container",
				in:   found(input(aPod(withProbes, running(0), wasReady), 2, alive), "a", prober.Liveness, prober.Failure),
				want: []string{"stop container a attempt 0 with grace 30s"}, phase: "Running",
			},
			probes: []string{"a Readiness"},
		},
		{
			planCase: planCase{
				name: "a failed startup probe ends the container within the probe's own grace",
				in: found(input(aPod(withProbes, change(func(c *corev1.Container) {
					grace := int64(5)
					c.StartupProbe = c.StartupProbe.DeepCopy()
					c.StartupProbe.TerminationGracePeriodSeconds = &grace
				})), 2, alive), "a", prober.Startup, prober.Failure),
				want: []string{"stop container a attempt 0 with grace 5s"}, phase: "Running",
			},
			probes: []string{"a Readiness"}, unready: []string{"a"},
		},
		{
			planCase: planCase{
				name: "the remote's verdict stands for the probes where it runs them by itself",
				in: func() Input {
					in := input(aPod(withProbes, change(func(c *corev1.Container) { c.StartupProbe = nil })), 2, attempt(
						0, true, healthy(runs("a", 0, 1), true),
					))
					in.Supervised = true
					return in
				}(), phase: "Running",
			},
			ready: []string{"a"},
		},
		{
			planCase: planCase{
				name: "a container that the remote finds not ready is not ended: what fails a liveness probe it ends by itself",
				in: func() Input {
					in := input(aPod(withProbes, change(func(c *corev1.Container) { c.StartupProbe = nil })), 2, attempt(
						0, true, healthy(runs("a", 0, 1), false),
					))
					in.Supervised = true
					return in
				}(),
				phase: "Running",
			},
			unready: []string{"a"},
		},
	} {
		tt.run(t)
	}
}

func healthy(c backend.ContainerFacts, yes bool) backend.ContainerFacts { c.Healthy = &yes; return c }

// wasReady makes the status of a running pod one that had passed its probes.
func wasReady(pod *corev1.Pod) {
	yes := true
	s := &pod.Status.ContainerStatuses[0]
	s.Ready, s.Started, s.ContainerID = true, &yes, "rt://a-id0"
	s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at(1))}
}

func TestHooks(t *testing.T) {
	alive := attempt(0, true, runs("a", 0, 1))
	preStop := HookKey{Container: "a", ID: "a-id0", Kind: PreStop}
	postStart := HookKey{Container: "a", ID: "a-id0", Kind: PostStart}
	for _, tt := range []behaviour{
		{
			planCase: planCase{
				name: "preStop before the container is stopped", in: input(aPod(withPreStop, deleted(7, 9), running(0)), 2, alive),
				phase: "Running", couldRun: true, wake: 9,
			},
			hooks: []string{"a PreStop"},
		},
		{
			planCase: planCase{
				name: "preStop done: stopped with what is left", in: input(aPod(withPreStop, deleted(7, 9), running(0)), 5, alive),
				mem: func(m *Memory) {
					m.Termination = &TerminationOrder{Deadline: at(9), Gone: true}
					m.Hooks[preStop] = HookState{Done: true}
				},
				want: []string{"stop container a attempt 0 with grace 4s"}, phase: "Running", couldRun: true,
			},
		},
		{
			planCase: planCase{
				name: "preStop failed: stopped all the same", in: input(aPod(withPreStop, deleted(7, 9), running(0)), 5, alive),
				mem: func(m *Memory) {
					m.Termination = &TerminationOrder{Deadline: at(9), Gone: true}
					m.Hooks[preStop] = HookState{Done: true, Failed: true}
				},
				want: []string{"stop container a attempt 0 with grace 4s"}, phase: "Running", couldRun: true,
			},
		},
		{
			planCase: planCase{
				name: "behaviour 23: preStop took the whole grace: 2 s are left",
				in:   input(aPod(withPreStop, deleted(7, 9), running(0)), 9, alive),
				mem:  func(m *Memory) { m.Termination = &TerminationOrder{Deadline: at(9), Gone: true} },
				want: []string{"stop container a attempt 0 with grace 2s"}, phase: "Running", couldRun: true,
			},
		},
		{
			planCase: planCase{
				name: "behaviour 2: preStop is cut when the grace shrinks",
				in:   input(aPod(withPreStop, deleted(0, 5), running(0)), 7, alive),
				mem:  func(m *Memory) { m.Termination = &TerminationOrder{Deadline: at(5), Gone: true} },
				want: []string{"stop container a attempt 0 with grace 2s"}, phase: "Running", couldRun: true,
			},
		},
		{
			planCase: planCase{
				name: "behaviour 2: preStop is cut when its container ends",
				in:   input(aPod(withPreStop, deleted(7, 9), running(0)), 5, attempt(0, true, ran1("a", 0, 1, 2, 0))),
				want: []string{"remove attempt 0"}, phase: "Succeeded",
			},
		},
		{
			planCase: planCase{
				name: "behaviour 2: a finalizer outlives a grace-0 delete: no relaunch, nothing asked again",
				in:   input(aPod(policy("Never"), completed, deleted(0, 5)), 60),
				mem:  func(m *Memory) { m.Removes[0] = Removal{Count: 1, Proven: true} }, phase: "Succeeded",
			},
		},
		{
			planCase: planCase{
				name: "postStart of a container that runs", in: input(aPod(withPost), 2, alive), phase: "Pending",
			},
			hooks: []string{"a PostStart"}, unready: []string{"a"},
		},
		{
			planCase: planCase{
				name: "behaviour 12: a later container waits for the earlier one's postStart",
				in:   input(aPod(apps("a", "b"), withPost), 2, alive), phase: "Pending",
			},
			hooks: []string{"a PostStart"},
		},
		{
			planCase: planCase{
				name: "behaviour 12: they are not made in one batch either", in: input(aPod(apps("a", "b"), withPost), 0),
				want: []string{"launch attempt 0", "start container a attempt 0"}, phase: "Pending",
			},
		},
		{
			planCase: planCase{
				name: "behaviour 12: postStart succeeded: the next", in: input(aPod(apps("a", "b"), withPost), 2, alive),
				mem:  func(m *Memory) { m.Hooks[postStart] = HookState{Done: true} },
				want: []string{"start container b attempt 0"}, phase: "Pending",
			},
			ready: []string{"a"},
		},
		{
			planCase: planCase{
				name: "behaviour 12: a failed postStart ends the container", in: input(aPod(withPost), 2, alive),
				mem:  func(m *Memory) { m.Hooks[postStart] = HookState{Done: true, Failed: true} },
				want: []string{"stop container a attempt 0 with grace 30s"}, phase: "Pending",
			},
			unready: []string{"a"},
		},
		{
			planCase: planCase{
				name: "behaviour 12: after a restart a running container counts as hooked",
				in:   adopted(input(aPod(withPost, running(0)), 2, alive)), phase: "Running",
			},
			ready: []string{"a"},
		},
	} {
		tt.run(t)
	}
}

// adopted is the input after a restart of the process.
func adopted(in Input) Input {
	in.Memory.Adopt(&in, at(2))
	return in
}

func TestSidecars(t *testing.T) {
	probed := func(pod *corev1.Pod) { pod.Spec.InitContainers[0].StartupProbe = execProbe }
	never := policy("Never")
	for _, tt := range []behaviour{
		{planCase: planCase{
			name: "the first of them starts alone", in: input(aPod(sidecars("s", "t")), 0),
			want: []string{"launch attempt 0", "start container s attempt 0"}, phase: "Pending",
		}},
		{planCase: planCase{
			name: "one that runs lets the next start", in: input(aPod(sidecars("s", "t")), 2, attempt(0, true, runs("s", 0, 1))),
			want: []string{"start container t attempt 0"}, phase: "Pending",
		}},
		{
			planCase: planCase{
				name: "its startup probe gates the next",
				in:   input(aPod(sidecars("s"), probed), 2, attempt(0, true, runs("s", 0, 1))), phase: "Pending",
			},
			probes: []string{"s Startup"},
		},
		{planCase: planCase{
			name: "its startup probe succeeded: the apps start",
			in: found(
				input(aPod(sidecars("s"), probed), 2, attempt(0, true, runs("s", 0, 1))), "s", prober.Startup, prober.Success,
			),
			want:  []string{"start container a attempt 0"},
			phase: "Pending",
		}},
		{planCase: planCase{
			name:  "an init container between them runs to its end first",
			in:    input(aPod(sidecars("s"), inits("i"), sidecars("t")), 2, attempt(0, true, runs("s", 0, 1), runs("i", 0, 1))),
			phase: "Pending",
		}},
		{planCase: planCase{
			name: "one that ends is started again, whatever the pod's policy",
			in:   input(aPod(never, sidecars("s")), 3, attempt(0, true, ran1("s", 0, 1, 2, 0), runs("a", 0, 1))),
			want: []string{"start container s attempt 1"}, phase: "Running",
		}},
		{planCase: planCase{
			name: "one that crashes does not hold back what had its turn",
			in:   input(aPod(sidecars("s"), inits("i")), 3, attempt(0, true, ran1("s", 0, 1, 2, 1), ran1("i", 0, 1, 2, 0))),
			want: []string{"start container s attempt 1", "start container a attempt 0"}, phase: "Pending",
		}},
		{planCase: planCase{
			name: "the apps are done: it is stopped, the phase waits for it",
			in:   input(aPod(never, sidecars("s")), 3, attempt(0, true, runs("s", 0, 1), ran1("a", 0, 1, 2, 0))),
			want: []string{"stop container s attempt 0 with grace 30s"}, phase: "Running",
		}, ready: []string{"s"}},
		{planCase: planCase{
			name: "deleted: the apps first", in: input(aPod(sidecars("s", "t"), deleted(7, 9), running(0)), 2, attempt(
				0, true, runs("s", 0, 1), runs("t", 0, 1), runs("a", 0, 1),
			)),
			want: []string{"stop container a attempt 0 with grace 7s"}, phase: "Running", wake: 9,
		}},
		{planCase: planCase{
			name: "then the sidecars, the last first", in: input(aPod(sidecars("s", "t"), deleted(7, 9), running(0)), 2, attempt(
				0, true, runs("s", 0, 1), runs("t", 0, 1), ran1("a", 0, 1, 2, 0),
			)),
			want: []string{"stop container t attempt 0 with grace 7s"}, phase: "Running", wake: 9,
		}},
		{planCase: planCase{
			name: "at the deadline nobody waits any longer", in: input(
				aPod(sidecars("s", "t"), deleted(7, 9), running(0)), 9,
				attempt(0, true, runs("s", 0, 1), runs("t", 0, 1), runs("a", 0, 1)),
			),
			mem: func(m *Memory) {
				m.Termination = &TerminationOrder{Deadline: at(9), Gone: true}
				m.ContainerStops["a/a-id0"] = StopRequest{At: at(2), Deadline: at(9)}
			},
			want:  []string{"stop container t attempt 0 with grace 2s", "stop container s attempt 0 with grace 2s"},
			phase: "Running", wake: 12,
		}},
	} {
		tt.run(t)
	}
}

func TestEphemeral(t *testing.T) {
	debug := func(pod *corev1.Pod) {
		pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "d", Image: "img"}, TargetContainerName: "a",
		}}
	}
	for _, tt := range []behaviour{
		{planCase: planCase{
			name: "starts in a live pod", in: input(aPod(debug), 2, attempt(0, true, runs("a", 0, 1))),
			want: []string{"start container d attempt 0"}, phase: "Running",
		}},
		{planCase: planCase{
			name: "even when an init container hangs", in: input(aPod(inits("i"), debug), 2, attempt(0, true, runs("i", 0, 1))),
			want: []string{"start container d attempt 0"}, phase: "Pending",
		}},
		{planCase: planCase{
			name: "never again", in: input(aPod(debug), 3, attempt(0, true, runs("a", 0, 1), ran1("d", 0, 1, 2, 1))),
			phase: "Running",
		}},
		{planCase: planCase{
			name: "the pod's end does not wait for it",
			in:   input(aPod(policy("Never"), debug), 3, attempt(0, true, ran1("a", 0, 1, 2, 0), runs("d", 0, 1))),
			want: []string{"stop attempt 0 with grace 30s"}, phase: "Running",
		}},
		{planCase: planCase{
			name: "sidecars do not wait for it",
			in: input(aPod(sidecars("s"), debug, deleted(7, 9), running(0)), 3, attempt(
				0, true, runs("s", 0, 1), ran1("a", 0, 1, 2, 0), runs("d", 0, 1),
			)),
			want:  []string{"stop container d attempt 0 with grace 7s", "stop container s attempt 0 with grace 7s"},
			phase: "Running",
		}},
		{planCase: planCase{
			name:  "nor for an init container",
			in:    input(aPod(sidecars("s"), inits("i"), deleted(7, 9)), 3, attempt(0, true, runs("s", 0, 1), runs("i", 0, 2))),
			want:  []string{"stop container i attempt 0 with grace 7s", "stop container s attempt 0 with grace 7s"},
			phase: "Pending",
		}},
	} {
		tt.run(t)
	}
	p := Decide(input(aPod(debug), 2, attempt(0, true, runs("a", 0, 1))))
	in := input(aPod(debug), 2, attempt(0, true, runs("a", 0, 1)))
	in.Refused = map[string]string{"d": "spec.ephemeralContainers[0].volumeMounts[0]: not possible"}
	refused := Decide(in)
	wantActions(t, refused)
	if s := statusOf(t, refused.Status, "d"); s.State.Waiting == nil || s.State.Waiting.Reason != "UnsupportedByBackend" ||
		len(refused.Events) != 1 {
		t.Errorf("where no container can be added: %+v, says %v", s, refused.Events)
	}
	if spec := p.Actions[0].(StartContainer).Spec; spec.Target != "a" {
		t.Errorf("joins %q, want the processes of a", spec.Target)
	}
}

func TestRestartRules(t *testing.T) {
	rules := func(policy corev1.ContainerRestartPolicy, rules ...corev1.ContainerRestartRule) func(*corev1.Pod) {
		return change(func(c *corev1.Container) { c.RestartPolicy, c.RestartPolicyRules = &policy, rules })
	}
	on := func(op corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) corev1.ContainerRestartRule {
		return corev1.ContainerRestartRule{
			Action:    corev1.ContainerRestartRuleActionRestart,
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes},
		}
	}
	for _, tt := range []struct {
		name  string
		pod   *corev1.Pod
		code  int32
		again bool
	}{
		{"the container's policy goes before the pod's", aPod(policy("Always"), rules("Never")), 1, false},
		{"the other way round too", aPod(policy("Never"), rules("OnFailure")), 1, true},
		{"OnFailure of the container, exit 0", aPod(policy("Always"), rules("OnFailure")), 0, false},
		{"a rule that matches restarts", aPod(policy("Never"), rules("Never", on("In", 42))), 42, true},
		{"one that does not, does not", aPod(policy("Never"), rules("Never", on("In", 42))), 1, false},
		{"NotIn matches the others", aPod(policy("Never"), rules("Never", on("NotIn", 0, 1))), 3, true},
		{"NotIn does not match its own", aPod(policy("Never"), rules("Never", on("NotIn", 0, 1))), 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := Decide(input(tt.pod, 3, attempt(0, true, ran1("a", 0, 1, 2, tt.code))))
			again := slices.Contains(names(p.Actions), "start container a attempt 1")
			if again != tt.again {
				t.Errorf("restarted %v, want %v: %q", again, tt.again, names(p.Actions))
			}
		})
	}
}

// TestChangedImage: behaviour 21, a changed image of a running container
// restarts that container only, whatever its policy; behaviour 7, it begins a
// new crash loop.
func TestChangedImage(t *testing.T) {
	old := func(c backend.ContainerFacts) backend.ContainerFacts {
		c.Hash = resolve.Hash(&corev1.Container{Name: c.Name, Image: "old"})
		return c
	}
	same := func(c backend.ContainerFacts) backend.ContainerFacts {
		c.Hash = resolve.Hash(&corev1.Container{Name: c.Name, Image: "img"})
		return c
	}
	for _, tt := range []behaviour{
		{planCase: planCase{
			name: "behaviour 21: only the changed one ends",
			in:   input(aPod(apps("a", "b")), 3, attempt(0, true, old(runs("a", 0, 1)), same(runs("b", 0, 1)))),
			want: []string{"stop container a attempt 0 with grace 30s"}, phase: "Running",
		}},
		{planCase: planCase{
			name: "behaviour 21: and starts again, also under Never",
			in: input(
				aPod(policy("Never"), apps("a", "b")), 5, attempt(0, true, old(ran1("a", 0, 1, 4, 143)), same(runs("b", 0, 1))),
			),
			mem: func(m *Memory) {
				m.Terminations = map[string]ContainerTermination{"a": {ID: "a-id0", Replace: true, Deadline: at(33)}}
			},
			want: []string{"start container a attempt 1"}, phase: "Running",
		}},
		{planCase: planCase{
			name: "behaviour 7: the crash loop of the old image holds nobody",
			in:   input(aPod(), 9, attempt(0, true, old(ran1("a", 1, 5, 8, 1)))),
			mem: func(m *Memory) {
				m.Backoff[loopOf(podContainer{Container: &corev1.Container{Name: "a", Image: "old"}})] = Backoff{
					Delay: 5 * time.Minute, Last: at(5),
				}
			},
			want: []string{"start container a attempt 2"}, phase: "Running",
		}},
	} {
		tt.run(t)
	}
	t.Run("a pod that is one unit is made anew", func(t *testing.T) {
		in := input(aPod(apps("a", "b")), 3, attempt(0, true, old(runs("a", 0, 1)), same(runs("b", 0, 1))))
		in.Containers = false
		p := Decide(in)
		wantActions(t, p, "stop attempt 0 with grace 30s")
		in = input(aPod(policy("Never"), apps("a", "b")), 5, attempt(
			0, false, old(ran1("a", 0, 1, 4, 143)), same(ran1("b", 0, 1, 4, 143)),
		))
		in.Containers, in.Memory.Terminations = false, p.Terminations
		p = Decide(in)
		wantActions(t, p, "launch attempt 1")
		if s := statusOf(t, p.Status, "a"); s.State.Waiting == nil {
			t.Errorf("shown as %+v: the API would not let it come back", s.State)
		}
	})
}
