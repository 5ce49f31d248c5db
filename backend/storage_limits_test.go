package backend

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestStorageLimitsOnlyReadThePod: other goroutines read it meanwhile, and a quantity keeps
// the text that it is asked for, where nothing but a comparison of all fields sees it.
func TestStorageLimitsOnlyReadThePod(t *testing.T) {
	t.Parallel()
	ephemeral := func(size int64) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{
			corev1.ResourceEphemeralStorage: *resource.NewQuantity(size, resource.BinarySI),
		}}
	}
	podOf := func() *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "app", Resources: ephemeral(1 << 20)}},
			Volumes: []corev1.Volume{{Name: "dir", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: resource.NewQuantity(2<<20, resource.BinarySI)},
			}}},
		}}
	}
	pod := podOf()
	limits := StorageLimits(pod)
	if len(limits.Volumes) != 1 || limits.Volumes[0].Text != "2Mi" || len(limits.Containers) != 1 || limits.Pod == nil {
		t.Errorf("limits %+v", limits)
	}
	if !reflect.DeepEqual(pod, podOf()) {
		t.Error("the pod was written to")
	}
}
