package eviction

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/burstlet/burstlet/backend"
)

// Pod is one that may be evicted. Stats is what its newest attempt uses; nil where it was
// not measured.
type Pod struct {
	*corev1.Pod
	Stats *backend.PodStats
}

// Rank sorts pods in the order in which they are evicted for a signal.
//
//	memory   uses more than it requests; lowest priority; most above its request
//	disk     the same, by what it has on the file system of the signal
//	PIDs     lowest priority; most processes
//
// A pod that was not measured goes before all others.
func Rank(pods []Pod, signal Signal, dedicatedImageFS bool) {
	use := func(p *Pod) int64 { return use(p, signal, dedicatedImageFS) }
	unmeasured := func(a, b *Pod) int { return first(a.Stats == nil, b.Stats == nil) }
	over := func(a, b *Pod) int { return first(use(a) > request(a, signal), use(b) > request(b, signal)) }
	most := func(a, b *Pod) int { return cmp.Compare(use(b)-request(b, signal), use(a)-request(a, signal)) }
	slices.SortStableFunc(pods, func(a, b Pod) int {
		byPriority := cmp.Compare(priority(a.Pod), priority(b.Pod))
		if signal == PIDAvailable {
			return cmp.Or(byPriority, unmeasured(&a, &b), most(&a, &b))
		}
		if a.Stats == nil || b.Stats == nil {
			return cmp.Or(unmeasured(&a, &b), byPriority)
		}
		return cmp.Or(over(&a, &b), byPriority, most(&a, &b))
	})
}

// first puts true before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// request is what a pod asks for of what a signal is about; inodes and PIDs are not asked
// for.
func request(p *Pod, signal Signal) int64 {
	requests := resourcehelper.PodRequests(p.Pod, resourcehelper.PodResourcesOptions{})
	q := requests[signal.Resource()]
	return q.Value()
}

// use is what a pod takes of what a signal is about.
func use(p *Pod, signal Signal, dedicatedImageFS bool) int64 {
	if p.Stats == nil {
		return 0
	}
	switch signal.Resource() {
	case corev1.ResourceMemory:
		return workingSet(p.Stats)
	case resourcePIDs:
		return number(p.Stats.Processes)
	}
	of := func(f *backend.FilesystemUsage) int64 {
		switch {
		case f == nil:
			return 0
		case signal.Resource() == resourceInodes:
			return number(f.InodesUsed)
		default:
			return number(f.Used)
		}
	}
	return onFilesystem(p, of, signal.image() || !dedicatedImageFS, !signal.image() || !dedicatedImageFS)
}

// onFilesystem sums up what a pod has on the file system of layers, and on that of the rest:
// its logs and local volumes.
func onFilesystem(p *Pod, of func(*backend.FilesystemUsage) int64, layers, rest bool) (sum int64) {
	for i := range p.Stats.Containers {
		if layers {
			sum += of(p.Stats.Containers[i].Rootfs)
		}
		if rest {
			sum += of(p.Stats.Containers[i].Logs)
		}
	}
	if !rest {
		return sum
	}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if usage, ok := p.Stats.Volumes[v.Name]; ok && (v.HostPath != nil || onDisk(v)) {
			sum += of(&usage)
		}
	}
	return sum
}

// workingSet is the pod's as a whole, else the sum of its containers'.
func workingSet(stats *backend.PodStats) int64 {
	if stats.MemoryWorkingSet != nil {
		return number(stats.MemoryWorkingSet)
	}
	var sum int64
	for i := range stats.Containers {
		sum += number(stats.Containers[i].MemoryWorkingSet)
	}
	return sum
}

func number(n *uint64) int64 {
	return int64(usedBytes(n)) //nolint:gosec // of a host
}

func bytes(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }
