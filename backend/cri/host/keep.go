package host

import "time"

// Keep says how a host goes on with a node's pods by itself, while nobody asks for it.
type Keep struct {
	// Root is the directory of the pods, Node the node's identity.
	Root, Node string
	// Socket is the runtime's; List is the encoded ListContainersRequest for the node's
	// containers that run.
	Socket string
	List   []byte
	// PodLogs is the directory of pods' logs, whose entries are named namespace_name_uid.
	PodLogs string
	// Period is how often it looks.
	Period time.Duration
	// Evict has it hold pods to their limits on local storage; nil: it does not.
	Evict *Evict
}
