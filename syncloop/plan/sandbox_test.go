package plan

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// TestNetworkNotReady: behaviour 13.
func TestNetworkNotReady(t *testing.T) {
	in := input(aPod(), 0)
	in.NetworkProblem = "cni plugin not initialized"
	p := Decide(in)
	wantActions(t, p)
	if len(p.Events) != 1 || p.Events[0].Reason != "NetworkNotReady" {
		t.Errorf("says %v, want NetworkNotReady", p.Events)
	}
	if !p.WakeAt.Equal(in.Now.Add(time.Second)) {
		t.Errorf("looks again at %v", p.WakeAt)
	}
	in.Pod.Spec.HostNetwork = true
	wantActions(t, Decide(in), "launch attempt 0", "start container a attempt 0")
}

// TestSandboxChanged: behaviour 14, a sandbox that is gone: everything is
// stopped, the attempt counts on, init containers run again; not in a pod that
// is finished.
func TestSandboxChanged(t *testing.T) {
	lost := attempt(0, true, ran1("i", 0, 1, 2, 0), runs("a", 0, 2))
	lost.Reason = backend.SandboxNotReady
	for _, tt := range []planCase{
		{
			name: "what runs on without its sandbox is stopped", in: input(aPod(inits("i"), running(0)), 3, lost),
			want: []string{"stop attempt 0 with grace 30s"}, phase: "Running",
		},
		{
			name: "then the next attempt, from its init containers",
			in:   input(aPod(inits("i"), running(0)), 5, attempt(0, false, ran1("i", 0, 1, 2, 0), ran1("a", 0, 2, 4, 143))),
			want: []string{"launch attempt 1", "start container i attempt 1"}, phase: "Running",
		},
		{
			name:  "a finished pod stays finished",
			in:    input(aPod(policy("Never"), inits("i")), 5, attempt(0, false, ran1("i", 0, 1, 2, 0), ran1("a", 0, 2, 4, 0))),
			phase: "Succeeded",
		},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.decide(t) })
	}
}

// A sandbox that dies under running containers takes nothing from their end: preStop hooks
// run within the grace, sidecars stop after those that they serve (kubelet: SyncPod,
// killPodWithSyncResult).
func TestSandboxDiedEndsInOrder(t *testing.T) {
	withPreStop := change(func(c *corev1.Container) {
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 60}}}
	})
	pod := aPod(withPreStop, sidecars("s"), running(0))
	died := attempt(0, true, runs("s", 0, 1), runs("a", 0, 2))
	died.Reason = backend.SandboxNotReady
	in := input(pod, 3, died)
	p := Decide(in)
	wantActions(t, p)
	if len(p.Hooks) != 1 || p.Hooks[0].Key.Kind != PreStop {
		t.Fatalf("hooks %v, want the preStop of a", p.Hooks)
	}
	in.Memory.Terminations, in.Now = p.Terminations, at(20)
	p = Decide(in)
	wantActions(t, p)
	if !p.WakeAt.Equal(at(33)) {
		t.Errorf("its grace ends at %v, want 30 s after the sandbox died", p.WakeAt)
	}
	in.Memory.Terminations, in.Now = p.Terminations, at(33)
	p = Decide(in)
	wantActions(t, p, "stop container a attempt 0 with grace 2s", "stop container s attempt 0 with grace 2s")

	in = input(pod, 40, attempt(0, true, ran1("s", 0, 1, 35, 0), ran1("a", 0, 2, 34, 143)))
	in.Facts[0].Reason = backend.SandboxNotReady
	in.Memory.Terminations = p.Terminations
	wantActions(t, Decide(in), "launch attempt 1", "start container s attempt 1")
}

// TestKeepsOneDead: behaviour 22.
func TestKeepsOneDead(t *testing.T) {
	p := Decide(input(aPod(), 9, attempt(0, true, ran1("a", 0, 1, 2, 1), ran1("a", 1, 3, 4, 1), runs("a", 2, 5))))
	wantActions(t, p, "remove container a attempt 0")
}
