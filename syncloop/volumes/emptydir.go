package volumes

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/burstlet/burstlet/syncloop/resolve"
)

// sized sets the sizeLimit of an emptyDir in memory to what the kubelet gives its
// tmpfs: the least of what the node can allocate, the pod's memory limit and the
// limit of the volume. Without any of them it stays unset. Other sources are
// returned as they are.
func sized(source corev1.VolumeSource, pod *corev1.Pod, node resolve.Node) corev1.VolumeSource {
	if source.EmptyDir == nil || source.EmptyDir.Medium != corev1.StorageMediumMemory {
		return source
	}
	var size *resource.Quantity
	for _, q := range []*resource.Quantity{
		node.Allocatable.Memory(), memoryLimit(pod), source.EmptyDir.SizeLimit,
	} {
		if q != nil && q.Sign() > 0 && (size == nil || q.Cmp(*size) < 0) {
			size = q
		}
	}
	out := source.EmptyDir.DeepCopy()
	if size != nil {
		limit := size.DeepCopy()
		out.SizeLimit = &limit
	}
	return corev1.VolumeSource{EmptyDir: out}
}

// memoryLimit is the pod's: its own, else the sum of its containers' if each has
// one; nil for a pod that has none (kubelet: ResourceConfigForPod).
func memoryLimit(pod *corev1.Pod) *resource.Quantity {
	bounded := true
	limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{
		ContainerFn: func(list corev1.ResourceList, _ resourcehelper.ContainerType) {
			bounded = bounded && !list.Memory().IsZero()
		},
	})
	if pod.Spec.Resources != nil && !pod.Spec.Resources.Limits.Memory().IsZero() {
		bounded = true
	}
	if !bounded {
		return nil
	}
	return limits.Memory()
}
