package volumes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// Unsupported are the fields about volumes that no backend can honour, whatever
// it lends. Volumes that no container uses are the kubelet's to ignore, and ours.
func Unsupported(pod *corev1.Pod) []backend.Refusal {
	var out []backend.Refusal
	mounted := resolve.Mounted(pod)
	for i := range pod.Spec.Volumes {
		vol := &pod.Spec.Volumes[i]
		if !mounted[vol.Name] {
			continue
		}
		field := fmt.Sprintf("spec.volumes[%d]", i)
		if !supported(vol) {
			kind := resolve.KindOf(vol.VolumeSource)
			out = append(out, backend.Refusal{
				Field: field + "." + kind,
				Why: fmt.Sprintf(
					"Volumes of kind %s cannot be mounted on this node: use one of another kind, or run the pod on another node.",
					kind,
				),
			})
		}
		if vol.Projected == nil {
			continue
		}
		for j := range vol.Projected.Sources {
			if vol.Projected.Sources[j].PodCertificate != nil {
				out = append(out, backend.Refusal{
					Field: fmt.Sprintf("%s.projected.sources[%d].podCertificate", field, j),
					Why:   "Pod certificates cannot be projected on this node: mount a Secret that holds the certificate.",
				})
			}
		}
	}
	eachContainer(pod, func(field string, c *corev1.Container) { out = append(out, unsupportedIn(field, c)...) })
	return out
}

func supported(vol *corev1.Volume) bool {
	return vol.EmptyDir != nil || vol.HostPath != nil || vol.NFS != nil ||
		vol.ConfigMap != nil || vol.Secret != nil || vol.Projected != nil || vol.DownwardAPI != nil ||
		vol.PersistentVolumeClaim != nil || vol.Ephemeral != nil || vol.Image != nil
}

func unsupportedIn(field string, c *corev1.Container) []backend.Refusal {
	var out []backend.Refusal
	if len(c.VolumeDevices) > 0 {
		out = append(out, backend.Refusal{
			Field: field + ".volumeDevices",
			Why:   "Block devices cannot be given to containers on this node: mount a volume with a filesystem.",
		})
	}
	return out
}

// eachContainer calls f for every container with its path in the pod.
func eachContainer(pod *corev1.Pod, f func(field string, c *corev1.Container)) {
	for i := range pod.Spec.InitContainers {
		f(fmt.Sprintf("spec.initContainers[%d]", i), &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		f(fmt.Sprintf("spec.containers[%d]", i), &pod.Spec.Containers[i])
	}
	for i := range pod.Spec.EphemeralContainers {
		c := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		f(fmt.Sprintf("spec.ephemeralContainers[%d]", i), &c)
	}
}
