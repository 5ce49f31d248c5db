package admit

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// AdmittedPods holds the pods that the node has admitted and that have not ended, and
// judges new ones beside them. A verdict is for a pod's life: an admitted pod is
// not judged again, and a rejected one stays so though room is made later.
type AdmittedPods struct {
	checks []backend.Checker

	mu       sync.Mutex
	used     *usage
	admitted map[types.UID]share
	// leaving are those of the admitted that are gone from the API.
	leaving  map[types.UID]struct{}
	rejected map[types.UID]verdict
	spacing  spacing
}

type verdict struct {
	rejection *Rejection
	owner     types.UID
	at        time.Time
}

// NewAdmittedPods returns an empty set. The checks say which fields of a pod cannot
// be honoured, beyond [Fields]: the backend's Check, and those of other parts of
// the engine.
func NewAdmittedPods(checks ...backend.Checker) *AdmittedPods {
	return &AdmittedPods{
		checks: checks, used: newUsage(), admitted: map[types.UID]share{},
		leaving: map[types.UID]struct{}{}, rejected: map[types.UID]verdict{}, spacing: newSpacing(),
	}
}

// Judge admits a pod, or says why not and when to fail the pod for it: until
// then it stays Pending. Asked again about a pod it answers the same. Pods that
// wait to be judged are to come in order of creation, after those that already
// run were added.
func (l *AdmittedPods) Judge(pod *corev1.Pod, node Node) (*Rejection, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.admitted[pod.UID]; ok {
		return nil, time.Time{}
	}
	if v, ok := l.rejected[pod.UID]; ok {
		return v.rejection, v.at
	}
	r := decide(pod, &node, l.used, l.refusals(pod))
	if r == nil {
		l.admit(pod)
		return nil, time.Time{}
	}
	return r, l.reject(pod, r, r.recurs())
}

// Refuse returns when to fail an admitted pod that the remote refuses to launch; until
// then it stays Pending, and keeps its room. Asked again it answers the same.
func (l *AdmittedPods) Refuse(pod *corev1.Pod) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v, ok := l.rejected[pod.UID]; ok {
		return v.at
	}
	return l.reject(pod, nil, true)
}

// reject notes a verdict and returns when to fail the pod: at once, or after others of
// its controller where its replacement would fail as well.
func (l *AdmittedPods) reject(pod *corev1.Pod, r *Rejection, recurs bool) time.Time {
	v := verdict{rejection: r, at: time.Now()}
	if owner := metav1.GetControllerOf(pod); owner != nil && recurs {
		v.owner = owner.UID
		v.at = l.spacing.take(owner.UID, pod.UID, v.at)
	}
	l.rejected[pod.UID] = v
	return v.at
}

// Awaits says what a pod lacks only because of pods that left: which hold their room,
// though the scheduler gave it away, until they have ended. Nil: nothing is in its way,
// or it would be rejected without them too.
func (l *AdmittedPods) Awaits(pod *corev1.Pod, node Node) *Rejection {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.rejected[pod.UID]
	if _, ok := l.admitted[pod.UID]; ok || known || len(l.leaving) == 0 {
		return nil
	}
	refusals := l.refusals(pod)
	lack := decide(pod, &node, l.used, refusals)
	if lack == nil {
		return nil
	}
	for uid := range l.leaving {
		l.used.sub(l.admitted[uid])
	}
	without := decide(pod, &node, l.used, refusals)
	for uid := range l.leaving {
		l.used.add(l.admitted[uid])
	}
	if without != nil {
		return nil
	}
	return lack
}

// Leave notes that the API no longer has a pod. It keeps its room until it is removed;
// one that is not admitted is no error.
func (l *AdmittedPods) Leave(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.admitted[uid]; ok {
		l.leaving[uid] = struct{}{}
	}
}

func (l *AdmittedPods) refusals(pod *corev1.Pod) (refusals []backend.Refusal) {
	for _, c := range l.checks {
		refusals = append(refusals, c.Check(pod)...)
	}
	return refusals
}

// Add enters a pod without judging it: one that already runs, or an admitted one
// whose requests have changed.
func (l *AdmittedPods) Add(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, left := l.leaving[pod.UID]
	l.forget(pod.UID)
	if l.admit(pod); left {
		l.leaving[pod.UID] = struct{}{}
	}
}

// Remove takes out a pod whose containers have all ended for good, or that is
// gone; rejected ones too. An unknown pod is no error.
func (l *AdmittedPods) Remove(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(uid)
}

// Len is the number of admitted pods.
func (l *AdmittedPods) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.admitted)
}

func (l *AdmittedPods) admit(pod *corev1.Pod) {
	s := shareOf(pod)
	l.used.add(s)
	l.admitted[pod.UID] = s
}

func (l *AdmittedPods) forget(uid types.UID) {
	if s, ok := l.admitted[uid]; ok {
		l.used.sub(s)
		delete(l.admitted, uid)
		delete(l.leaving, uid)
	}
	if v, ok := l.rejected[uid]; ok {
		l.spacing.release(v.owner, uid, time.Now())
		delete(l.rejected, uid)
	}
}
