package monitoring

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
	"github.com/burstlet/burstlet/test/parts/images"
)

const (
	workNamespace = "monitored"
	missingImage  = "registry.burstlet.test/missing:1"
)

func (w *world) pod(node, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	mount := node != nodeECS // which has volumes with a task image only
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: workNamespace, Name: name + "-" + node},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{corev1.LabelHostname: node},
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			TerminationGracePeriodSeconds: new(int64(1)), AutomountServiceAccountToken: &mount,
			Containers: []corev1.Container{{
				Name: "app", Image: images.BusyboxRef, ImagePullPolicy: corev1.PullIfNotPresent,
				Command: []string{"sh", "-c", "echo hello; sleep 3600"},
			}},
		},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func (w *world) create(pod *corev1.Pod) {
	w.Helper()
	if _, err := w.client.CoreV1().Pods(pod.Namespace).Create(w.Context(), pod, metav1.CreateOptions{}); err != nil {
		w.Error(err)
	}
}

// begin makes the namespace, a pod on each node that stays, and what goes wrong.
func (w *world) begin() {
	w.Helper()
	cptest.Namespace(w, w.client, workNamespace)
	for _, node := range nodeNames {
		w.create(w.pod(node, "stays"))
	}
	w.create(w.pod(nodeCRI, "works", busy))
	// Bound past the scheduler, the pod is refused by the node.
	for i := range 2 {
		w.create(w.pod(nodeSim, fmt.Sprint("refused", i), func(pod *corev1.Pod) {
			pod.Spec.NodeName, pod.Spec.NodeSelector = nodeSim, nil
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Ti")}
		}))
	}
}

// round lets a pod live on each node at once, with kubectl logs where there are logs,
// and AWS refuse what it is asked first.
func (w *world) round(n int) {
	w.Helper()
	// What AWS answers first. The SDK asks three times where it is throttled.
	w.tasks.Inject(ecs.Fault{Action: "RunTask", Code: "ThrottlingException", Times: 3})
	w.tasks.Inject(
		ecs.Fault{
			Action:  "RunTask",
			Failure: "Capacity is unavailable at this time. Please try again later or in a different availability zone",
		},
	)
	w.tasks.Inject(ecs.Fault{Action: "StopTask", Code: "AccessDeniedException"})
	w.create(
		w.pod(nodeCRI, fmt.Sprint("missing", n), func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = missingImage }),
	)
	var group sync.WaitGroup
	for _, node := range nodeNames {
		pod := w.pod(node, fmt.Sprint("round", n))
		w.create(pod)
		group.Go(func() { w.live(pod, node != nodeECS) })
	}
	group.Wait()
	if w.Failed() {
		w.FailNow()
	}
}

// live waits for a pod to run, reads its log, deletes it and waits until it is gone.
func (w *world) live(pod *corev1.Pod, logs bool) {
	pods := w.client.CoreV1().Pods(pod.Namespace)
	w.await(pod.Name+" runs", func() error {
		p, err := pods.Get(w.Context(), pod.Name, metav1.GetOptions{})
		if err == nil && p.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("phase %s, %v", p.Status.Phase, p.Status.ContainerStatuses)
		}
		return err
	})
	if logs {
		// What the container writes first may be a moment away; that there is a log is not.
		if _, err := pods.GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(w.Context()); err != nil {
			w.Errorf("the log of %s: %v", pod.Name, err)
		}
	}
	if err := pods.Delete(w.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		w.Error(err)
		return
	}
	w.await(pod.Name+" is gone", func() error {
		_, err := pods.Get(w.Context(), pod.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("it is still there")
	})
}

// await is wait.For for goroutines beside the test's own.
func (w *world) await(what string, f func() error) {
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if err := wait.Until(ctx, what, func(context.Context) error { return f() }); err != nil {
		w.Error(err)
	}
}
