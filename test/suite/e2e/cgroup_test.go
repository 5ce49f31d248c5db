package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// What a container reads of its own limits, on either version of cgroups.
const (
	memoryLimit = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max"
	cpuQuota    = "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cut -d' ' -f1 /sys/fs/cgroup/cpu.max"
)

// unifiedNames are the files of version 2 that hold what version 1 has in these.
var unifiedNames = map[string]string{
	"cpu.cfs_quota_us": "cpu.max", "cpu.shares": "cpu.weight", "memory.limit_in_bytes": "memory.max",
	"pids.max": "pids.max", "pids.current": "pids.current",
}

// unifiedValue is what a file of a cgroup of version 2 says, which version 1 has in the
// named one, as version 1 counts it: -1 is no limit.
func unifiedValue(file, content string) (int64, error) {
	name := unifiedNames[file]
	if name == "" {
		return 0, fmt.Errorf("%s has no file of version 2 here", file)
	}
	fields := strings.Fields(content) // cpu.max has the period too
	if len(fields) == 0 {
		return 0, fmt.Errorf("%s is empty", name)
	}
	if fields[0] == "max" {
		return -1, nil
	}
	value, err := strconv.ParseInt(fields[0], 10, 64)
	if name == "cpu.weight" {
		value = sharesOf(value)
	}
	return value, err
}

// weightOf and sharesOf turn cpu.shares into cpu.weight and back, as kubelets do
// (pkg/kubelet/cm, cpuSharesToCPUWeight).
func weightOf(shares int64) int64 { return 1 + (max(shares, 2)-2)*9999/262142 }

func sharesOf(weight int64) int64 { return 2 + (weight-1)*262142/9999 }

func TestUnifiedValue(t *testing.T) {
	files := map[string]string{
		"cpu.max": "25000 100000\n", "cpu.weight": "20\n", "memory.max": "max\n", "pids.max": "64\n",
	}
	for file, want := range map[string]int64{
		"cpu.cfs_quota_us": 25000, "cpu.shares": sharesOf(weightOf(512)), "memory.limit_in_bytes": -1, "pids.max": 64,
	} {
		if got, err := unifiedValue(file, files[unifiedNames[file]]); err != nil || got != want {
			t.Errorf("%s is %d, want %d: %v", file, got, want, err)
		}
	}
	for _, file := range []string{"pids.current", "cpuset.cpus"} {
		if got, err := unifiedValue(file, files[unifiedNames[file]]); err == nil {
			t.Errorf("%s is %d, and there is none", file, got)
		}
	}
	for shares, weight := range map[int64]int64{2: 1, 512: 20, 1024: 39, 262144: 10000} {
		if got := weightOf(shares); got != weight {
			t.Errorf("%d shares weigh %d, want %d", shares, got, weight)
		}
	}
}
