package allocation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend/cfs"
)

// What the kernel cannot tell apart (pkg/kubelet/cm): cpu limits up to minLimit
// thousandths, cpu requests of equal shares, memory of equal pages.
const (
	minLimit = 10
	pageSize = 4096
)

// Amount is one of the amounts of a container that can change in place.
type Amount struct {
	Limit bool
	Name  corev1.ResourceName
}

// Amounts are all of them: requests and limits of cpu and memory.
func Amounts() [4]Amount {
	return [...]Amount{
		{false, corev1.ResourceCPU},
		{false, corev1.ResourceMemory},
		{true, corev1.ResourceCPU},
		{true, corev1.ResourceMemory},
	}
}

// Of is the amount in a container's resources; false where they do not say it.
func (x Amount) Of(r *corev1.ResourceRequirements) (resource.Quantity, bool) {
	list := r.Requests
	if x.Limit {
		list = r.Limits
	}
	q, ok := list[x.Name]
	return q, ok
}

// enforced is false for what no kernel holds a container to: facts do not say it.
func (x Amount) enforced() bool { return x.Limit || x.Name == corev1.ResourceCPU }

// near is true for amounts that the kernel cannot tell apart.
func (x Amount) near(a, b resource.Quantity) bool {
	switch {
	case a.Cmp(b) == 0:
		return true
	case x.Name == corev1.ResourceMemory:
		return x.Limit && a.Value()/pageSize == b.Value()/pageSize
	case x.Limit:
		return max(a.MilliValue(), minLimit) == max(b.MilliValue(), minLimit)
	}
	return shares(a) == shares(b)
}

// shares have no upper bound here: what is requested beyond the kernel's is the pod's all the
// same, and counts in what the node has left.
func shares(cpu resource.Quantity) int64 {
	return max(cpu.MilliValue()*cfs.SharesOfOne/cfs.Milli, cfs.MinShares)
}

// Equal is true for equal cpu and memory.
func Equal(a, b *corev1.ResourceRequirements) bool {
	if a == b {
		return true
	}
	for _, x := range Amounts() {
		p, has := x.Of(a)
		q, had := x.Of(b)
		if has != had || has && p.Cmp(q) != 0 {
			return false
		}
	}
	return true
}

// EqualPods is true for two states of a pod that differ in nothing that can be
// resized: cpu and memory of its init and app containers, and of the whole.
func EqualPods(a, b *corev1.Pod) bool {
	if a == b {
		return true
	}
	if !samePodLevel(a, b) {
		return false
	}
	list := func(a, b []corev1.Container) bool {
		for i := range a {
			if i < len(b) && !Equal(&a[i].Resources, &b[i].Resources) {
				return false
			}
		}
		return true
	}
	return list(a.Spec.InitContainers, b.Spec.InitContainers) && list(a.Spec.Containers, b.Spec.Containers)
}

func samePodLevel(a, b *corev1.Pod) bool {
	none := &corev1.ResourceRequirements{}
	x, y := a.Spec.Resources, b.Spec.Resources
	if x == nil {
		x = none
	}
	if y == nil {
		y = none
	}
	return Equal(x, y)
}

// WithResourcesOf is a copy of a pod with the resources of another state of it.
func WithResourcesOf(pod, from *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	out.Spec.Resources = from.Spec.Resources.DeepCopy()
	list := func(to, from []corev1.Container) {
		for i := range to {
			if i < len(from) {
				to[i].Resources = *from[i].Resources.DeepCopy()
			}
		}
	}
	list(out.Spec.InitContainers, from.Spec.InitContainers)
	list(out.Spec.Containers, from.Spec.Containers)
	return out
}

// Held is what the kernel holds a container to: base, overridden by what the facts
// say. It returns allocated itself where the kernel cannot tell the two apart.
func Held(base, facts, allocated *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if facts == nil && Equal(base, allocated) {
		return allocated
	}
	var out *corev1.ResourceRequirements
	for _, x := range Amounts() {
		want, ok := x.Of(allocated)
		if !ok {
			continue // what a container never had, nobody takes away
		}
		has, had := x.Of(base)
		if facts != nil && x.enforced() {
			if q, says := x.Of(facts); says {
				has, had = q, true
			}
		}
		if had && x.near(has, want) {
			continue
		}
		if out == nil {
			out = allocated.DeepCopy()
		}
		list := out.Requests
		if x.Limit {
			list = out.Limits
		}
		if delete(list, x.Name); had {
			list[x.Name] = has
		}
	}
	if out == nil {
		return allocated
	}
	return out
}

// Own is what a container is held to without the limits of its pod: of the amounts that
// it is allocated itself. It returns allocated itself where they are these.
func Own(held, allocated *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if held == allocated {
		return held
	}
	out := held.DeepCopy()
	for _, x := range Amounts() {
		if _, own := x.Of(allocated); own {
			continue
		}
		if x.Limit {
			delete(out.Limits, x.Name)
		} else {
			delete(out.Requests, x.Name)
		}
	}
	if Equal(out, allocated) {
		return allocated
	}
	return out
}
