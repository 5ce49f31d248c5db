package convert

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// ImageMountFields are the first volume of kind image that a container mounts, and the
// first mount of a directory of one; empty for none.
func ImageMountFields(pod *corev1.Pod) (image, subPath string) {
	mounted := map[string]bool{}
	look := func(list string, i int, mounts []corev1.VolumeMount) {
		for j := range mounts {
			m := &mounts[j]
			if backend.ImageVolumeOf(pod, m.Name) == nil {
				continue
			}
			mounted[m.Name] = true
			field := ""
			if m.SubPath != "" {
				field = "subPath"
			} else if m.SubPathExpr != "" {
				field = "subPathExpr"
			}
			if subPath == "" && field != "" {
				subPath = fmt.Sprintf("spec.%s[%d].volumeMounts[%d].%s", list, i, j, field)
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		look("initContainers", i, pod.Spec.InitContainers[i].VolumeMounts)
	}
	for i := range pod.Spec.Containers {
		look("containers", i, pod.Spec.Containers[i].VolumeMounts)
	}
	for i := range pod.Spec.EphemeralContainers {
		look("ephemeralContainers", i, pod.Spec.EphemeralContainers[i].VolumeMounts)
	}
	for i := range pod.Spec.Volumes {
		if image == "" && mounted[pod.Spec.Volumes[i].Name] {
			image = fmt.Sprintf("spec.volumes[%d].image", i)
		}
	}
	return image, subPath
}
