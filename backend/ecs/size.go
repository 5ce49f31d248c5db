package ecs

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// fargateSize is what a task gets and is billed for.
type fargateSize struct{ cpu, memoryMiB int64 } // cpu units: 1024 are a vCPU

// memoryRange are the memory sizes from, to, in steps, in MiB.
type memoryRange struct{ from, to, step int64 }

// fargateSizes are what Fargate has on Linux, smallest first (ECS developer
// guide, "Task CPU and memory").
var fargateSizes = []struct {
	cpu    int64
	memory []memoryRange
}{
	{256, []memoryRange{{512, 512, 512}, {1024, 2048, 1024}}},
	{512, []memoryRange{{1024, 4096, 1024}}},
	{1024, []memoryRange{{2048, 8192, 1024}}},
	{2048, []memoryRange{{4096, 16384, 1024}}},
	{4096, []memoryRange{{8192, 30720, 1024}}},
	{8192, []memoryRange{{16384, 61440, 4096}}},
	{16384, []memoryRange{{32768, 122880, 8192}}},
	{32768, []memoryRange{{61440, 61440, 1024}, {122880, 122880, 1024}, {249856, 249856, 1024}}},
}

// fit is the cheapest size that has room for a need; of equally cheap ones the
// one with the fewest vCPUs.
func fit(need fargateSize, rates Rates, arch string) (fargateSize, error) {
	var best fargateSize
	var price float64
	for _, row := range fargateSizes {
		size := fargateSize{row.cpu, leastMemory(row.memory, need.memoryMiB)}
		if row.cpu < need.cpu || size.memoryMiB == 0 {
			continue
		}
		if p := rates.perHour(size, arch, 0); best.cpu == 0 || p < price {
			best, price = size, p
		}
	}
	if best.cpu == 0 {
		return best, fmt.Errorf("%d CPU units and %d MiB are more than the largest Fargate task has", need.cpu, need.memoryMiB)
	}
	return best, nil
}

// leastMemory is the smallest of the sizes that has room; 0 if none has.
func leastMemory(ranges []memoryRange, need int64) int64 {
	for _, m := range ranges {
		if need <= m.to {
			steps := (max(need, m.from) - m.from + m.step - 1) / m.step
			return m.from + steps*m.step
		}
	}
	return 0
}

const (
	mib = 1 << 20
	gib = 1 << 30
	// anchorMiB is what the anchor of a pod with several app containers takes.
	anchorMiB = 16
)

// amounts are what containers ask for.
type amounts struct {
	fargateSize
	storage int64 // bytes of ephemeral storage
}

func (a amounts) add(b amounts) amounts {
	return amounts{fargateSize{a.cpu + b.cpu, a.memoryMiB + b.memoryMiB}, a.storage + b.storage}
}

func (a amounts) or(b amounts) amounts {
	return amounts{fargateSize{max(a.cpu, b.cpu), max(a.memoryMiB, b.memoryMiB)}, max(a.storage, b.storage)}
}

// needOf is what a pod needs, as the scheduler counts: all app containers and
// sidecars together, or an init container and the sidecars that were started
// before it, whichever is more; in their place what the pod as a whole asks for;
// and the overhead. A limit counts before a request, because a task cannot use
// more than its size.
func needOf(spec *corev1.PodSpec) amounts {
	var apps, inits, sidecars amounts
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		n := amountsOf(c.Resources)
		if isSidecar(c) {
			sidecars = sidecars.add(n)
			n = amounts{}
		}
		inits = inits.or(sidecars.add(n))
	}
	for i := range spec.Containers {
		apps = apps.add(amountsOf(spec.Containers[i].Resources))
	}
	need := inits.or(apps.add(sidecars))
	if spec.Resources != nil {
		whole := amountsOf(*spec.Resources)
		if whole.cpu > 0 {
			need.cpu = whole.cpu
		}
		if whole.memoryMiB > 0 {
			need.memoryMiB = whole.memoryMiB
		}
	}
	if anchored(spec) {
		need.memoryMiB += anchorMiB
	}
	return need.add(amountsOf(corev1.ResourceRequirements{Requests: spec.Overhead}))
}

func amountsOf(r corev1.ResourceRequirements) amounts {
	amount := func(name corev1.ResourceName) (int64, int64) {
		q, ok := r.Limits[name]
		if !ok || q.IsZero() { // no limit
			q = r.Requests[name]
		}
		return q.MilliValue(), q.Value()
	}
	milli, _ := amount(corev1.ResourceCPU)
	_, bytes := amount(corev1.ResourceMemory)
	_, storage := amount(corev1.ResourceEphemeralStorage)
	// Bounded: absurd quantities must not overflow, alone or in a sum.
	const most = 1 << 50
	milli, bytes, storage = min(milli, most), min(bytes, most), min(storage, most)
	return amounts{fargateSize{cpu: (milli*1024 + 999) / 1000, memoryMiB: (bytes + mib - 1) / mib}, storage}
}

// Ephemeral storage of a task beyond what it has anyway (ECS API,
// EphemeralStorage).
const (
	minStorageGiB = 21
	maxStorageGiB = 200
)

// storageOf is the ephemeral storage of a pod's task in GiB: the most of what the
// node or the pod's annotation gives, what the containers ask for, and what the
// emptyDirs on disk may hold. 0 is the default of Fargate, 20.
func storageOf(spec *corev1.PodSpec, given int32) int32 {
	var dirs int64
	for i := range spec.Volumes {
		e := spec.Volumes[i].EmptyDir
		if e != nil && e.SizeLimit != nil && !inMemory(spec, &spec.Volumes[i]) {
			dirs = min(dirs+min(e.SizeLimit.Value(), 1<<50), 1<<50)
		}
	}
	bytes := max(needOf(spec).storage, dirs)
	want := max(int32(min((bytes+gib-1)/gib, 1<<20)), given)
	if want <= freeStorageGiB {
		return 0
	}
	return max(want, minStorageGiB)
}

// isSidecar is true for a restartable init container.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// anchored is true for a pod whose task needs an anchor: with several app
// containers none of them may be essential, for the end of one would end all.
func anchored(spec *corev1.PodSpec) bool { return len(spec.Containers) > 1 }
