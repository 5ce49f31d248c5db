package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func killed(name, id, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ContainerID: id, Reason: reason},
	}}
}

// restarted is a container that runs again after it was killed.
func restarted(s corev1.ContainerStatus) corev1.ContainerStatus {
	s.LastTerminationState = s.State
	s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	return s
}

// TestOOMEvents: each attempt that was killed for memory is told of once, however its
// status is shown afterwards.
func TestOOMEvents(t *testing.T) {
	first, second := killed("a", "sim://1", "OOMKilled"), killed("a", "sim://2", "OOMKilled")
	again := second
	again.LastTerminationState = first.State
	for name, tt := range map[string]struct {
		before, now []corev1.ContainerStatus
		want        int
	}{
		"nothing":                       {},
		"an end by itself":              {now: []corev1.ContainerStatus{killed("a", "sim://1", "Error")}},
		"a kill":                        {now: []corev1.ContainerStatus{first}, want: 1},
		"a kill that was told of":       {before: []corev1.ContainerStatus{first}, now: []corev1.ContainerStatus{first}},
		"a kill seen after the restart": {now: []corev1.ContainerStatus{restarted(first)}, want: 1},
		"the restart after one": {
			before: []corev1.ContainerStatus{first}, now: []corev1.ContainerStatus{restarted(first)},
		},
		"the next kill": {
			before: []corev1.ContainerStatus{restarted(first)}, now: []corev1.ContainerStatus{again}, want: 1,
		},
		"an older one that is shown again": {before: []corev1.ContainerStatus{second}, now: []corev1.ContainerStatus{again}},
		"two at a time":                    {now: []corev1.ContainerStatus{again}, want: 2},
		"of two containers, in one status": {
			now: []corev1.ContainerStatus{first, killed("b", "sim://3", "OOMKilled")}, want: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := OOMEvents(
				&corev1.Pod{}, &corev1.PodStatus{ContainerStatuses: tt.before}, &corev1.PodStatus{ContainerStatuses: tt.now},
			)
			if len(got) != tt.want {
				t.Errorf("Events %+v, want %d", got, tt.want)
			}
		})
	}
}

func TestOOMMessages(t *testing.T) {
	limit := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	limited := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{
		Name: "a", Resources: corev1.ResourceRequirements{Limits: limit},
	}}}}
	whole := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "a"}}, Resources: &corev1.ResourceRequirements{Limits: limit},
	}}
	for want, pod := range map[string]*corev1.Pod{
		"Container a was killed because it used more memory than its limit of 64Mi: " +
			"raise the limit (resources.limits.memory) or make it use less.": limited,
		"Container a was killed because its pod used more memory than the pod's limit of 64Mi: " +
			"raise the limit (spec.resources.limits.memory) or make it use less.": whole,
		"Container a, which has no memory limit, was killed because its host ran out of memory: " +
			"give the pods of this node memory requests and limits, or the node more memory.": {},
	} {
		if got := oomMessage(pod, "a"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
