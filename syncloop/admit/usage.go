package admit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/burstlet/burstlet/backend"
)

// anyAddress is the host address of ports that name none.
const anyAddress = "0.0.0.0"

// amount is a quantity as the kubelet counts it: cpu in thousandths, everything
// else in whole units.
type amount struct {
	name  corev1.ResourceName
	value int64
}

// share is what one pod takes of the node.
type share struct {
	requests []amount
	ports    []port
}

type port struct {
	door
	ip string
}

// door is a port of the host, whatever the address.
type door struct {
	protocol corev1.Protocol
	number   int32
}

// usage is what all admitted pods take together.
type usage struct {
	pods      int64
	requested map[corev1.ResourceName]int64
	// ports counts who has a door, by address.
	ports map[door]map[string]int
}

func newUsage() *usage {
	return &usage{requested: map[corev1.ResourceName]int64{}, ports: map[door]map[string]int{}}
}

// shareOf is what an admitted pod takes. While it is resized, that is the
// larger of what it asks for and what it has.
func shareOf(pod *corev1.Pod) share {
	return share{
		requests: amounts(resource.PodRequests(pod, resource.PodResourcesOptions{
			UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
		})),
		ports: hostPorts(pod),
	}
}

func (u *usage) add(s share) { u.change(s, 1) }

func (u *usage) sub(s share) { u.change(s, -1) }

func (u *usage) change(s share, sign int) {
	u.pods += int64(sign)
	for _, a := range s.requests {
		if u.requested[a.name] += int64(sign) * a.value; u.requested[a.name] == 0 {
			delete(u.requested, a.name)
		}
	}
	for _, p := range s.ports {
		if u.ports[p.door] == nil {
			u.ports[p.door] = map[string]int{}
		}
		if u.ports[p.door][p.ip] += sign; u.ports[p.door][p.ip] == 0 {
			delete(u.ports[p.door], p.ip)
		}
		if len(u.ports[p.door]) == 0 {
			delete(u.ports, p.door)
		}
	}
}

// conflicts is true where an admitted pod has one of these ports of the host.
func (u *usage) conflicts(wanted []port) bool {
	return slices.ContainsFunc(wanted, func(w port) bool {
		taken := u.ports[w.door]
		return len(taken) > 0 && (w.ip == anyAddress || taken[w.ip] > 0 || taken[anyAddress] > 0)
	})
}

// hostPorts are the ports of the host that the pod takes.
func hostPorts(pod *corev1.Pod) []port {
	var out []port
	for _, p := range backend.HostPorts(pod) {
		out = append(out, port{door{p.Protocol, p.HostPort}, cmp.Or(p.HostIP, anyAddress)})
	}
	return out
}

// fits says of which resource there is too little for the pod: the number of
// pods, then cpu, memory, disk, then the rest by name. Extended resources that
// the node does not have at all are somebody else's to count, as for a kubelet.
func (u *usage) fits(pod *corev1.Pod, node *Node) *Rejection {
	if all := u.shortages(pod, node); len(all) > 0 {
		first := all[0]
		return lacking(first.name, first.requested, first.used, first.limit)
	}
	return nil
}

// missing is how much of each resource there is too little.
func (u *usage) missing(pod *corev1.Pod, node *Node) (out []amount) {
	for _, s := range u.shortages(pod, node) {
		out = append(out, amount{s.name, s.requested - (s.limit - s.used)})
	}
	return out
}

// shortage is a resource of which there is too little.
type shortage struct {
	name                   corev1.ResourceName
	requested, used, limit int64
}

// shortages are those for the pod, in the order in which they are told of.
func (u *usage) shortages(pod *corev1.Pod, node *Node) (out []shortage) {
	capacity := map[corev1.ResourceName]int64{}
	for _, a := range amounts(node.Allocatable) {
		capacity[a.name] = a.value
	}
	if limit := capacity[corev1.ResourcePods]; u.pods+1 > limit {
		out = append(out, shortage{corev1.ResourcePods, 1, u.pods, limit})
	}
	// A pod that is not admitted yet has nothing but what it asks for.
	for _, a := range amounts(resource.PodRequests(pod, resource.PodResourcesOptions{})) {
		limit, known := capacity[a.name]
		if a.value == 0 || !known && extended(a.name) || a.name == corev1.ResourcePods {
			continue
		}
		if used := u.requested[a.name]; a.value > limit-used {
			out = append(out, shortage{a.name, a.value, used, limit})
		}
	}
	return out
}

func lacking(name corev1.ResourceName, requested, used, capacity int64) *Rejection {
	return &Rejection{outOf + string(name), fmt.Sprintf(
		"Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, requested, used, capacity)}
}

// amounts are the quantities that the scheduler counts, in the order in which
// they are checked; those of zero are left out, but for capacity's sake extended
// ones stay.
func amounts(list corev1.ResourceList) []amount {
	var out []amount
	for name, quantity := range list {
		a := amount{name: name, value: quantity.Value()}
		if name == corev1.ResourceCPU {
			a.value = quantity.MilliValue()
		}
		if counted(name) && (a.value != 0 || extended(name)) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b amount) int {
		if d := rank(a.name) - rank(b.name); d != 0 {
			return d
		}
		return strings.Compare(string(a.name), string(b.name))
	})
	return out
}

func rank(name corev1.ResourceName) int {
	order := []corev1.ResourceName{
		corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
	}
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	return len(order)
}

// counted leaves out names that mean nothing to a node ("limits.cpu").
func counted(name corev1.ResourceName) bool {
	return rank(name) < 4 || extended(name) ||
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(string(name), corev1.ResourceAttachableVolumesPrefix) ||
		strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// extended resources are those of others ("example.com/gpu").
func extended(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
}
