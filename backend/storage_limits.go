package backend

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/burstlet/burstlet/backend/localstorage"
)

// StorageLimits are a pod's limits on local storage.
func StorageLimits(pod *corev1.Pod) localstorage.Limits {
	var limits localstorage.Limits
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil && v.EmptyDir.SizeLimit.Sign() > 0 {
			limits.Volumes = append(limits.Volumes, storageLimit(v.Name, *v.EmptyDir.SizeLimit))
		}
	}
	all := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
	if sum, ok := all[corev1.ResourceEphemeralStorage]; ok {
		limits.Pod = new(storageLimit("", sum))
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if limit := c.Resources.Limits.StorageEphemeral(); !limit.IsZero() {
			limits.Containers = append(limits.Containers, storageLimit(c.Name, *limit))
		}
	}
	return limits
}

// storageLimit counts whole bytes: of half a byte more nothing can be used. It has a copy of
// the quantity, since String keeps its result in the one it is called on, and a pod is shared.
func storageLimit(name string, q resource.Quantity) localstorage.Limit {
	bytes := q.Value() // rounded up
	if q.CmpInt64(bytes) < 0 {
		bytes--
	}
	return localstorage.Limit{Name: name, Bytes: bytes, Text: q.String()}
}
