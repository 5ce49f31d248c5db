package config

// MemorySwap is what containers may use of the host's swap.
type MemorySwap struct {
	// SwapBehavior is "NoSwap", the default, or "LimitedSwap": containers of burstable pods
	// whose request of memory is below their limit get the share of the swap that their
	// request is of the host's memory. It needs version 2 of cgroups, with limits of swap:
	// without them the node is not ready, and says why. Running containers keep what they have.
	SwapBehavior string `json:"swapBehavior"`
}

// SystemReserved is what the host keeps for its own processes: the system, the
// container runtime, others that share it.
type SystemReserved struct {
	// CPU in cores: the pods' share of the processors when all are busy.
	CPU *Quantity `json:"cpu"`
	// Memory in bytes: the pods' processes are killed before it is used.
	Memory *Quantity `json:"memory"`
	// EphemeralStorage in bytes: it is not offered to pods.
	EphemeralStorage *Quantity `json:"ephemeral-storage"`
	// PID is a number of processes and threads: the pods cannot make more than the rest.
	PID *Quantity `json:"pid"`
}
