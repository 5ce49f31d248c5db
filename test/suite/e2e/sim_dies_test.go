package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// TestRemoteDies kills the remote itself with SIGKILL, with all that runs on it,
// and starts it empty, as a host that crashed. While it is away no status
// changes: nothing is known. After that every container ended for a reason that
// nobody saw, and the pods' policies decide: those that start again have their
// volumes, with tokens.
func TestRemoteDies(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 15*time.Second)
	c := theCluster(t)
	p := newSimProcess(t)
	view := p.as(c, "remote-dies")
	n := newNode(t, c, "remote-dies", p.section())
	n.run()
	policies := []corev1.RestartPolicy{
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever,
	}
	rows := map[corev1.RestartPolicy]*life{}
	for _, policy := range policies {
		l := &life{T: t, c: c, n: n, remote: remote{mounts: true}, namespace: c.namespace(t, "dies-"+
			map[corev1.RestartPolicy]string{
				corev1.RestartPolicyAlways: "always", corev1.RestartPolicyOnFailure: "onfailure",
				corev1.RestartPolicyNever: "never",
			}[policy])}
		l.create(l.pod(forever, readyWhen("test -s "+serviceAccountDir+"token && test -s "+serviceAccountDir+"ca.crt"),
			func(pod *corev1.Pod) { pod.Spec.RestartPolicy = policy }))
		rows[policy] = l
	}
	before := map[corev1.RestartPolicy]*corev1.Pod{}
	for policy, l := range rows {
		before[policy] = l.until("Ready", isReady)
	}

	p.Kill()
	for _, l := range rows {
		l.stays(time.Second, "nothing is known while the remote is away", func(pod *corev1.Pod) error {
			if err := isReady(pod); err != nil {
				return err
			}
			return neverRestarted(pod)
		})
	}
	p.Start()
	for policy, l := range rows {
		pod := l.until("after the crash", func(pod *corev1.Pod) error { return endedUnseen(pod, policy) })
		if pod.UID != before[policy].UID {
			t.Errorf("policy %s: another pod", policy)
		}
	}
	n.ready()
	fresh := &life{T: t, c: c, n: n, remote: remote{mounts: true}, namespace: c.namespace(t, "dies-fresh")}
	fresh.create(fresh.pod(forever))
	fresh.until("a new pod is taken", isReady)

	for _, l := range append([]*life{fresh}, rows[policies[0]], rows[policies[1]], rows[policies[2]]) {
		if err := l.pods().DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	}
	wait.For(t, patience, "nothing is left", func() error {
		if left := view.left(t, ""); len(left) > 0 {
			return fmt.Errorf("on the remote: %v", left)
		}
		return c.gone(t, fresh.namespace, "subject")
	})
}

// endedUnseen is nil for a pod whose container ended in a way that nobody saw,
// and went on as its policy says.
func endedUnseen(pod *corev1.Pod, policy corev1.RestartPolicy) error {
	c, err := app(&pod.Status)
	if err != nil {
		return err
	}
	end := c.LastTerminationState.Terminated
	if policy == corev1.RestartPolicyNever {
		end = c.State.Terminated
		err = phaseIs(corev1.PodFailed)(pod)
	} else if err = isReady(pod); err == nil && c.RestartCount != 1 {
		err = fmt.Errorf("%s", states(&pod.Status))
	}
	if err == nil && (end == nil || end.Reason != "ContainerStatusUnknown" || end.ExitCode != 137) {
		err = fmt.Errorf("%s, want the end ContainerStatusUnknown with 137", states(&pod.Status))
	}
	return err
}
