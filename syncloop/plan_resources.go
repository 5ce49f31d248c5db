package syncloop

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// What the kernel cannot tell apart (pkg/kubelet/cm): cpu limits up to minLimit
// thousandths, cpu requests of equal shares, memory of equal pages.
const (
	minLimit     = 10
	minShares    = 2
	sharesPerCPU = 1024
	pageSize     = 4096
)

// part is one of the amounts of a container that can change in place.
type part struct {
	limit bool
	name  corev1.ResourceName
}

// parts are all of them.
func parts() [4]part {
	return [...]part{
		{false, corev1.ResourceCPU}, {false, corev1.ResourceMemory}, {true, corev1.ResourceCPU}, {true, corev1.ResourceMemory},
	}
}

func (x part) of(r *corev1.ResourceRequirements) (resource.Quantity, bool) {
	list := r.Requests
	if x.limit {
		list = r.Limits
	}
	q, ok := list[x.name]
	return q, ok
}

// enforced is false for what no kernel holds a container to: facts do not say it.
func (x part) enforced() bool { return x.limit || x.name == corev1.ResourceCPU }

// near is true for amounts that the kernel cannot tell apart.
func (x part) near(a, b resource.Quantity) bool {
	switch {
	case a.Cmp(b) == 0:
		return true
	case x.name == corev1.ResourceMemory:
		return x.limit && a.Value()/pageSize == b.Value()/pageSize
	case x.limit:
		return max(a.MilliValue(), minLimit) == max(b.MilliValue(), minLimit)
	}
	return shares(a) == shares(b)
}

func shares(cpu resource.Quantity) int64 {
	return max(cpu.MilliValue()*sharesPerCPU/1000, minShares)
}

// same is true for equal cpu and memory.
func same(a, b *corev1.ResourceRequirements) bool {
	if a == b {
		return true
	}
	for _, x := range parts() {
		p, has := x.of(a)
		q, had := x.of(b)
		if has != had || has && p.Cmp(q) != 0 {
			return false
		}
	}
	return true
}

// sameResources is true for two states of a pod that differ in nothing that can be
// resized: cpu and memory of its init and app containers, and of the whole.
func sameResources(a, b *corev1.Pod) bool {
	if a == b {
		return true
	}
	if !samePodLevel(a, b) {
		return false
	}
	list := func(a, b []corev1.Container) bool {
		for i := range a {
			if i < len(b) && !same(&a[i].Resources, &b[i].Resources) {
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
	return same(x, y)
}

// withResources is a pod with the resources of another state of it.
func withResources(pod, from *corev1.Pod) *corev1.Pod {
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

// laidOver is what is known of a container that is held to base, and to what facts
// say where they do; it is allocated itself where it comes to the same.
func laidOver(base, facts, allocated *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if facts == nil && same(base, allocated) {
		return allocated
	}
	var out *corev1.ResourceRequirements
	for _, x := range parts() {
		want, ok := x.of(allocated)
		if !ok {
			continue // what a container never had, nobody takes away
		}
		has, had := x.of(base)
		if facts != nil && x.enforced() {
			if q, says := x.of(facts); says {
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
		if x.limit {
			list = out.Limits
		}
		if delete(list, x.name); had {
			list[x.name] = has
		}
	}
	if out == nil {
		return allocated
	}
	return out
}
