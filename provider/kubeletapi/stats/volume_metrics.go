package stats

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/burstlet/burstlet/backend"
)

// volumeMetrics are the kubelet's of volumes of claims, with its help texts.
var volumeMetrics = []struct {
	desc  *prometheus.Desc
	field func(*statsv1alpha1.FsStats) *uint64
}{
	{
		volumeDesc("capacity_bytes", "Capacity in bytes of the volume"),
		func(f *statsv1alpha1.FsStats) *uint64 { return f.CapacityBytes },
	},
	{
		volumeDesc("available_bytes", "Number of available bytes in the volume"),
		func(f *statsv1alpha1.FsStats) *uint64 { return f.AvailableBytes },
	},
	{
		volumeDesc("used_bytes", "Number of used bytes in the volume"),
		func(f *statsv1alpha1.FsStats) *uint64 { return f.UsedBytes },
	},
	{
		volumeDesc("inodes", "Maximum number of inodes in the volume"),
		func(f *statsv1alpha1.FsStats) *uint64 { return f.Inodes },
	},
	{
		volumeDesc("inodes_free", "Number of free inodes in the volume"),
		func(f *statsv1alpha1.FsStats) *uint64 { return f.InodesFree },
	},
	{
		volumeDesc("inodes_used", "Number of used inodes in the volume"),
		func(f *statsv1alpha1.FsStats) *uint64 { return f.InodesUsed },
	},
}

func volumeDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("kubelet_volume_stats_"+name, help, []string{"namespace", "persistentvolumeclaim"}, nil)
}

// DescribeVolumes names the metrics of volumes.
func DescribeVolumes(ch chan<- *prometheus.Desc) {
	for _, m := range volumeMetrics {
		ch <- m.desc
	}
}

// CollectVolumes shows each claim once, though several pods mount it.
func CollectVolumes(ch chan<- prometheus.Metric, facts *backend.StatsFacts, pods []*corev1.Pod) {
	known := make(map[types.UID]*corev1.Pod, len(pods))
	for _, pod := range pods {
		known[pod.UID] = pod
	}
	seen := map[statsv1alpha1.PVCReference]bool{}
	for uid, p := range newest(facts) {
		for _, v := range volumesOf(p, known[uid]) {
			if v.PVCRef == nil || seen[*v.PVCRef] {
				continue
			}
			seen[*v.PVCRef] = true
			for _, m := range volumeMetrics {
				if n := m.field(&v.FsStats); n != nil {
					ch <- prometheus.MustNewConstMetric(m.desc, gauge, float64(*n), v.PVCRef.Namespace, v.PVCRef.Name)
				}
			}
		}
	}
}

// HasClaims is true of a pod that mounts a claim.
func HasClaims(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
	})
}
