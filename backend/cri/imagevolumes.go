package cri

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
)

// imageVolumesSince are the versions of runtimes that mount an image, and a directory of
// one. CRI has no word for it: older ones would mount nothing, or all of the image.
var imageVolumesSince = map[string]struct{ image, subPath string }{
	"containerd": {"2.1", "2.2"},
	"cri-o":      {"1.31", "1.33"},
}

// supportsImageVolumes refuses mounts of images that the runtime cannot make. Errors:
// Unsupported, naming the field.
func (r *remote) supportsImageVolumes(ctx context.Context, pod *corev1.Pod) error {
	image, subPath := imageMountFields(pod)
	if image == "" {
		return nil
	}
	v, err := r.runtime.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return failed(err, "ask the container runtime for its version")
	}
	name, have := v.GetRuntimeName(), v.GetRuntimeVersion()
	since, known := imageVolumesSince[name]
	const why = "%s: the container runtime of this node, %s %s, cannot mount %s: use %s %s or newer"
	switch {
	case !known:
		const instead = "containerd"
		return backend.Errorf(backend.ErrUnsupported, why, image, name, have, "an image", instead, imageVolumesSince[instead].image)
	case !atLeast(have, since.image):
		return backend.Errorf(backend.ErrUnsupported, why, image, name, have, "an image", name, since.image)
	case subPath != "" && !atLeast(have, since.subPath):
		return backend.Errorf(backend.ErrUnsupported, why, subPath, name, have, "a directory of an image", name, since.subPath)
	}
	return nil
}

// atLeast is false for what is no version.
func atLeast(have, want string) bool {
	v, err := version.ParseGeneric(have)
	return err == nil && v.AtLeast(version.MustParseGeneric(want))
}

// imageMountFields are the first volume of kind image that a container mounts, and the
// first mount of a directory of one; empty for none.
func imageMountFields(pod *corev1.Pod) (image, subPath string) {
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

// imageMount is the mount of an image; nil for one of another volume. The runtime mounts
// it, read-only (kubelet: makeMounts).
func imageMount(spec backend.ContainerSpec, m *corev1.VolumeMount) *runtimeapi.Mount {
	source := backend.ImageVolumeOf(spec.Pod, m.Name)
	if source == nil {
		return nil
	}
	image := source.Reference
	for _, v := range spec.ImageVolumes {
		if v.Name == m.Name && v.ImageID != "" {
			image = v.ImageID
		}
	}
	return &runtimeapi.Mount{
		ContainerPath: containerPath(m.MountPath), Readonly: true,
		Propagation:       propagation(m.MountPropagation),
		RecursiveReadOnly: m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled,
		Image:             &runtimeapi.ImageSpec{Image: image, UserSpecifiedImage: source.Reference},
		ImageSubPath:      m.SubPath,
	}
}

// imageVolumesText lists the images that a container mounts, for its annotation.
func imageVolumesText(spec backend.ContainerSpec) string {
	ids := map[string]bool{}
	for _, v := range spec.ImageVolumes {
		if v.ImageID != "" {
			ids[v.ImageID] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(ids)), ",")
}

// mountedImages are the images that a container of anybody mounts. Ours say so in their
// listing; of others the runtime is asked (kubelet: handleImageVolumes).
func (r *remote) mountedImages(ctx context.Context, c *runtimeapi.Container) ([]string, error) {
	if _, ours := c.GetLabels()[labelNode]; ours {
		return strings.Split(c.GetAnnotations()[annotationImageVolumes], ","), nil
	}
	reply, err := r.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.GetId()})
	switch {
	case isNotFound(err):
		return nil, nil
	case err != nil:
		return nil, failed(err, "ask for the mounts of container %s", c.GetId())
	}
	var out []string
	for _, m := range reply.GetStatus().GetMounts() {
		out = append(out, m.GetImage().GetImage())
	}
	return out, nil
}
