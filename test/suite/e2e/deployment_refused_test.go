package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// TestDeploymentRefused: a Deployment whose pods the node can never take does
// not flood the cluster. The failures of its pods are spaced, 0, 10, 30 and 70 s
// after the first, so that it makes three pods and one for each that failed. Every
// pod's Events say what is wrong, also of those that wait. When the user has put it
// right, it runs.
func TestDeploymentRefused(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 40*time.Second)
	const field = "spec.volumes[0].csi"
	c := theCluster(t)
	n := newNode(t, c, "refuses", "  type: sim\n")
	n.run()
	r := rollout{c: c, n: n, namespace: c.namespace(t, "refuses"), replicas: 3}
	made := r.made(t)
	d := r.deployment()
	pod := &corev1.Pod{Spec: d.Spec.Template.Spec}
	mount("models", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "csi.example.org"}})(pod)
	d.Spec.Template.Spec = pod.Spec
	created := time.Now()
	if _, err := c.client.AppsV1().Deployments(r.namespace).Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Between the third failure and the fourth there are 40 s.
	var all []corev1.Pod
	wait.For(t, patience, "three pods have failed, and three wait", func() error {
		phases := map[corev1.PodPhase]int{}
		all = r.pods(t)
		for _, pod := range all {
			phases[pod.Status.Phase]++
		}
		if len(all) > 2*int(r.replicas) { // of a flood no more need be looked at
			t.Fatalf("within %s there are %v", time.Since(created), phases)
		}
		if phases[corev1.PodFailed] != 3 || phases[corev1.PodPending] != 3 {
			return fmt.Errorf("there are %v", phases)
		}
		return nil
	})
	if took := time.Since(created); took < 30*time.Second {
		t.Errorf("three pods failed within %s", took)
	}
	if pods := made(); len(pods) > len(all) {
		t.Errorf("%d pods were made, and %d are there", len(pods), len(all))
	}
	for _, pod := range all {
		if pod.Status.Phase == corev1.PodFailed && !has(pod.Status.Message, []string{"Pod was rejected: ", field}) {
			t.Errorf("pod %s failed with %q", pod.Name, pod.Status.Message)
		}
	}
	for _, pod := range all {
		wait.For(t, patience, fmt.Sprintf("an Event of pod %s names the field", pod.Name), func() error {
			if said := c.events(t.Context(), r.namespace, pod.UID); !has(said, []string{"UnsupportedByBackend", field}) {
				return fmt.Errorf("there are %s", said)
			}
			return nil
		})
	}
	r.putRight(t)
}

// putRight gives the Deployment pods that the node takes, and waits for them.
func (r rollout) putRight(t *testing.T) {
	t.Helper()
	deployments, right := r.c.client.AppsV1().Deployments(r.namespace), r.deployment()
	wait.For(t, patience, "update the Deployment", func() error {
		now, err := deployments.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Spec.Template = right.Spec.Template
		_, err = deployments.Update(t.Context(), now, metav1.UpdateOptions{})
		return err
	})
	wait.For(t, patience, "the Deployment that was put right runs", func() error {
		now, err := deployments.Get(t.Context(), "web", metav1.GetOptions{})
		if err == nil && (now.Status.ObservedGeneration < now.Generation || now.Status.ReadyReplicas != 3 ||
			now.Status.UpdatedReplicas != 3) {
			err = fmt.Errorf("%+v", now.Status)
		}
		return err
	})
}

// made watches the rollout's pods; the function that it returns ends the watch
// and names those that were made until then.
func (r rollout) made(t *testing.T) func() []types.UID {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	events, err := r.c.client.CoreV1().Pods(r.namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var (
		uids []types.UID
		wg   sync.WaitGroup
	)
	wg.Go(func() {
		for e := range events.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok && !slices.Contains(uids, pod.UID) {
				uids = append(uids, pod.UID)
			}
		}
	})
	return func() []types.UID {
		events.Stop()
		wg.Wait()
		return uids
	}
}
