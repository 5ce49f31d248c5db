package mirror

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Writer writes statuses of the API's pods; [statusmgr.Manager] is one.
type Writer interface {
	SetStatus(pod *corev1.Pod, status corev1.PodStatus)
	Reclaimed(uid types.UID)
	Observe(pod *corev1.Pod)
	Forget(uid types.UID)
}

// Status writes the status of a static pod to its mirror pod, as soon as there is one, and
// that of every other pod as it is.
type Status struct {
	writer Writer
	static Static

	mu sync.Mutex
	// latest are the statuses of static pods.
	latest map[types.UID]shown
	// statics are the static pods by the UID of their mirror pods.
	statics map[types.UID]types.UID
}

// shown is a static pod's latest status, and the mirror pod that it was last written to.
type shown struct {
	status *corev1.PodStatus
	mirror types.UID
}

// NewStatus returns a writer before another.
func NewStatus(writer Writer, static Static) *Status {
	return &Status{writer: writer, static: static, latest: map[types.UID]shown{}, statics: map[types.UID]types.UID{}}
}

// SetStatus gives the status of a pod.
func (s *Status) SetStatus(pod *corev1.Pod, status corev1.PodStatus) {
	if !s.static.Has(pod.UID) {
		s.writer.SetStatus(pod, status)
		return
	}
	if mirror := s.note(pod, &status); mirror != nil {
		s.writer.SetStatus(mirror, status)
	}
}

// Observe passes on what the API holds. A mirror pod that is new gets the latest status.
func (s *Status) Observe(pod *corev1.Pod) {
	if !s.static.Has(pod.UID) {
		s.writer.Observe(pod)
		return
	}
	mirror := s.note(pod, nil)
	if mirror == nil {
		return
	}
	s.writer.Observe(mirror)
	s.mu.Lock()
	status := s.latest[pod.UID].status
	s.mu.Unlock()
	if status != nil {
		s.writer.SetStatus(mirror, *status)
	}
}

// note keeps a status, unless it is nil, and returns the pod's mirror pod.
func (s *Status) note(pod *corev1.Pod, status *corev1.PodStatus) *corev1.Pod {
	mirror := s.static.Mirror(pod)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.latest[pod.UID]
	if status != nil {
		now.status = status
	}
	if mirror != nil && now.mirror != mirror.UID {
		delete(s.statics, now.mirror)
		now.mirror = mirror.UID
		s.statics[mirror.UID] = pod.UID
	}
	s.latest[pod.UID] = now
	return mirror
}

// Reclaimed says that nothing of a pod is left. Mirror pods are not deleted for that.
func (s *Status) Reclaimed(uid types.UID) {
	if !s.static.Has(uid) {
		s.writer.Reclaimed(uid)
	}
}

// Forget says that a pod is gone.
func (s *Status) Forget(uid types.UID) {
	s.mu.Lock()
	was, static := s.latest[uid]
	delete(s.latest, uid)
	delete(s.statics, was.mirror)
	s.mu.Unlock()
	switch {
	case !static:
		s.writer.Forget(uid)
	case was.mirror != "":
		s.writer.Forget(was.mirror)
	}
}

// StaticOf is the static pod that a mirror pod shows; for any other pod its own UID.
func (s *Status) StaticOf(uid types.UID) types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if static, is := s.statics[uid]; is {
		return static
	}
	return uid
}
