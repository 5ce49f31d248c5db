package resolve

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// ReadOnlyBelow says whether a mount of the pod is read-only with all that is mounted
// below it. It fails where the mount demands that and the pod's runtime handler cannot do
// it (kubelet: resolveRecursiveReadOnly).
func ReadOnlyBelow(pod *corev1.Pod, m *corev1.VolumeMount, o Objects, node Node) (bool, error) {
	mode := m.RecursiveReadOnly
	if mode == nil || *mode == corev1.RecursiveReadOnlyDisabled {
		return false, nil
	}
	var handler string
	if class := pod.Spec.RuntimeClassName; class != nil {
		handler = o.RuntimeHandlers[*class].Value
	}
	can := slices.Contains(node.RecursiveReadOnly, handler)
	switch p := m.MountPropagation; {
	case !m.ReadOnly:
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not read-only", m.Name)
	case p != nil && *p != corev1.MountPropagationNone:
		return false, fmt.Errorf(
			"volume %q requested recursive read-only mode, but it is not compatible with propagation %q", m.Name, *p,
		)
	case *mode == corev1.RecursiveReadOnlyIfPossible:
		return can, nil
	case *mode != corev1.RecursiveReadOnlyEnabled:
		return false, fmt.Errorf("unknown recursive read-only mode %q", *mode)
	case !can:
		return false, fmt.Errorf(
			"volume %q requested recursive read-only mode, but it is not supported by the runtime", m.Name,
		)
	}
	return true, nil
}

// setReadOnlyBelow decides, in place, on every mount that may be so.
func (r resolver) setReadOnlyBelow(mounts []corev1.VolumeMount) error {
	for i := range mounts {
		below, err := ReadOnlyBelow(r.pod, &mounts[i], r.objects, r.node)
		switch {
		case err != nil:
			return err
		case below:
			mounts[i].RecursiveReadOnly = new(corev1.RecursiveReadOnlyEnabled)
		default:
			mounts[i].RecursiveReadOnly = nil
		}
	}
	return nil
}
