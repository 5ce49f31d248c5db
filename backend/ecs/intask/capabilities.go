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

// keptCapabilities are those of has that are left with add and without drop, in containerd's
// order (WithCapabilities of its CRI options): ALL of either, then what is added by name,
// then what is dropped by name. Names may begin with CAP_ and be in any case.
func keptCapabilities(has []int, drop, add []string) ([]int, error) {
	dropped, none, err := numbersOf(drop, "drop")
	if err != nil {
		return nil, err
	}
	added, _, err := numbersOf(add, "add")
	if err != nil {
		return nil, err
	}
	var keep []int // adding ALL adds nothing: it is all that a task has
	if !none {
		keep = slices.Clone(has)
	}
	for _, n := range added {
		if !slices.Contains(has, n) {
			return nil, fmt.Errorf("unknown capability %q to add: a task does not have it", capabilityNames[n])
		}
	}
	keep = slices.DeleteFunc(unique(append(keep, added...)), func(n int) bool { return slices.Contains(dropped, n) })
	slices.Sort(keep)
	return keep, nil
}

// numbersOf are the capabilities that are named, and whether all are.
func numbersOf(names []string, to string) (numbers []int, all bool, err error) {
	for _, name := range names {
		plain := plainCapability(name)
		if plain == allCapabilities {
			all = true
			continue
		}
		n := slices.Index(capabilityNames[:], plain)
		if n < 0 {
			return nil, false, fmt.Errorf("unknown capability %q to %s", name, to)
		}
		numbers = append(numbers, n)
	}
	return numbers, all, nil
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
