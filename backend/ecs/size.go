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

// fit is the smallest size that has room for a need. Fewer vCPUs always cost
// less than the next row's smallest memory does.
func fit(need fargateSize) (fargateSize, error) {
	for _, row := range fargateSizes {
		if row.cpu < need.cpu {
			continue
		}
		for _, m := range row.memory {
			if need.memoryMiB > m.to {
				continue
			}
			steps := (max(need.memoryMiB, m.from) - m.from + m.step - 1) / m.step
			return fargateSize{row.cpu, m.from + steps*m.step}, nil
		}
	}
	return fargateSize{}, fmt.Errorf("%d CPU units and %d MiB are more than the largest Fargate task has", need.cpu, need.memoryMiB)
}

const mib = 1 << 20

// needOf is what a pod needs: the largest init container or all app containers
// together, whichever is more, and the overhead. A limit counts before a request,
// because a task cannot use more than its size.
func needOf(spec *corev1.PodSpec) fargateSize {
	var apps, inits fargateSize
	for _, c := range spec.Containers {
		n := needOfContainer(c.Resources)
		apps.cpu += n.cpu
		apps.memoryMiB += n.memoryMiB
	}
	for _, c := range spec.InitContainers {
		n := needOfContainer(c.Resources)
		inits.cpu, inits.memoryMiB = max(inits.cpu, n.cpu), max(inits.memoryMiB, n.memoryMiB)
	}
	over := needOfContainer(corev1.ResourceRequirements{Requests: spec.Overhead})
	return fargateSize{max(apps.cpu, inits.cpu) + over.cpu, max(apps.memoryMiB, inits.memoryMiB) + over.memoryMiB}
}

func needOfContainer(r corev1.ResourceRequirements) fargateSize {
	amount := func(name corev1.ResourceName) (int64, int64) {
		q, ok := r.Limits[name]
		if !ok || q.IsZero() { // no limit
			q = r.Requests[name]
		}
		return q.MilliValue(), q.Value()
	}
	milli, _ := amount(corev1.ResourceCPU)
	_, bytes := amount(corev1.ResourceMemory)
	// Bounded: absurd quantities must not overflow, alone or in a sum.
	const most = 1 << 50
	milli, bytes = min(milli, most), min(bytes, most)
	return fargateSize{cpu: (milli*1024 + 999) / 1000, memoryMiB: (bytes + mib - 1) / mib}
}
