package eviction

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/localstorage"
)

// Limits returns the signals of the limits on local storage, for the kubelet's metric.
func Limits() []Signal {
	return []Signal{localstorage.EmptyDirLimit, localstorage.PodLimit, localstorage.ContainerLimit}
}

// LimitsStorage is true for a pod that has a limit on local storage. It is asked of each pod
// every few seconds, so a pod that names none is told by a look, without a sum.
func LimitsStorage(pod *corev1.Pod) bool {
	if !namesStorageLimit(pod) {
		return false
	}
	limits := backend.StorageLimits(pod)
	return limits.Any()
}

// namesStorageLimit is true for each pod with a limit on local storage, and for some others.
func namesStorageLimit(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if dir := pod.Spec.Volumes[i].EmptyDir; dir != nil && dir.SizeLimit != nil {
			return true
		}
	}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if _, ok := containers[i].Resources.Limits[corev1.ResourceEphemeralStorage]; ok {
				return true
			}
		}
	}
	return false
}

// OverStorage says which limit on local storage a pod is over; nil for none. What was not
// measured is over none.
func OverStorage(pod *corev1.Pod, stats *backend.PodStats) *localstorage.Excess {
	usage := localstorage.Usage{Volumes: map[string]uint64{}, Containers: map[string]uint64{}, Pod: podStorage(pod, stats)}
	for name, v := range stats.Volumes {
		usage.Volumes[name] = usedBytes(v.Used)
	}
	for i := range pod.Spec.Containers {
		name := pod.Spec.Containers[i].Name
		usage.Containers[name] = containerStorage(stats, name)
	}
	limits := backend.StorageLimits(pod)
	return limits.Over(&usage)
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
