package sim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// linuxUser is the user that a container runs as.
func linuxUser(spec *backend.ContainerSpec) *corev1.LinuxContainerUser {
	uid, gid := userOf(spec)
	u := &corev1.LinuxContainerUser{UID: uid, GID: gid, SupplementalGroups: []int64{gid}}
	if spec.Pod == nil || spec.Pod.Spec.SecurityContext == nil {
		return u
	}
	sc := spec.Pod.Spec.SecurityContext
	u.SupplementalGroups = append(u.SupplementalGroups, sc.SupplementalGroups...)
	if sc.FSGroup != nil {
		u.SupplementalGroups = append(u.SupplementalGroups, *sc.FSGroup)
	}
	slices.Sort(u.SupplementalGroups)
	u.SupplementalGroups = slices.Compact(u.SupplementalGroups)
	return u
}

// userOf is the user that the security contexts name; root where they name none.
func userOf(spec *backend.ContainerSpec) (uid, gid int64) {
	if spec.Pod != nil && spec.Pod.Spec.SecurityContext != nil {
		if sc := spec.Pod.Spec.SecurityContext; sc.RunAsUser != nil {
			uid = *sc.RunAsUser
		}
		if sc := spec.Pod.Spec.SecurityContext; sc.RunAsGroup != nil {
			gid = *sc.RunAsGroup
		}
	}
	if sc := spec.Container.SecurityContext; sc != nil {
		if sc.RunAsUser != nil {
			uid = *sc.RunAsUser
		}
		if sc.RunAsGroup != nil {
			gid = *sc.RunAsGroup
		}
	}
	return uid, gid
}
