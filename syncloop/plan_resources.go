package syncloop

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
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

// heldTo is what a running container is held to, as far as that is known:
//
//	facts say it             that; what the kernel cannot tell apart counts as allocated
//	resized by us            what it was resized to
//	told of in the status    as told
//	just started             what is allocated
//
// It is &m.Resources itself where that is all of it.
func (v view) heldTo(m member, cur *seen) *corev1.ResourceRequirements {
	base := &m.Resources
	if prior := v.prior(m); prior != nil && prior.Resources != nil && cur.ID != "" && strings.HasSuffix(prior.ContainerID, cur.ID) {
		base = prior.Resources
	}
	if asked, ok := v.Memory.Resized[cur.ID]; ok && asked.Done {
		base = &asked.Resources
	}
	return laidOver(base, cur.Resources, &m.Resources)
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

// lags is true while a running container is not held to what it is allocated, for
// all that is known.
func (v view) lags(m member, cur *seen) bool {
	if asked, ok := v.Memory.Resized[cur.ID]; ok {
		return !asked.Done || !same(&asked.Resources, &m.Resources)
	}
	return v.heldTo(m, cur) != &m.Resources
}

// resizable are the containers whose processes can be resized, and that run in the
// live sandbox.
func (v view) resizable() []member {
	var all []member
	for _, list := range [][]member{v.inits, v.apps} {
		for _, m := range list {
			if cur := v.current(m.Name); m.role != initRole && cur != nil && cur.State() == backend.Running && v.inSandbox(cur) {
				all = append(all, m)
			}
		}
	}
	return all
}
