package admit

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// Resize judges a change of the requests of an admitted pod, from those allocated
// to those wanted, beside the others. If it fits, what is wanted is held from now
// on, beside what the pod still has, until [AdmittedPods.Settle]. admitted is false for a
// pod that is not admitted.
//
//	nothing grows                        fits
//	more than the node will ever have    Infeasible
//	more than the others leave           Deferred
func (l *AdmittedPods) Resize(wanted, allocated *corev1.Pod, node Node) (r *Rejection, admitted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own, ok := l.admitted[wanted.UID]
	if !ok {
		return nil, false
	}
	want := requestsOf(wanted)
	if Grows(allocated, wanted) {
		l.used.sub(own)
		r = l.used.resizes(wanted, want, &node)
		l.used.add(own)
		if r != nil {
			return r, true
		}
	}
	l.replace(wanted, own, most(own.requests, want))
	return nil, true
}

// Settle notes that a pod has what it is allocated and nothing more.
func (l *AdmittedPods) Settle(allocated *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own, ok := l.admitted[allocated.UID]; ok {
		l.replace(allocated, own, requestsOf(allocated))
	}
}

func (l *AdmittedPods) replace(pod *corev1.Pod, own share, requests []amount) {
	l.used.sub(own)
	own.requests = requests
	l.used.add(own)
	l.admitted[pod.UID] = own
}

// Grows is true where a pod asks for more cpu or memory than it did.
func Grows(from, to *corev1.Pod) bool {
	was, now := podRequests(from), podRequests(to)
	return now.Cpu().Cmp(*was.Cpu()) > 0 || now.Memory().Cmp(*was.Memory()) > 0
}

// podRequests are what the spec asks for, whatever the status tells.
func podRequests(pod *corev1.Pod) corev1.ResourceList {
	return resource.PodRequests(pod, resource.PodResourcesOptions{})
}

func requestsOf(pod *corev1.Pod) []amount { return amounts(podRequests(pod)) }

// most has of each resource the larger amount.
func most(a, b []amount) []amount {
	out := slices.Clone(a)
	for _, x := range b {
		i := slices.IndexFunc(out, func(y amount) bool { return y.name == x.name })
		if i < 0 {
			out = append(out, x)
			continue
		}
		out[i].value = max(out[i].value, x.value)
	}
	return out
}

// resizes says why a pod cannot have what it wants. What never fits is told in the
// words of kubelets before 1.36, where the API server refuses it.
func (u *usage) resizes(pod *corev1.Pod, want []amount, node *Node) *Rejection {
	if node.Allocatable == nil {
		return &Rejection{corev1.PodReasonDeferred, "Kubelet cannot get node info."}
	}
	capacity := amounts(node.Allocatable)
	for _, a := range want {
		i := slices.IndexFunc(capacity, func(c amount) bool { return c.name == a.name })
		if a.name != corev1.ResourceCPU && a.name != corev1.ResourceMemory || i >= 0 && a.value <= capacity[i].value {
			continue
		}
		var limit int64
		if i >= 0 {
			limit = capacity[i].value
		}
		return &Rejection{corev1.PodReasonInfeasible, fmt.Sprintf(
			"Node didn't have enough capacity: %s, requested: %d, capacity: %d", a.name, a.value, limit)}
	}
	if r := u.fits(pod, node); r != nil {
		return &Rejection{corev1.PodReasonDeferred, r.Message}
	}
	return nil
}
