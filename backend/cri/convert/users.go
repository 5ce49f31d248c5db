package convert

import (
	"path"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// OwnUsers is true of a pod with a user namespace of its own.
func OwnUsers(pod *corev1.Pod) bool { return pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers }

// userNamespace is the pod's own, without its ids; nil for the host's.
func userNamespace(pod *corev1.Pod) *runtimeapi.UserNamespace {
	if !OwnUsers(pod) {
		return nil
	}
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD}
}

// Users asks the host for the ids of the pod whose logs stand in a directory; nil for a
// pod with the host's. given is true where it has a sandbox.
func Users(pod *corev1.Pod, logDir string, given bool) *host.Users {
	if !OwnUsers(pod) {
		return nil
	}
	return &host.Users{Mark: path.Join(logDir, host.LogMark), Given: given}
}

// SetUsers gives a pod's user namespace the ids from first on; 0 is for a pod that has
// none.
func SetUsers(o *runtimeapi.NamespaceOption, first uint32) {
	if first == 0 {
		return
	}
	o.GetUsernsOptions().Uids, o.GetUsernsOptions().Gids = idMappings(first), idMappings(first)
}

func idMappings(first uint32) []*runtimeapi.IDMapping {
	return []*runtimeapi.IDMapping{{HostId: first, Length: host.UserIDs}}
}

// MapMounts has the runtime map the owners of all that is mounted: on the host it is
// root's and the pod's groups', as without a user namespace (kubelet:
// applyPlatformSpecificContainerConfig).
func MapMounts(mounts []*runtimeapi.Mount, first uint32) {
	if first == 0 {
		return
	}
	for _, m := range mounts {
		m.UidMappings, m.GidMappings = idMappings(first), idMappings(first)
	}
}
