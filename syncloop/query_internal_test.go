package syncloop

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// queried is a loop with so many pods, of a size as users have them.
func queried(n int) *Loop {
	l := &Loop{workers: map[types.UID]*worker{}}
	for i := range n {
		var env []corev1.EnvVar
		for j := range 20 {
			env = append(env, corev1.EnvVar{Name: fmt.Sprint("NAME", j), Value: fmt.Sprint("value", j)})
		}
		list := corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)),
				Labels: map[string]string{"app": "a", "tier": "b"},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "a", Image: "i", Env: env, Resources: corev1.ResourceRequirements{Requests: list, Limits: list}},
				{Name: "b", Image: "i", Env: env, Resources: corev1.ResourceRequirements{Requests: list, Limits: list}},
			}},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: "of/others"}, {Type: corev1.PodReady}}},
		}
		w := newWorker(l, pod, backend.Ref{})
		w.status = corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		}
		l.workers[pod.UID] = w
	}
	return l
}

func TestPodsAreNotCopied(t *testing.T) {
	l := queried(1)
	pod := l.Pods(nil)[0]
	stored := l.workers["0"]
	if &pod.Spec.Containers[0] != &stored.pod.Spec.Containers[0] {
		t.Error("the pod was copied")
	}
	if got := pod.Status; got.Phase != corev1.PodRunning || len(got.Conditions) != 2 ||
		got.Conditions[0].Status != corev1.ConditionTrue ||
		got.Conditions[1].Type != "of/others" {
		t.Errorf("status %+v", got)
	}
	if len(stored.pod.Status.Conditions) != 2 || stored.pod.Status.Phase != "" || len(stored.status.Conditions) != 1 {
		t.Errorf("what is stored was changed: %+v, %+v", stored.pod.Status, stored.status)
	}
}

func TestPodsThatAreNotWantedCostNothing(t *testing.T) {
	l := queried(1000)
	only := l.Pods(func(p *corev1.Pod) bool { return p.Name == "7" })
	if len(only) != 1 || only[0].Name != "7" || only[0].Status.Phase != corev1.PodRunning {
		t.Errorf("pods %v, want the one that is wanted", only)
	}
	if n := testing.AllocsPerRun(10, func() { l.Pods(func(*corev1.Pod) bool { return false }) }); n > 100 {
		t.Errorf("%g allocations for 1,000 pods, want none for a pod", n)
	}
}

// BenchmarkPods is what a scrape asks of a node of 1,000 pods.
func BenchmarkPods(b *testing.B) {
	l := queried(1000)
	b.ReportAllocs()
	for b.Loop() {
		l.Pods(nil)
	}
}
