// Package localstorage says which of its limits on local storage a pod is over (kubelet:
// localStorageEviction). The engine asks it, and so does the host helper while nobody is
// connected to its host: so it is small.
package localstorage

import "fmt"

// The limits as signals, by the kubelet's names: they are no signals of the node.
const (
	EmptyDirLimit  = "emptydirfs.limit"
	PodLimit       = "ephemeralpodfs.limit"
	ContainerLimit = "ephemeralcontainerfs.limit"
)

// Limits are those of one pod.
type Limits struct {
	// Volumes are its emptyDirs with a sizeLimit, in the order of the pod.
	Volumes []Limit `json:"volumes,omitempty"`
	// Pod is the sum of its containers' limits; nil: none has one.
	Pod *Limit `json:"pod,omitempty"`
	// Containers are those with a limit of their own, in the order of the pod.
	Containers []Limit `json:"containers,omitempty"`
}

// Limit is one of them.
type Limit struct {
	// Name is the volume's or the container's.
	Name string `json:"name,omitempty"`
	// Bytes may be used, no more; Text is how the pod says it.
	Bytes int64  `json:"bytes"`
	Text  string `json:"text"`
}

// Usage is what a pod takes, in bytes. What was not measured is not in it.
type Usage struct {
	// Volumes and Containers are by name; a container takes its layer and its logs.
	Volumes, Containers map[string]uint64
	// Pod is all that counts: layers, logs and volumes on the disk.
	Pod uint64
}

// Excess is a limit that a pod is over.
type Excess struct {
	// Signal is one of the constants above.
	Signal string
	// Message is the kubelet's, with its space at the end.
	Message string
	// Used are the bytes that are too many.
	Used uint64
}

// Any is true of a pod that has a limit.
func (l *Limits) Any() bool { return len(l.Volumes) > 0 || l.Pod != nil || len(l.Containers) > 0 }

// Over is the first limit that a pod is over, in the kubelet's order; nil for none.
//
//	emptyDir with a sizeLimit       what the volume holds
//	containers' limits, summed up   the pod's layers, logs and volumes on the disk
//	a container's limit             its layer and its logs
func (l *Limits) Over(u *Usage) *Excess {
	for _, v := range l.Volumes {
		if used := u.Volumes[v.Name]; v.exceeded(used) {
			return &Excess{
				EmptyDirLimit, fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, v.Text), used,
			}
		}
	}
	if l.Pod != nil && l.Pod.exceeded(u.Pod) {
		return &Excess{
			PodLimit, fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", l.Pod.Text),
			u.Pod,
		}
	}
	for _, c := range l.Containers {
		if used := u.Containers[c.Name]; c.exceeded(used) {
			return &Excess{
				ContainerLimit, fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, c.Text), used,
			}
		}
	}
	return nil
}

func (l *Limit) exceeded(used uint64) bool { return used > uint64(max(0, l.Bytes)) }
