package explain

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// kindOf tells sidecars from init containers that end.
func kindOf(spec backend.ContainerSpec) string {
	switch {
	case !spec.Init:
		return KindContainer
	case backend.IsSidecar(&spec.Container):
		return KindSidecar
	default:
		return KindInit
	}
}

// startsWhen says after what the i-th container starts: init containers one after the
// other, the others after the last of them (kubelet: computePodActions).
func startsWhen(all []backend.ContainerSpec, i int) string {
	before := slices.IndexFunc(all, func(s backend.ContainerSpec) bool { return !s.Init }) - 1
	if all[i].Init {
		before = i - 1
	}
	if before < 0 {
		return "at once"
	}
	name := all[before].Container.Name
	if kindOf(all[before]) == KindInit {
		return "when " + name + " has ended with 0"
	}
	if all[before].Container.StartupProbe != nil {
		return "when the startup probe of " + name + " has passed"
	}
	return "when " + name + " has started"
}

// restartsWhen says when the container is started again.
func restartsWhen(spec backend.ContainerSpec) string {
	policy := spec.Pod.Spec.RestartPolicy
	own := spec.Container.RestartPolicy
	switch {
	case kindOf(spec) == KindSidecar:
		return "whenever it ends"
	case own != nil:
		policy = corev1.RestartPolicy(*own)
	case spec.Init && policy != corev1.RestartPolicyNever:
		policy = corev1.RestartPolicyOnFailure
	}
	switch {
	case own != nil && len(spec.Container.RestartPolicyRules) > 0:
		return "as its restartPolicyRules say, else " + string(policy)
	case policy == corev1.RestartPolicyNever:
		return "never"
	case policy == corev1.RestartPolicyOnFailure:
		return "when it fails"
	default:
		return "whenever it ends"
	}
}

// endsWhen says when the i-th container is stopped as the pod ends: sidecars after the
// containers, the last one first (kubelet: termination order).
func endsWhen(all []backend.ContainerSpec, i int) string {
	if kindOf(all[i]) != KindSidecar {
		return "with the pod"
	}
	var later []string
	for _, s := range all[i+1:] {
		if kindOf(s) != KindInit {
			later = append(later, s.Container.Name)
		}
	}
	return "with the pod, after " + strings.Join(later, ", ")
}
