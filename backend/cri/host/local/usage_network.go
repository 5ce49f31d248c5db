package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// The host's ends of pods' and containers' links are not the host's own traffic
// (cadvisor: ignoredDevicePrefixes).
var podLinks = []string{"veth", "docker", "nerdctl"}

const (
	loopback = "lo"
	// defaultInterface is the kubelet's, where no route says.
	defaultInterface = "eth0"
)

// interfaces are those of the network namespace whose tables stand in dir below
// /proc, without loopback; the one of the default route first.
func (h *Host) interfaces(dir string) ([]host.Interface, error) {
	table, err := os.ReadFile(h.proc(dir + "/dev"))
	if err != nil {
		return nil, err
	}
	var out []host.Interface
	for line := range strings.Lines(string(table)) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || name == loopback ||
			slices.ContainsFunc(podLinks, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		i, err := counters(name, rest)
		if err != nil {
			return nil, fmt.Errorf("parse %q of /proc/net/dev: %w", strings.TrimSpace(line), err)
		}
		out = append(out, i)
	}
	defaults := append(h.defaultInterfaces(dir), defaultInterface)
	rank := func(i host.Interface) int {
		if at := slices.Index(defaults, i.Name); at >= 0 {
			return at
		}
		return len(defaults)
	}
	slices.SortStableFunc(out, func(a, b host.Interface) int { return rank(a) - rank(b) })
	return out, nil
}

// counters reads: bytes packets errors drops and four more received, the same sent.
func counters(name, rest string) (host.Interface, error) {
	fields := strings.Fields(rest)
	if len(fields) < 12 {
		return host.Interface{}, errors.New("too few columns")
	}
	i := host.Interface{Name: name}
	for _, c := range []struct {
		column int
		value  *uint64
	}{
		{0, &i.RxBytes},
		{1, &i.RxPackets},
		{2, &i.RxErrors},
		{3, &i.RxDropped},
		{8, &i.TxBytes},
		{9, &i.TxPackets},
		{10, &i.TxErrors},
		{11, &i.TxDropped},
	} {
		n, err := strconv.ParseUint(fields[c.column], 10, 64)
		if err != nil {
			return host.Interface{}, err
		}
		*c.value = n
	}
	return i, nil
}

// podInterfaces are those of a process's network namespace. One that has gone has
// none, and neither has one that is not the pod's: its id was given away again, or
// counts in another pid namespace.
func (h *Host) podInterfaces(pid int, levels []string) ([]host.Interface, error) {
	if pid <= 0 {
		return nil, nil
	}
	process := strconv.Itoa(pid)
	cgroups, err := os.ReadFile(h.proc(process + "/cgroup"))
	if gone(err) || (err == nil && !standsIn(string(cgroups), levels[len(levels)-1])) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out, err := h.interfaces(process + "/net")
	if gone(err) {
		return nil, nil
	}
	return out, err
}

// standsIn reads /proc/<pid>/cgroup: a process is in a cgroup or below it. Seen
// from a cgroup namespace the paths begin elsewhere; the pod's name is its own.
func standsIn(cgroups, pod string) bool {
	for line := range strings.Lines(cgroups) {
		if slices.Contains(strings.Split(strings.TrimSpace(line), "/"), pod) {
			return true
		}
	}
	return false
}

func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL)
}
