package cri

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cfs"
	"github.com/burstlet/burstlet/backend/cri/criconfig"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// hostCapacity is what the host has, processes too, which a Node does not show.
func hostCapacity(h host.Facts) corev1.ResourceList {
	out := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(h.CPUs, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(h.Memory, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(int64(h.Disk.Capacity), resource.BinarySI),
		criconfig.ReservedPIDs:          *resource.NewQuantity(h.PIDs, resource.DecimalSI),
	}
	maps.Copy(out, hugePageCapacity(h.HugePages))
	return out
}

// hugePageCapacity is what the host has of each size, as resources of a Node (kubelet:
// cadvisor.CapacityFromMachineInfo).
func hugePageCapacity(has map[int64]int64) corev1.ResourceList {
	out := corev1.ResourceList{}
	for size, bytes := range has {
		name := corev1.ResourceHugePagesPrefix + resource.NewQuantity(size, resource.BinarySI).String()
		out[corev1.ResourceName(name)] = *resource.NewQuantity(bytes, resource.BinarySI)
	}
	return out
}

// withHugePages adds what the host has set aside for huge pages to what its pods may not
// use of its memory (kubelet: nodestatus.MachineInfo).
func withHugePages(reserved corev1.ResourceList, has map[int64]int64) corev1.ResourceList {
	memory := reserved.Memory().DeepCopy()
	for _, bytes := range has {
		memory.Add(*resource.NewQuantity(bytes, resource.BinarySI))
	}
	if memory.IsZero() {
		return reserved
	}
	out := maps.Clone(reserved)
	if out == nil {
		out = corev1.ResourceList{}
	}
	out[corev1.ResourceMemory] = memory
	return out
}

// reservable refuses reservations that leave pods nothing.
func reservable(reserved, capacity corev1.ResourceList) error {
	for _, name := range slices.Sorted(maps.Keys(reserved)) {
		has, keeps := capacity[name], reserved[name]
		if keeps.Cmp(has) >= 0 {
			return backend.Errorf(backend.ErrUnsupported, "backend.cri.systemReserved.%s: %s leaves nothing of the host's "+
				"%s for pods: reserve less",
				name, keeps.String(), has.String())
		}
	}
	return nil
}

// topLimits are what pods may use together of what is reserved: what the host has,
// without it. Several nodes of a host have their top in common, so what one of them
// offers does not matter.
func (r *remote) topLimits(ctx context.Context) (host.TopLimits, error) {
	if len(r.cfg.Reserved) == 0 {
		return host.TopLimits{}, nil
	}
	facts, err := r.hostFacts(ctx)
	if err != nil {
		return host.TopLimits{}, err
	}
	capacity := hostCapacity(facts)
	if err := reservable(r.cfg.Reserved, capacity); err != nil {
		return host.TopLimits{}, err
	}
	left := func(name corev1.ResourceName, value func(*resource.Quantity) int64) int64 {
		keeps, reserved := r.cfg.Reserved[name]
		if !reserved || keeps.IsZero() {
			return 0
		}
		has := capacity[name]
		has.Sub(keeps)
		return value(&has)
	}
	out := host.TopLimits{
		Memory: left(corev1.ResourceMemory, (*resource.Quantity).Value),
		PIDs:   left(criconfig.ReservedPIDs, (*resource.Quantity).Value),
	}
	if milli := left(corev1.ResourceCPU, (*resource.Quantity).MilliValue); milli > 0 {
		out.Shares = cfs.Shares(milli)
	}
	return out, nil
}
