package eviction

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Signal is something that a node may run short of, in the kubelet's words.
type Signal string

// The signals. There are none for containerfs: a kubelet sets its thresholds from
// those of nodefs or imagefs, whatever is configured.
const (
	MemoryAvailable            Signal = "memory.available"
	AllocatableMemoryAvailable Signal = "allocatableMemory.available"
	NodeFSAvailable            Signal = "nodefs.available"
	NodeFSInodesFree           Signal = "nodefs.inodesFree"
	ImageFSAvailable           Signal = "imagefs.available"
	ImageFSInodesFree          Signal = "imagefs.inodesFree"
	PIDAvailable               Signal = "pid.available"
)

// Signals returns all of them, memory first: that is the order in which thresholds
// that are met at the same time are dealt with (kubelet: byEvictionPriority).
func Signals() []Signal {
	return []Signal{
		MemoryAvailable, AllocatableMemoryAvailable, NodeFSAvailable, NodeFSInodesFree,
		ImageFSAvailable, ImageFSInodesFree, PIDAvailable,
	}
}

// Resources that pods are not given by their specs.
const (
	resourceInodes corev1.ResourceName = "inodes"
	resourcePIDs   corev1.ResourceName = "pids"
)

// Resource is what a node is short of, for messages.
func (s Signal) Resource() corev1.ResourceName {
	switch s {
	case NodeFSAvailable, ImageFSAvailable:
		return corev1.ResourceEphemeralStorage
	case NodeFSInodesFree, ImageFSInodesFree:
		return resourceInodes
	case PIDAvailable:
		return resourcePIDs
	default:
		return corev1.ResourceMemory
	}
}

// condition is the node's while a threshold of the signal is met.
func (s Signal) condition() corev1.NodeConditionType {
	switch s.Resource() {
	case corev1.ResourceMemory:
		return corev1.NodeMemoryPressure
	case resourcePIDs:
		return corev1.NodePIDPressure
	default:
		return corev1.NodeDiskPressure
	}
}

func (s Signal) known() bool { return slices.Contains(Signals(), s) }

// image is true of the signals of the file system that images stand on.
func (s Signal) image() bool { return s == ImageFSAvailable || s == ImageFSInodesFree }

// Reclaims is true where dead containers and unused images are removed before any pod
// is evicted: on the file system that they stand on.
func (s Signal) Reclaims(dedicatedImageFS bool) bool {
	return s.condition() == corev1.NodeDiskPressure && (s.image() || !dedicatedImageFS)
}
