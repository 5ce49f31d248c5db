package eviction

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/burstlet/burstlet/backend"
)

// The limits on local storage as signals, for the kubelet's metric: they are no signals of
// the node.
const (
	emptyDirLimit  Signal = "emptydirfs.limit"
	podLimit       Signal = "ephemeralpodfs.limit"
	containerLimit Signal = "ephemeralcontainerfs.limit"
)

// Limits returns the signals of [Excess].
func Limits() []Signal { return []Signal{emptyDirLimit, podLimit, containerLimit} }

// Excess is a limit on local storage that a pod is over.
type Excess struct {
	Signal Signal
	// Message is the kubelet's, with its space at the end.
	Message string
}

// LimitsStorage is true for a pod that has a limit on local storage.
func LimitsStorage(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if sizeLimit(&pod.Spec.Volumes[i]) != nil {
			return true
		}
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if _, ok := containers[i].Resources.Limits[corev1.ResourceEphemeralStorage]; ok {
				return true
			}
		}
	}
	return false
}

// sizeLimit is that of an emptyDir; nil for none.
func sizeLimit(v *corev1.Volume) *resource.Quantity {
	if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Sign() <= 0 {
		return nil
	}
	return v.EmptyDir.SizeLimit
}

// OverStorage says which limit on local storage a pod is over, in the kubelet's order
// (localStorageEviction); nil for none. What was not measured is over none.
//
//	emptyDir with a sizeLimit       what the volume holds
//	containers' limits, summed up   the pod's layers, logs and volumes on the disk
//	a container's limit             its layer and its logs
func OverStorage(pod *corev1.Pod, stats *backend.PodStats) *Excess {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if limit := sizeLimit(v); limit != nil && exceeds(usedBytes(stats.Volumes[v.Name].Used), limit) {
			return &Excess{emptyDirLimit, fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, limit.String())}
		}
	}
	limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
	if limit, ok := limits[corev1.ResourceEphemeralStorage]; ok && exceeds(podStorage(pod, stats), &limit) {
		return &Excess{podLimit, fmt.Sprintf(
			"Pod ephemeral local storage usage exceeds the total limit of containers %s. ", limit.String())}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		limit := c.Resources.Limits.StorageEphemeral()
		if limit.IsZero() || !exceeds(containerStorage(stats, c.Name), limit) {
			continue
		}
		return &Excess{containerLimit, fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit.String())}
	}
	return nil
}

func exceeds(used uint64, limit *resource.Quantity) bool {
	return resource.NewQuantity(int64(used), resource.BinarySI).Cmp(*limit) > 0 //nolint:gosec // bytes on a disk
}

func usedBytes(n *uint64) uint64 {
	if n == nil {
		return 0
	}
	return *n
}

func usedOf(f *backend.FilesystemUsage) uint64 {
	if f == nil {
		return 0
	}
	return usedBytes(f.Used)
}

// podStorage is what a pod takes of its host's disk: what was measured of it as a
// whole, else the sum of its parts.
func podStorage(pod *corev1.Pod, stats *backend.PodStats) uint64 {
	if stats.EphemeralStorage != nil && stats.EphemeralStorage.Used != nil {
		return *stats.EphemeralStorage.Used
	}
	var sum uint64
	for i := range stats.Containers {
		sum += usedOf(stats.Containers[i].Rootfs) + usedOf(stats.Containers[i].Logs)
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; onDisk(v) {
			sum += usedBytes(stats.Volumes[v.Name].Used)
		}
	}
	return sum
}

// onDisk is true for volumes that count as the pod's local storage (kubelet:
// IsLocalEphemeralVolume).
func onDisk(v *corev1.Volume) bool {
	return v.ConfigMap != nil || v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault
}

// containerStorage is what the newest attempt of a container takes.
func containerStorage(stats *backend.PodStats, name string) uint64 {
	var newest *backend.ContainerStats
	for i := range stats.Containers {
		if c := &stats.Containers[i]; c.Name == name && (newest == nil || c.Attempt > newest.Attempt) {
			newest = c
		}
	}
	if newest == nil {
		return 0
	}
	return usedOf(newest.Rootfs) + usedOf(newest.Logs)
}
