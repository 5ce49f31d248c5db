package ecslife

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// beside adds an app container.
func beside(name string, argv ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: "busybox:1", Command: argv})
	}
}

// served adds an init container and a sidecar.
func served(pod *corev1.Pod) {
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "init", Image: "busybox:1", Command: []string{"sleep", "3"}},
		{
			Name: "side", Image: "busybox:1", Command: []string{"sh", "-c", "trap 'exit 0' TERM; while true; do sleep 1; done"},
			RestartPolicy: &always,
		},
	}
}

// with runs f on a pod p in virtual time.
func with(t *testing.T, policy corev1.RestartPolicy, change func(*corev1.Pod), argv []string, f func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, stub.Config{Delays: usual})
		c.change = whole
		p := c.start(&link{})
		defer func() { p.end() }()
		time.Sleep(time.Second)
		c.create("p", policy, change, argv...)
		f(c)
		c.delete("p")
		c.pass(2 * time.Minute)
		if c.get("p") != nil || len(c.live()) > 0 {
			t.Errorf("after its deletion: %v, live tasks %v", c.get("p"), c.live())
		}
	})
}

func statusOf(c *cluster, name string) corev1.ContainerStatus {
	s := c.get("p").Status
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for _, cs := range list {
			if cs.Name == name {
				return cs
			}
		}
	}
	c.t.Fatalf("no status of container %s: %+v", name, s)
	return corev1.ContainerStatus{}
}

// A pod of several containers is done when all of them are, each with its code.
func TestSeveralEnd(t *testing.T) {
	with(t, corev1.RestartPolicyNever, beside(
		"b", "sh", "-c", "sleep 60; exit 4",
	), []string{"sleep", "10"}, func(c *cluster) {
		time.Sleep(50 * time.Second)
		a, b := statusOf(c, "a"), statusOf(c, "b")
		if c.get("p").Status.Phase != corev1.PodRunning || a.State.Terminated == nil || b.State.Running == nil {
			t.Fatalf("one ended, one runs: %s, %+v, %+v", c.get("p").Status.Phase, a.State, b.State)
		}
		ended := a.State.Terminated.FinishedAt
		c.awaitSight(sight{phase: corev1.PodFailed}, time.Minute)
		a, b = statusOf(c, "a"), statusOf(c, "b")
		if a.State.Terminated.ExitCode != 0 || b.State.Terminated.ExitCode != 4 ||
			!a.State.Terminated.FinishedAt.Equal(&ended) {
			t.Errorf("%+v, %+v; a had ended at %s", a.State, b.State, ended)
		}
	})
}

// The end of a container that is told once stays when a new process sees it anew.
func TestAnEndStaysOverARestart(t *testing.T) {
	with(t, corev1.RestartPolicyNever, beside("b", "sleep", "1000"), []string{"sleep", "10"}, func(c *cluster) {
		time.Sleep(50 * time.Second)
		before := statusOf(c, "a")
		c.mu.Lock()
		old := c.now
		c.mu.Unlock()
		old.end()
		again := c.start(&link{})
		*old = *again // whoever ends the old one ends this one
		time.Sleep(time.Minute)
		after := statusOf(c, "a")
		if before.State.Terminated == nil || after.State.Terminated == nil ||
			!after.State.Terminated.FinishedAt.Equal(&before.State.Terminated.FinishedAt) {
			t.Errorf("it ended at %+v, after the restart at %+v", before.State, after.State)
		}
	})
}

// When one of several crashes the whole task is made anew, in the crash loop's
// time, and the restart count is carried.
func TestOneOfSeveralCrashes(t *testing.T) {
	with(t, corev1.RestartPolicyAlways, beside(
		"b", "sh", "-c", "sleep 5; exit 5",
	), []string{"sleep", "100000"}, func(c *cluster) {
		c.pass(4 * time.Minute)
		b := statusOf(c, "b")
		if b.RestartCount < 2 || b.RestartCount > 5 || b.LastTerminationState.Terminated == nil ||
			b.LastTerminationState.Terminated.ExitCode != 5 {
			t.Errorf("after four minutes %d restarts: %+v", b.RestartCount, b)
		}
		if n := c.live()["uid-p"]; n > 1 {
			t.Errorf("%d tasks", n)
		}
	})
}

// Sidecars do not keep a pod from being done, and init containers come first.
func TestServedPodEnds(t *testing.T) {
	with(t, corev1.RestartPolicyNever, served, []string{"sleep", "20"}, func(c *cluster) {
		time.Sleep(22 * time.Second)
		if side, app := statusOf(c, "side"), statusOf(c, "a"); side.State.Running == nil || app.State.Running == nil {
			t.Errorf("side %+v, app %+v", side.State, app.State)
		}
		c.awaitSight(sight{phase: corev1.PodSucceeded, ended: "Completed"}, time.Minute)
		if init := statusOf(c, "init"); init.State.Terminated == nil || init.State.Terminated.ExitCode != 0 {
			t.Errorf("init: %+v", init.State)
		}
	})
}
