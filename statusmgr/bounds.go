package statusmgr

import (
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

// The bounds of texts in a status, in bytes.
const (
	// maxPodTermination is what all containers of a pod share for their
	// termination messages, and maxContainerTermination what one may use
	// (pkg/kubelet/container/runtime.go, MaxPodTerminationMessageLogLength and
	// MaxContainerTerminationMessageLength). The kubelet's status manager cuts
	// each at 12 KiB / number of containers; the 4 KiB it applies where it reads
	// the file. Here both are applied, since a backend may not.
	maxPodTermination       = 12 << 10
	maxContainerTermination = 4 << 10

	// The kubelet does not bound the rest: on its host nothing writes long ones.
	// A remote's API may, and an object over etcd's 1.5 MiB could never be
	// written again. A waiting message gets what a termination message gets; the
	// pod's and a condition's message and every reason what metav1.Condition
	// allows them.
	maxWaiting = 4 << 10
	maxMessage = 32 << 10
	maxReason  = 1 << 10
)

// boundStatus cuts the texts of s to their bounds and makes them valid UTF-8:
// the API would store other bytes than we compare with, and each comparison
// would find a difference to write.
func boundStatus(spec *corev1.PodSpec, s *corev1.PodStatus) {
	s.Message = bound(s.Message, maxMessage)
	s.Reason = bound(s.Reason, maxReason)
	for i := range s.Conditions {
		c := &s.Conditions[i]
		c.Message = bound(c.Message, maxMessage)
		c.Reason = bound(c.Reason, maxReason)
	}
	share := terminationShare(spec)
	for _, list := range [][]corev1.ContainerStatus{
		s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses,
	} {
		for i := range list {
			boundState(&list[i].State, share)
			boundState(&list[i].LastTerminationState, share)
		}
	}
}

// terminationShare is how many bytes of termination message one container may keep.
func terminationShare(spec *corev1.PodSpec) int {
	n := len(spec.Containers) + len(spec.InitContainers) + len(spec.EphemeralContainers)
	return min(maxContainerTermination, maxPodTermination/max(n, 1))
}

func boundState(s *corev1.ContainerState, share int) {
	if w := s.Waiting; w != nil {
		w.Message = bound(w.Message, maxWaiting)
		w.Reason = bound(w.Reason, maxReason)
	}
	if t := s.Terminated; t != nil {
		t.Message = bound(t.Message, share)
		t.Reason = bound(t.Reason, maxReason)
	}
}

// bound returns s as valid UTF-8 of at most limit bytes, cut between runes.
func bound(s string, limit int) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if len(s) <= limit {
		return s
	}
	end := limit
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
