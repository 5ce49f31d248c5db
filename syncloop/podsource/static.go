package podsource

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AnnotationMirror marks a mirror pod: the copy in the API of a static pod, whose hash is
// the value.
const AnnotationMirror = corev1.MirrorPodAnnotationKey

// Static is a store of the API's pods and the node's static ones. Mirror pods are not
// pods to run: they lend their status to the static pods that they show. Of a name that
// changes its static pod, or that one came for, the old pod ends before the new one is
// there.
type Static struct {
	api Store

	mu sync.Mutex
	// wanted are the static pods by key; whole is true once there can be no others.
	wanted map[string]*corev1.Pod
	whole  bool
	// handed are the static pods that were handed on and have not ended, by key.
	handed map[string]types.UID
	// refused are the static pods that the API server calls invalid.
	refused map[types.UID]bool
	// shown are the static pods as they were handed on last, by key.
	shown map[string]view
	// stale are mirror pods of static pods that went: a pod of the same contents that
	// comes back begins anew.
	stale map[types.UID]bool
}

// view is a static pod as it was handed on, and what that was made of.
type view struct{ pod, mirror, as *corev1.Pod }

// NewStatic returns a store over an informer's, which has no static pods until Set or SetSome.
func NewStatic(api Store) *Static {
	return &Static{
		api: api, handed: map[string]types.UID{}, stale: map[types.UID]bool{}, refused: map[types.UID]bool{},
		shown: map[string]view{},
	}
}

// Set sets the static pods, and returns the keys that may have changed.
func (s *Static) Set(pods []*corev1.Pod) (changed []string) { return s.set(pods, true) }

// SetSome is Set while a source was not read yet: of pods that are not among these nobody
// knows whether they are wanted.
func (s *Static) SetSome(pods []*corev1.Pod) (changed []string) { return s.set(pods, false) }

func (s *Static) set(pods []*corev1.Pod, whole bool) (changed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = s.whole || whole
	old := s.wanted
	s.wanted = make(map[string]*corev1.Pod, len(pods))
	keys := map[string]bool{}
	for _, pod := range pods {
		key := pod.Namespace + "/" + pod.Name
		s.wanted[key], keys[key] = pod, true
	}
	for key, pod := range old {
		keys[key] = true
		if now := s.wanted[key]; now == nil || now.UID != pod.UID {
			if m := s.mirrored(key, pod); m != nil {
				s.stale[m.UID] = true
			}
		}
	}
	return slices.Collect(maps.Keys(keys))
}

// Has is true of a static pod, also of one that was removed and has not ended.
func (s *Static) Has(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range s.wanted {
		if pod.UID == uid {
			return true
		}
	}
	for _, handed := range s.handed {
		if handed == uid {
			return true
		}
	}
	return false
}

// Refuse has a static pod end, and stay away until its contents change.
func (s *Static) Refuse(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[uid] = true
}

// Ended notes that a pod has ended that was removed.
func (s *Static) Ended(key string, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handed[key] == uid {
		delete(s.handed, key)
		delete(s.shown, key)
	}
}

// Known is true once there was a first Set of all.
func (s *Static) Known() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.whole
}

// Pods returns the static pods, but those refused.
func (s *Static) Pods() (pods []*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range s.wanted {
		if !s.refused[pod.UID] {
			pods = append(pods, pod)
		}
	}
	return pods
}

// Mirror is the pod in the API that shows a static pod; nil while there is none.
func (s *Static) Mirror(pod *corev1.Pod) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mirrored(pod.Namespace+"/"+pod.Name, pod)
}

func (s *Static) mirrored(key string, pod *corev1.Pod) *corev1.Pod {
	m := s.inAPI(key)
	if m == nil || m.Annotations[AnnotationMirror] != string(pod.UID) || s.stale[m.UID] || m.DeletionTimestamp != nil {
		return nil
	}
	return m
}

// IsStale is true of a mirror pod that shows a static pod which went.
func (s *Static) IsStale(mirror types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stale[mirror]
}

func (s *Static) inAPI(key string) *corev1.Pod {
	// An informer's store never returns an error for a key.
	if item, ok, err := s.api.GetByKey(key); err == nil && ok {
		pod, _ := item.(*corev1.Pod)
		return pod
	}
	return nil
}

// IsMirror is true of a mirror pod.
func IsMirror(pod *corev1.Pod) bool {
	_, is := pod.Annotations[AnnotationMirror]
	return is
}

// ListKeys implements Store.
func (s *Static) ListKeys() []string { return append(s.api.ListKeys(), s.StaticKeys()...) }

// HasKey is true of the key of a static pod.
func (s *Static) HasKey(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted[key] != nil
}

// StaticKeys are the keys of static pods.
func (s *Static) StaticKeys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.wanted))
}

// GetByKey implements Store.
func (s *Static) GetByKey(key string) (item any, exists bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod, inAPI := s.wanted[key], s.inAPI(key)
	if pod != nil && s.refused[pod.UID] {
		pod = nil
	}
	handed, has := s.handed[key]
	switch {
	case pod == nil && (inAPI == nil || IsMirror(inAPI) || has):
		return nil, false, nil // has: the API's pod of that name waits until it has ended
	case pod == nil:
		return inAPI, true, nil
	case has && handed != pod.UID:
		return nil, false, nil // it waits for the end of the one before
	case !has && inAPI != nil && !IsMirror(inAPI):
		return inAPI, true, nil // the name is the API's; whoever makes the mirror pod tells so
	}
	s.handed[key] = pod.UID
	return s.show(key, pod), true, nil
}

// show is a static pod with the status that its mirror pod has: the same object while
// neither changes.
func (s *Static) show(key string, pod *corev1.Pod) *corev1.Pod {
	mirror, last := s.mirrored(key, pod), s.shown[key]
	if last.pod == pod && last.mirror == mirror {
		return last.as
	}
	as := *pod
	if mirror != nil {
		as.ResourceVersion, as.Status = mirror.ResourceVersion, lent(&mirror.Status)
	}
	s.shown[key] = view{pod, mirror, &as}
	return &as
}

// lent is what of a mirror pod's status is a static pod's. That the pod has ended is not: it
// runs whenever its node does, also after a drain or an eviction, and what its containers
// did tells which of them run again (kubelet: a static pod begins without a status).
func lent(status *corev1.PodStatus) corev1.PodStatus {
	as := *status
	if as.Phase == corev1.PodFailed || as.Phase == corev1.PodSucceeded {
		as.Phase, as.Reason, as.Message = corev1.PodPending, "", ""
	}
	return as
}
