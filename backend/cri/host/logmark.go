package host

import "strings"

// Ownership is what the [LogMark] in a pod's log directory says, which is made with
// the pod's cgroup, before anything else of the pod, and outlives all of it.
type Ownership struct {
	// Node is the identity of the node whose pod it is.
	Node string
	// Cgroup is the pod's, as [Cgroup.Parent] has it; empty if it is not known.
	Cgroup string
}

// Bytes are the file's contents: two lines.
func (o Ownership) Bytes() []byte { return []byte(o.Node + "\n" + o.Cgroup + "\n") }

// ReadOwnership reads such contents; a line that is missing is empty.
func ReadOwnership(data []byte) Ownership {
	lines := strings.SplitN(string(data), "\n", 3)
	o := Ownership{Node: lines[0]}
	if len(lines) > 1 {
		o.Cgroup = lines[1]
	}
	return o
}

// PodCgroup is the cgroup by which it is removed; nil if it is not known.
func (o Ownership) PodCgroup() *Cgroup {
	if o.Cgroup == "" {
		return nil
	}
	return &Cgroup{Parent: o.Cgroup, Systemd: strings.HasSuffix(o.Cgroup, ".slice")}
}
