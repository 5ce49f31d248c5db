package local

import (
	"path/filepath"
	"strconv"

	"github.com/burstlet/burstlet/backend/cfs"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// raised is c with the limits of CPU and memory that the cgroup has now where those
// are higher.
func (hs hierarchies) raised(levels []string, c host.Cgroup) (host.Cgroup, error) {
	if hi, ok := hs.with(controllerCPU); ok && c.Quota > 0 {
		quota, period, err := quotaOf(hi.at(levels), hi.unified)
		if c.Quota, err = higher(c.Quota, quota*periodOf(c)/period, err); err != nil {
			return c, err
		}
	}
	if hi, ok := hs.with(controllerMemory); ok && c.Memory > 0 {
		file := "memory.limit_in_bytes"
		if hi.unified {
			file = "memory.max"
		}
		memory, err := limitIn(filepath.Join(hi.at(levels), file))
		if c.Memory, err = higher(c.Memory, memory, err); err != nil {
			return c, err
		}
	}
	return c, nil
}

// higher is the higher of a limit and the one that was read, where 0 is none. A file that
// is not there limits nothing, and is left to who sets it.
func higher(limit, now int64, err error) (int64, error) {
	switch {
	case unknown(err):
		return limit, nil
	case err != nil || now == 0:
		return 0, err
	default:
		return max(limit, now), nil
	}
}

// quotaOf is what a cgroup may use of the processors, in microseconds of a period;
// 0 is no limit.
func quotaOf(dir string, unified bool) (quota, period int64, err error) {
	if !unified {
		if quota, err = limitIn(filepath.Join(dir, "cpu.cfs_quota_us")); err != nil {
			return 0, cfs.Period, err
		}
		period, err = limitIn(filepath.Join(dir, "cpu.cfs_period_us"))
		return quota, max(period, 1), err
	}
	fields, err := words(filepath.Join(dir, "cpu.max"))
	if err != nil || len(fields) != 2 || fields[0] == unlimited {
		return 0, cfs.Period, err
	}
	if quota, err = strconv.ParseInt(fields[0], 10, 64); err != nil {
		return 0, cfs.Period, err
	}
	period, err = strconv.ParseInt(fields[1], 10, 64)
	return quota, max(period, 1), err
}

// limitIn reads a file that holds one limit; 0 is none.
func limitIn(path string) (int64, error) {
	text, err := line(path)
	if err != nil || text == unlimited || text == unlimitedV1 {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if n >= noLimitV1 {
		n = 0
	}
	return n, err
}
