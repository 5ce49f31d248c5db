package intask

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// capabilityNames are the kernel's, by number (capability.h).
var capabilityNames = [...]string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
	"LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
	"SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
	"SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
	"MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
	"CHECKPOINT_RESTORE",
}

const allCapabilities = "ALL"

// keptCapabilities are those of has that are left when drop is taken away and add
// put back, as the kubelet and containerd read them: names with or without CAP_, in
// any case.
func keptCapabilities(has []int, drop, add []string) ([]int, error) {
	keep := slices.Clone(has)
	for _, name := range drop {
		if plainCapability(name) == allCapabilities {
			keep = nil
			continue
		}
		n := slices.Index(capabilityNames[:], plainCapability(name))
		if n < 0 {
			return nil, fmt.Errorf("unknown capability %q to drop", name)
		}
		keep = slices.DeleteFunc(keep, func(c int) bool { return c == n })
	}
	for _, name := range add {
		if plainCapability(name) == allCapabilities {
			keep = slices.Clone(has)
			continue
		}
		n := slices.Index(capabilityNames[:], plainCapability(name))
		if n < 0 {
			return nil, fmt.Errorf("unknown capability %q to add", name)
		}
		if !slices.Contains(has, n) {
			return nil, fmt.Errorf("unknown capability %q to add: a task does not have it", name)
		}
		if !slices.Contains(keep, n) {
			keep = append(keep, n)
		}
	}
	slices.Sort(keep)
	return keep, nil
}

func plainCapability(name string) string {
	return strings.TrimPrefix(strings.ToUpper(name), "CAP_")
}

// boundingSet are the capabilities that this process's children may have.
func boundingSet() ([]int, error) {
	last, err := lastCapability()
	if err != nil {
		return nil, err
	}
	var out []int
	for c := range last + 1 {
		set, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
		if err != nil {
			return nil, os.NewSyscallError("prctl(PR_CAPBSET_READ)", err)
		}
		if set == 1 {
			out = append(out, c)
		}
	}
	return out, nil
}

// lastCapability is the highest number that the kernel knows.
func lastCapability() (int, error) {
	b, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// limitCapabilities leaves those of keep in the bounding set of the calling thread,
// and none to be inherited: what it executes has no other.
func limitCapabilities(keep []int) error {
	has, err := boundingSet()
	if err != nil {
		return err
	}
	for _, c := range has {
		if slices.Contains(keep, c) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil {
			return os.NewSyscallError("prctl(PR_CAPBSET_DROP)", err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_CAP_AMBIENT)", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	if err := unix.Capset(&header, &data[0]); err != nil {
		return os.NewSyscallError("capset", err)
	}
	return nil
}
