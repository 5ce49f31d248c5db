package intask

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// cgroupRoot is where containers find their cgroups.
const cgroupRoot = "/sys/fs/cgroup"

// oomKills is how many processes of this container the kernel killed for want of
// memory (cgroup v2: memory.events; v1: memory.oom_control; both: oom_kill). 0 where
// it is not told.
func oomKills() int {
	own := ownCgroups("/proc/self/cgroup")
	for _, path := range []string{
		filepath.Join(cgroupRoot, own[""], "memory.events"),
		filepath.Join(cgroupRoot, "memory.events"),
		filepath.Join(cgroupRoot, "memory", own["memory"], "memory.oom_control"),
		filepath.Join(cgroupRoot, "memory", "memory.oom_control"),
	} {
		if n, ok := oomKillsIn(path); ok {
			return n
		}
	}
	return 0
}

// ownCgroups are the paths of this process, by controller; that of v2 is "".
func ownCgroups(path string) map[string]string {
	out := map[string]string{}
	b, err := os.ReadFile(path)
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			for controller := range strings.SplitSeq(f[1], ",") {
				out[controller] = f[2]
			}
		}
	}
	return out
}

func oomKillsIn(path string) (int, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == "oom_kill" {
			n, err := strconv.Atoi(value)
			return n, err == nil
		}
	}
	return 0, false
}
