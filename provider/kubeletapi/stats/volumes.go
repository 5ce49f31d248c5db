package stats

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/burstlet/burstlet/backend"
)

// volumesOf are the volumes of a pod by name, those of claims with their claim. pod
// is nil where the API does not have it any more.
func volumesOf(p *backend.PodStats, pod *corev1.Pod) []statsv1alpha1.VolumeStats {
	out := make([]statsv1alpha1.VolumeStats, 0, len(p.Volumes))
	for name, usage := range p.Volumes {
		out = append(out, statsv1alpha1.VolumeStats{Name: name, FsStats: *fsOf(p.Time, &usage), PVCRef: claimOf(name, pod)})
	}
	slices.SortFunc(out, func(a, b statsv1alpha1.VolumeStats) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// addLocal adds to what containers take of the disk what the pod's volumes do
// (kubelet: IsLocalEphemeralVolume).
func addLocal(fs *statsv1alpha1.FsStats, p *backend.PodStats, pod *corev1.Pod) {
	if fs == nil || pod == nil {
		return
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.ConfigMap == nil && (v.EmptyDir == nil || v.EmptyDir.Medium != corev1.StorageMediumDefault) {
			continue
		}
		usage := p.Volumes[v.Name]
		fs.UsedBytes, fs.InodesUsed = add(fs.UsedBytes, usage.Used), add(fs.InodesUsed, usage.InodesUsed)
	}
}

// claimOf is the claim behind a volume; nil for none. That of an ephemeral volume is
// named after the pod and the volume.
func claimOf(volume string, pod *corev1.Pod) *statsv1alpha1.PVCReference {
	if pod == nil {
		return nil
	}
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.Name != volume:
		case v.PersistentVolumeClaim != nil:
			return &statsv1alpha1.PVCReference{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName}
		case v.Ephemeral != nil:
			return &statsv1alpha1.PVCReference{Namespace: pod.Namespace, Name: pod.Name + "-" + v.Name}
		}
	}
	return nil
}

// runtimeOf is what the runtime keeps: its images, and containers' layers beside
// them. It is nil where nobody can say.
func runtimeOf(facts *backend.StatsFacts) *statsv1alpha1.RuntimeStats {
	if facts.Images == nil {
		return nil
	}
	var at time.Time
	if facts.Node != nil {
		at = facts.Node.Time
	} else {
		for i := range facts.Pods {
			if pod := &facts.Pods[i]; pod.Time.After(at) {
				at = pod.Time
			}
		}
	}
	fs := fsOf(at, facts.Images)
	return &statsv1alpha1.RuntimeStats{ImageFs: fs, ContainerFs: fs}
}
