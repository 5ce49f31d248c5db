package fakecri

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Image is the image of Pod's container.
const Image = "registry.test/app:1"

// Pod is a pod of one container, main.
func Pod(uid string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "name-" + uid, UID: types.UID(uid), Labels: map[string]string{"app": "x"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: Image}}},
	}
}

// Resources are requests and limits, each of cpu and memory ("500m 64Mi"); "-" is none of
// one, and an empty text none of both.
func Resources(requests, limits string) corev1.ResourceRequirements {
	list := func(text string) corev1.ResourceList {
		if text == "" {
			return nil
		}
		cpu, memory, _ := strings.Cut(text, " ")
		out := corev1.ResourceList{}
		if cpu != "-" {
			out[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "-" {
			out[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return out
	}
	return corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
}
