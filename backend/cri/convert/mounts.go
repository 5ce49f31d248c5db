package convert

import (
	"path"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// messagesDir is in the pod's log directory and goes with it. Log collectors look for *.log
// in directories of containers, whose names have no dot.
const messagesDir = ".termination-messages"

// PodDir is the pod's directory on the host.
func (n Converter) PodDir(uid types.UID) host.PodDir {
	return host.PodDir{Root: n.cfg.PodsDir, Node: n.cfg.NodeIdentity, UID: string(uid)}
}

// AttemptName names an attempt of a container in the pod's directory.
func AttemptName(container string, attempt int) string {
	return container + "_" + strconv.Itoa(attempt)
}

// SetSubPaths puts the paths that were bound in the place of those asked for.
func SetSubPaths(mounts []*runtimeapi.Mount, asked []host.SubPath, bound []string) {
	for _, m := range mounts {
		for i := range asked {
			if m.GetHostPath() == asked[i].Target && i < len(bound) {
				m.HostPath = bound[i]
			}
		}
	}
}

func isReadOnly(sc *corev1.SecurityContext) bool {
	return sc != nil && isTrue(sc.ReadOnlyRootFilesystem)
}

// VolumeMounts are the container's mounts of volumes, and the subPaths that have to
// be bound for them.
func (n Converter) VolumeMounts(spec backend.ContainerSpec) ([]*runtimeapi.Mount, []host.SubPath, error) {
	var mounts []*runtimeapi.Mount
	var subPaths []host.SubPath
	for i := range spec.Container.VolumeMounts {
		m := &spec.Container.VolumeMounts[i]
		if image := imageMount(spec, m); image != nil {
			mounts = append(mounts, image)
			continue
		}
		source, err := n.volumePath(spec.Pod, m)
		if err != nil {
			return nil, nil, err
		}
		mount := &runtimeapi.Mount{
			ContainerPath: containerPath(m.MountPath), HostPath: source.path,
			Readonly:       m.ReadOnly || source.readOnly,
			SelinuxRelabel: source.relabel,
			Propagation:    propagation(m.MountPropagation),
			// The engine has decided on it.
			RecursiveReadOnly: m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled,
		}
		if m.SubPath != "" || source.within != "" {
			target := n.PodDir(spec.Pod.UID).SubPath(AttemptName(spec.Container.Name, spec.Attempt), strconv.Itoa(i))
			subPaths = append(subPaths, host.SubPath{
				Volume: source.path, Path: m.SubPath, ReadOnly: source.readOnly, Within: source.within, Target: target,
			})
			mount.HostPath = target
		}
		mounts = append(mounts, mount)
	}
	return mounts, subPaths, nil
}

// containerPath of a mount is absolute: what is relative starts at the root
// (kubelet: makeMounts).
func containerPath(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return path.Join("/", p)
}

func propagation(p *corev1.MountPropagationMode) runtimeapi.MountPropagation {
	if p == nil {
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE
	}
	switch *p {
	case corev1.MountPropagationHostToContainer:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
	case corev1.MountPropagationBidirectional:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
	default:
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE
	}
}

// volumeSource is where a volume stands on the host.
type volumeSource struct {
	path              string
	readOnly, relabel bool
	within            string // as of host.SubPath
}

func (n Converter) volumePath(pod *corev1.Pod, m *corev1.VolumeMount) (volumeSource, error) {
	name := m.Name
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case v.Name != name:
		case v.HostPath != nil:
			allowed, err := n.allowedHostPath(name, v.HostPath.Path, !m.ReadOnly)
			return volumeSource{path: allowed.path, within: allowed.within, readOnly: allowed.readOnly}, err
		case v.ConfigMap != nil, v.Secret != nil, v.Projected != nil, v.DownwardAPI != nil:
			return volumeSource{path: n.PodDir(pod.UID).Volume(name), readOnly: true, relabel: true}, nil
		case v.PersistentVolumeClaim != nil:
			return volumeSource{path: n.PodDir(pod.UID).Volume(name), readOnly: v.PersistentVolumeClaim.ReadOnly}, nil
		case v.NFS != nil:
			return volumeSource{path: n.PodDir(pod.UID).Volume(name), readOnly: v.NFS.ReadOnly}, nil
		default:
			return volumeSource{path: n.PodDir(pod.UID).Volume(name), relabel: true}, nil
		}
	}
	return volumeSource{}, backend.Errorf(backend.ErrInvalid, "the pod has no volume %q to mount", name)
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

// MessageFile is the host's file that is mounted at terminationMessagePath.
func (n Converter) MessageFile(pod backend.Ref, container string, attempt int) string {
	return path.Join(n.LogDir(pod), messagesDir, container+"_"+strconv.Itoa(attempt))
}

// MessageMounts is none for a container without a path, which the API would
// have set.
func (n Converter) MessageMounts(spec backend.ContainerSpec) []*runtimeapi.Mount {
	if spec.Container.TerminationMessagePath == "" {
		return nil
	}
	return []*runtimeapi.Mount{{
		ContainerPath:  spec.Container.TerminationMessagePath,
		HostPath:       n.MessageFile(PodRef(spec.Pod), spec.Container.Name, spec.Attempt),
		SelinuxRelabel: true,
	}}
}

// PodRef names a pod, of whatever attempt.
func PodRef(pod *corev1.Pod) backend.Ref {
	return backend.Ref{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
}
