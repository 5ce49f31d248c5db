package eviction

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
)

// Observations are what the pods' host has left, by signal. What was not measured is
// missing, and no threshold of it is met.
type Observations map[Signal]backend.Level

// Observe takes a measurement over. allocatable is the memory that pods may have together;
// nil while it is not known.
func Observe(facts *backend.SignalFacts, allocatable *resource.Quantity) Observations {
	o := Observations{}
	for signal, level := range map[Signal]*backend.Level{
		MemoryAvailable: facts.Memory, NodeFSAvailable: facts.NodeFS, NodeFSInodesFree: facts.NodeFSInodes,
		ImageFSAvailable: facts.ImageFS, ImageFSInodesFree: facts.ImageFSInodes, PIDAvailable: facts.PIDs,
	} {
		if level != nil {
			o[signal] = *level
		}
	}
	if used := facts.PodsMemory; used != nil && allocatable != nil && allocatable.Sign() > 0 {
		capacity := uint64(allocatable.Value())
		o[AllocatableMemoryAvailable] = backend.Level{Available: capacity - min(*used, capacity), Capacity: capacity}
	}
	return o
}

// available is what is left, as messages show it.
func (o Observations) available(s Signal) resource.Quantity {
	format := resource.BinarySI
	if r := s.Resource(); r == resourceInodes || r == resourcePIDs {
		format = resource.DecimalSI
	}
	return *resource.NewQuantity(int64(o[s].Available), format) //nolint:gosec // bytes of a host
}

// met is true where less is left than the threshold says; with reclaim, less than that and
// what is to be had back.
func (o Observations) met(t *Threshold, reclaim bool) bool {
	level, ok := o[t.Signal]
	if !ok {
		return false
	}
	wanted := t.Value.of(level.Capacity)
	if reclaim && t.Reclaim != nil {
		wanted.Add(t.Reclaim.of(level.Capacity))
	}
	available := o.available(t.Signal)
	return wanted.Cmp(available) > 0
}
