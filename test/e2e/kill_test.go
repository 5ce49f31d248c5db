package e2e

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	killReplicas = 30
	kills        = 20
)

// TestKill kills burstlet with SIGKILL at twenty random moments while a
// Deployment of thirty is rolled out again and again on containerd. In the end
// all thirty run, each once, none restarted but where the kill cut a start short,
// and nothing else is left; a pod that crashed before keeps its count.
func TestKill(t *testing.T) {
	c := theCluster(t)
	h := newContainerdHost(t)
	n := newNode(t, c, "kill", h.section())
	n.start()
	n.ready()
	namespace := c.namespace(t, "kill")
	ctx := t.Context()

	restarts := crash(t, c, n, namespace)
	deployments := c.client.AppsV1().Deployments(namespace)
	if _, err := deployments.Create(ctx, deployment(namespace, n.name), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewSource(seed))
	for i := range kills {
		if i%4 == 2 {
			roll(t, c, namespace, i)
		}
		select {
		case <-time.After(time.Duration(50+random.Intn(1500)) * time.Millisecond):
		case err := <-n.done:
			t.Fatalf("burstlet ended by itself before kill %d: %v", i, err)
		}
		n.kill()
		n.start()
	}

	eventually(t, 3*time.Minute, "the rollout completes", func() error {
		d, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := d.Status; s.ObservedGeneration < d.Generation || s.UpdatedReplicas != killReplicas ||
			s.ReadyReplicas != killReplicas || s.Replicas != killReplicas {
			return fmt.Errorf("%d replicas, %d updated, %d ready", s.Replicas, s.UpdatedReplicas, s.ReadyReplicas)
		}
		return nil
	})
	eventually(t, time.Minute, "the remote has what the API has, once", func() error { return sameAsAPI(t, c, h, namespace) })
	pod, err := c.client.CoreV1().Pods(namespace).Get(ctx, "crashed", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if now := pod.Status.ContainerStatuses[0].RestartCount; now < restarts {
		t.Errorf("the restart count of the crashed pod went from %d to %d", restarts, now)
	}
}

// crash makes a pod that crash-loops and returns its restart count.
func crash(t *testing.T, c *cluster, n *node, namespace string) int32 {
	t.Helper()
	ctx := t.Context()
	crashed := scenario{name: "crashed", policy: "Always", argv: []string{
		"sh", "-c", "exit 1",
	}}.pod(namespace, n.name)
	if _, err := c.client.CoreV1().Pods(namespace).Create(ctx, crashed, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	restarts := int32(0)
	eventually(t, time.Minute, "a pod that crashed", func() error {
		pod, err := c.client.CoreV1().Pods(namespace).Get(ctx, "crashed", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := phaseIs(corev1.PodRunning, crashLoops)(&pod.Status); err != nil {
			return err
		}
		restarts = pod.Status.ContainerStatuses[0].RestartCount
		return nil
	})
	return restarts
}

func deployment(namespace, node string) *appsv1.Deployment {
	replicas, labels := int32(killReplicas), map[string]string{"app": "web"}
	pod := scenario{name: "web", policy: "Always", argv: forever}.pod(namespace, node)
	most := intstr.FromInt32(10)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &most, MaxUnavailable: &most},
			},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
		},
	}
}

// roll changes the template, so that every pod is replaced.
func roll(t *testing.T, c *cluster, namespace string, version int) {
	t.Helper()
	deployments := c.client.AppsV1().Deployments(namespace)
	eventually(t, 30*time.Second, "roll out", func() error {
		d, err := deployments.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "VERSION", Value: fmt.Sprint(version)}}
		_, err = deployments.Update(t.Context(), d, metav1.UpdateOptions{})
		return err
	})
}

// sameAsAPI compares sandboxes and running containers with the API's pods.
func sameAsAPI(t *testing.T, c *cluster, h *containerdHost, namespace string) error {
	t.Helper()
	list, err := c.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, pod := range list.Items {
		wanted[string(pod.UID)] = true
		if err := unharmed(&pod); err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
	}
	if len(wanted) != killReplicas {
		return fmt.Errorf("%d pods", len(wanted))
	}
	sandboxes, running := map[string]int{}, map[string]int{}
	for _, s := range h.sandboxes(t, "") {
		if s.Metadata.Name != "crashed" {
			sandboxes[s.Metadata.Uid]++
		}
	}
	for _, container := range h.containers(t, runtimeapi.ContainerState_CONTAINER_RUNNING) {
		running[container.Labels["io.kubernetes.pod.uid"]]++
	}
	for uid, n := range sandboxes {
		if !wanted[uid] || n != 1 {
			return fmt.Errorf("%d sandboxes of pod %s, which the API has: %v", n, uid, wanted[uid])
		}
	}
	for uid := range wanted {
		if sandboxes[uid] != 1 || running[uid] != 1 {
			return fmt.Errorf("pod %s has %d sandboxes and %d running containers", uid, sandboxes[uid], running[uid])
		}
	}
	return nil
}

// unharmed is nil for a pod that runs and was not restarted. A start that the
// kill cut short is an attempt: containerd gives it up (StartError) and the next
// has restart count 1, as under a kubelet.
func unharmed(pod *corev1.Pod) error {
	if err := phaseIs(corev1.PodRunning, ready)(&pod.Status); err != nil {
		return err
	}
	c := pod.Status.ContainerStatuses[0]
	last := c.LastTerminationState.Terminated
	if c.RestartCount != 0 && (last == nil || last.Reason != "StartError") {
		return fmt.Errorf("it was restarted: %s", states(&pod.Status))
	}
	return nil
}
