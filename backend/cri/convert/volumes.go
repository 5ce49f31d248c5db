package convert

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// Claimed is true of a volume that stands for a claim: it is mounted below the
// pod's directory, whatever it is.
func Claimed(spec backend.VolumeSpec) bool {
	i := slices.IndexFunc(spec.Pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == spec.Name })
	return i >= 0 && (spec.Pod.Spec.Volumes[i].PersistentVolumeClaim != nil || spec.Pod.Spec.Volumes[i].Ephemeral != nil)
}

// Volume is what the host makes of a volume. Errors: Unsupported for a kind, or a path, that
// pods may not have; Invalid in the kubelet's words.
func (n Converter) Volume(spec backend.VolumeSpec) (host.Volume, error) {
	v := host.Volume{
		Pod: n.PodDir(spec.Pod.UID), Namespace: spec.Pod.Namespace, PodName: spec.Pod.Name,
		Name: spec.Name, Hash: spec.Hash, ReadOnly: spec.ReadOnly, MountOptions: spec.MountOptions,
	}
	v.Nested = nested(spec.Pod, spec.Name)
	for _, file := range spec.Files {
		v.Files = append(v.Files, host.File{Path: file.Path, Data: file.Data, Mode: file.Mode, UID: file.UID})
	}
	source := spec.Source
	switch {
	case source.EmptyDir != nil:
		v.ReadOnly = false
		if err := setEmptyDir(&v, spec.Pod, source.EmptyDir); err != nil {
			return host.Volume{}, fmt.Errorf("volume %q: %w", spec.Name, err)
		}
	case source.ConfigMap != nil:
		v.Kind, v.ReadOnly = host.KindFiles, false // containers mount it read-only
	case source.Secret != nil, source.Projected != nil, source.DownwardAPI != nil:
		v.Kind, v.ReadOnly = host.KindSecretFiles, false
	case source.NFS != nil:
		v.Kind, v.Source = host.KindNFS, source.NFS.Server+":"+source.NFS.Path
		return v, nil // its ownership is the server's
	case source.HostPath != nil:
		allowed, err := n.allowedHostPath(spec.Name, source.HostPath.Path, !spec.ReadOnly)
		if err != nil {
			return host.Volume{}, err
		}
		v.Kind, v.Source, v.Within = host.KindBind, allowed.path, allowed.within
		if !spec.Persistent {
			return v, nil
		}
	default:
		return host.Volume{}, backend.Errorf(
			backend.ErrUnsupported, "volume %q: its kind is not supported on a container host", spec.Name,
		)
	}
	if sc := spec.Pod.Spec.SecurityContext; sc != nil {
		v.FSGroup = sc.FSGroup
		v.OnRootMismatch = sc.FSGroupChangePolicy != nil && *sc.FSGroupChangePolicy == corev1.FSGroupChangeOnRootMismatch
	}
	return v, nil
}

// nested are the directories in a volume at which containers mount other volumes:
// they cannot be made once it is mounted read-only.
func nested(pod *corev1.Pod, volume string) []string {
	found := map[string]bool{}
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	for _, e := range pod.Spec.EphemeralContainers {
		containers = append(containers, corev1.Container(e.EphemeralContainerCommon))
	}
	for _, c := range containers {
		for i := range c.VolumeMounts {
			outer := &c.VolumeMounts[i]
			if outer.Name != volume || outer.SubPath != "" || outer.SubPathExpr != "" {
				continue
			}
			for j := range c.VolumeMounts {
				below, inside := strings.CutPrefix(path.Clean(c.VolumeMounts[j].MountPath), path.Clean(outer.MountPath)+"/")
				if inside && below != "" {
					found[below] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func setEmptyDir(v *host.Volume, pod *corev1.Pod, e *corev1.EmptyDirVolumeSource) (err error) {
	switch e.Medium {
	case corev1.StorageMediumMemory:
		v.Kind = host.KindTmpfs
		if e.SizeLimit != nil {
			v.SizeLimit = e.SizeLimit.Value()
		}
	case corev1.StorageMediumDefault:
		v.Kind = host.KindDir // its limit is the engine's to watch
	default:
		v.Kind = host.KindHugePages
		v.PageSize, err = pageSize(pod, e.Medium)
	}
	return err
}
