package plan

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// onSupervised is a remote whose pods are the unit and run probes and hooks by
// themselves.
func onSupervised(in Input) Input {
	in = task(in)
	in.Places, in.Refreshes, in.Supervised = false, true, true
	return in
}

func withPostStart(pod *corev1.Pod) {
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
		PostStart: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}},
	}
}

func TestSupervised(t *testing.T) {
	verdict := func(yes bool) backend.PodFacts { return attempt(0, true, healthy(runs("a", 0, 1), yes)) }
	none := attempt(0, true, runs("a", 0, 1))
	killed := func(why, hook string) backend.PodFacts {
		c := ran1("a", 0, 1, 4, 143)
		c.Killed, c.HookFailed = why, hook
		return attempt(0, false, c)
	}
	liveness := func(pod *corev1.Pod) { pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{} }
	for _, tt := range []struct {
		behaviour
		started bool
		says    []string
	}{
		{behaviour: behaviour{
			planCase: planCase{
				name: "a startup probe without a verdict: not started", in: onSupervised(input(aPod(withProbes), 2, none)),
				phase: "Running",
			},
			unready: []string{"a"},
		}},
		{behaviour: behaviour{
			planCase: planCase{
				name: "started and ready", in: onSupervised(input(aPod(withProbes), 2, verdict(true))), phase: "Running",
			},
			ready: []string{"a"},
		}, started: true},
		{behaviour: behaviour{
			planCase: planCase{
				name: "what has started stays so while it is not ready",
				in:   onSupervised(input(aPod(withProbes, running(0), wasReady), 2, verdict(false))), phase: "Running",
			},
			unready: []string{"a"},
		}, started: true, says: []string{"Unhealthy Readiness probe failed"}},
		{behaviour: behaviour{
			planCase: planCase{
				name: "a startup that fails is the remote's to end", in: onSupervised(input(aPod(withProbes), 2, verdict(false))),
				phase: "Running",
			},
			unready: []string{"a"},
		}, says: []string{"Unhealthy Startup probe failed"}},
		{behaviour: behaviour{
			planCase: planCase{
				name: "a postStart hook is not run from here, and waited for",
				in:   onSupervised(input(aPod(withPostStart), 2, none)), phase: "Running",
			},
			unready: []string{"a"},
		}},
		{behaviour: behaviour{
			planCase: planCase{
				name: "and done with the verdict", in: onSupervised(input(aPod(withPostStart), 2, verdict(true))), phase: "Running",
			},
			ready: []string{"a"},
		}, started: true},
		{behaviour: behaviour{
			planCase: planCase{
				name: "a liveness probe alone has no verdict", in: onSupervised(input(aPod(liveness), 2, none)), phase: "Running",
			},
			ready: []string{"a"},
		}, started: true},
		{behaviour: behaviour{
			planCase: planCase{
				name: "preStop is not run from here: the end is asked for at once",
				in:   onSupervised(input(aPod(withPreStop, deleted(7, 9), running(0)), 2, none)),
				want: []string{"stop attempt 0 with grace 7s"}, phase: "Running", couldRun: true,
			},
			ready: []string{"a"},
		}, started: true},
		{behaviour: behaviour{planCase: planCase{
			name:  "why the remote ended a container is told as the kubelet does",
			in:    onSupervised(input(aPod(liveness), 9, killed("Liveness probe failed: exit 1", ""))),
			phase: "Running", want: []string{"launch attempt 1"},
		}}, says: []string{
			"Unhealthy Liveness probe failed: exit 1", "Killing Container a failed liveness probe, will be restarted",
		}},
		{behaviour: behaviour{planCase: planCase{
			name:  "of a hook it is not told what it printed",
			in:    onSupervised(input(aPod(withPostStart), 9, killed("", "PostStart"))),
			phase: "Running", want: []string{"launch attempt 1"},
		}}, says: []string{"FailedPostStartHook PostStartHook failed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.run(t)
			p := Decide(tt.in)
			var says []string
			for _, s := range p.Events {
				says = append(says, s.Reason+" "+s.Message)
			}
			if !slices.Equal(says, tt.says) {
				t.Errorf("says %q, want %q", says, tt.says)
			}
			if started := statusOf(t, p.Status, "a").Started; started == nil || *started != tt.started {
				t.Errorf("started %v, want %v", started, tt.started)
			}
		})
	}
}

// Addresses are put in by the remote: nothing waits for them.
func TestAddressesComeLate(t *testing.T) {
	in := onSupervised(input(aPod(change(func(c *corev1.Container) {
		c.Env = []corev1.EnvVar{{
			Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}},
		}}
		c.Args = []string{"--ip=$(IP)"}
	})), 0))
	in.Objects.ServicesSynced = true
	p := Decide(in)
	if len(p.Actions) != 1 {
		t.Fatalf("%v", p.Actions)
	}
	c := p.Actions[0].(Launch).Spec.Containers[0]
	if c.Container.Env[0].Value != backend.LatePodIP || c.Container.Args[0] != "--ip="+backend.LatePodIP ||
		c.Origins.Env["IP"] != backend.OriginShared {
		t.Errorf("%+v %+v", c.Container, c.Origins)
	}
}

// Files of a running pod are refreshed when they change; what was launched with is not
// given again.
func TestRefresh(t *testing.T) {
	alive := attempt(0, true, runs("a", 0, 1))
	has := func(in Input, data string) Input {
		in.Objects.ConfigMaps = map[string]resolve.Object[*corev1.ConfigMap]{
			"config": {Value: &corev1.ConfigMap{Data: map[string]string{"k": data}}},
		}
		return in
	}
	in := has(onSupervised(input(aPod(configVolume), 3, alive)), "one")
	p := Decide(in)
	if len(p.Actions) != 1 || p.Actions[0].String() != "refresh volumes v" {
		t.Fatalf("after a restart nobody knows what the pod has: %v", p.Actions)
	}
	in.Memory.Record(Result{Action: p.Actions[0], At: at(3)})
	if p := Decide(in); len(p.Actions) != 0 {
		t.Errorf("given twice: %v", p.Actions)
	}
	in = has(in, "two")
	again := Decide(in).Actions
	if len(again) != 1 {
		t.Fatalf("a change: %v", again)
	}
	in.Memory.Record(Result{Action: again[0], At: at(3), Err: errors.New("no")})
	if p := Decide(in); len(p.Actions) != 0 || p.WakeAt.IsZero() {
		t.Errorf("a failure is not waited out: %v, %v", p.Actions, p.WakeAt)
	}
	launched := has(onSupervised(input(aPod(configVolume), 0)), "one")
	launch := Decide(launched).Actions[0]
	launched.Memory.Record(Result{Action: launch, At: at(1)})
	launched.Facts = []backend.PodFacts{alive}
	launched.Now = at(3)
	if p := Decide(launched); len(p.Actions) != 0 {
		t.Errorf("given again after the launch: %v", p.Actions)
	}
}
