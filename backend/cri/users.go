package cri

import (
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// ownUsers is true of a pod with a user namespace of its own.
func ownUsers(pod *corev1.Pod) bool { return pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers }

// userNamespace is the pod's own, without its ids; nil for the host's.
func userNamespace(pod *corev1.Pod) *runtimeapi.UserNamespace {
	if !ownUsers(pod) {
		return nil
	}
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD}
}

// users asks the host for the ids of the pod whose logs stand in a directory; nil for a
// pod with the host's. given is true where it has a sandbox.
func users(pod *corev1.Pod, logDir string, given bool) *host.Users {
	if !ownUsers(pod) {
		return nil
	}
	return &host.Users{Mark: path.Join(logDir, host.LogMark), Given: given}
}

// setUsers gives a pod's user namespace the ids from first on; 0 is for a pod that has
// none.
func setUsers(o *runtimeapi.NamespaceOption, first uint32) {
	if first == 0 {
		return
	}
	o.GetUsernsOptions().Uids, o.GetUsernsOptions().Gids = idMappings(first), idMappings(first)
}

func idMappings(first uint32) []*runtimeapi.IDMapping {
	return []*runtimeapi.IDMapping{{HostId: first, Length: host.UserIDs}}
}

// mapMounts has the runtime map the owners of all that is mounted: on the host it is
// root's and the pod's groups', as without a user namespace (kubelet:
// applyPlatformSpecificContainerConfig).
func mapMounts(mounts []*runtimeapi.Mount, first uint32) {
	if first == 0 {
		return
	}
	for _, m := range mounts {
		m.UidMappings, m.GidMappings = idMappings(first), idMappings(first)
	}
}

// supportsUsers refuses a user namespace that the runtime cannot make.
func supportsUsers(pod *corev1.Pod, st *runtimeapi.StatusResponse, handler string) error {
	if !ownUsers(pod) || slices.Contains(userNamespaces(st), handler) {
		return nil
	}
	return backend.Errorf(backend.ErrUnsupported, "spec.hostUsers: the runtime's handler %q cannot make user namespaces: "+
		"leave it out, or use containerd 2.0 or newer with runc 1.2 or newer (or crun) on a kernel of 6.3 or newer", handler)
}

// userNamespaces are the handlers that can make them.
func userNamespaces(st *runtimeapi.StatusResponse) []string {
	var out []string
	for _, h := range st.GetRuntimeHandlers() {
		if h.GetFeatures().GetUserNamespaces() {
			out = append(out, h.GetName())
		}
	}
	return out
}
