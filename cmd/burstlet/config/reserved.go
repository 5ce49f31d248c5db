package config

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
