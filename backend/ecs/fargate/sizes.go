package fargate

import "fmt"

// CPU architectures, as ECS writes them.
const (
	X86 = "X86_64"
	ARM = "ARM64"
)

// GoArch is the name of one of ECS's architectures in Go, Kubernetes and OCI.
func GoArch(arch string) string {
	if arch == ARM {
		return "arm64"
	}
	return "amd64"
}

// Size is what a task gets and is billed for; 1024 of CPU are a vCPU.
type Size struct{ CPU, MemoryMiB int64 }

// memoryRange are the memory sizes from, to, in steps, in MiB.
type memoryRange struct{ from, to, step int64 }

// sizes are what Fargate has on Linux, smallest first (ECS developer
// guide, "Task CPU and memory").
var sizes = []struct {
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

// Fit is the cheapest size that has room for a need; of equally cheap ones the one
// with the fewest vCPUs. It is an error if none has room.
func Fit(need Size, rates Rates, arch string) (Size, error) {
	var best Size
	var price float64
	for _, row := range sizes {
		size := Size{row.cpu, leastMemory(row.memory, need.MemoryMiB)}
		if row.cpu < need.CPU || size.MemoryMiB == 0 {
			continue
		}
		if p := rates.PerHour(size, arch, 0); best.CPU == 0 || p < price {
			best, price = size, p
		}
	}
	if best.CPU == 0 {
		return best, fmt.Errorf("%d CPU units and %d MiB are more than the largest Fargate task has",
			need.CPU, need.MemoryMiB)
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

// Ephemeral storage of a task beyond what it has anyway (ECS API,
// EphemeralStorage).
const (
	MinStorageGiB = 21
	MaxStorageGiB = 200
)
