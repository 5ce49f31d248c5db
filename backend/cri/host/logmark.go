package host

import (
	"strconv"
	"strings"
)

// UserIDs is how many ids a pod's user namespace has (kubelet: userNsUnitLength).
const UserIDs = 1 << 16

// Ownership is what the [LogMark] in a pod's log directory says, which is made with
// the pod's cgroup, before anything else of the pod, and outlives all of it.
type Ownership struct {
	// Node is the identity of the node whose pod it is.
	Node string
	// Cgroup is the pod's, as [Cgroup.Parent] has it; empty if it is not known.
	Cgroup string
	// FirstUser is the first of the host's [UserIDs] ids that are the pod's in its user
	// namespace; 0: it has none of its own.
	FirstUser uint32
	// Ports are those of the host that the pod claims.
	Ports []Port
}

// MaxMark is more than a mark has bytes.
const MaxMark = 64 << 10

// Bytes are the file's contents: two lines, a third with a user namespace, a fourth with
// ports.
func (o Ownership) Bytes() []byte {
	lines := []string{o.Node, o.Cgroup}
	if o.FirstUser != 0 || len(o.Ports) > 0 {
		lines = append(lines, strconv.FormatUint(uint64(o.FirstUser), 10))
	}
	if len(o.Ports) > 0 {
		ports := make([]string, len(o.Ports))
		for i, p := range o.Ports {
			ports[i] = p.Protocol + "/" + strconv.Itoa(int(p.Number)) + "/" + p.IP
		}
		lines = append(lines, strings.Join(ports, " "))
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

// ReadOwnership reads such contents; a line that is missing is empty.
func ReadOwnership(data []byte) Ownership {
	lines := strings.Split(string(data), "\n")
	o := Ownership{Node: lines[0]}
	if len(lines) > 1 {
		o.Cgroup = lines[1]
	}
	if len(lines) > 2 {
		// What is no number was cut off by a power failure, which ended the pod too.
		if first, err := strconv.ParseUint(lines[2], 10, 32); err == nil {
			o.FirstUser = uint32(first)
		}
	}
	if len(lines) > 3 {
		for text := range strings.FieldsSeq(lines[3]) {
			protocol, rest, _ := strings.Cut(text, "/")
			number, ip, _ := strings.Cut(rest, "/")
			if n, err := strconv.ParseInt(number, 10, 32); err == nil {
				o.Ports = append(o.Ports, Port{Protocol: protocol, IP: ip, Number: int32(n)})
			}
		}
	}
	return o
}

// PodCgroup is the cgroup by which it is removed; nil if it is not known.
func (o Ownership) PodCgroup() *Cgroup {
	if o.Cgroup == "" {
		return nil
	}
	return &Cgroup{Parent: o.Cgroup, Systemd: strings.HasSuffix(o.Cgroup, ".slice"), QOSSum: isBurstable(o.Cgroup)}
}

// isBurstable is true of the cgroup of a pod of that class.
func isBurstable(parent string) bool {
	return strings.Contains(parent, "/burstable/pod") || strings.Contains(parent, "-burstable-pod")
}
