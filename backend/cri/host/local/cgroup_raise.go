package local

import (
	"path/filepath"
	"strconv"

	"github.com/burstlet/burstlet/backend/cfs"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// raised is c with the limits of CPU and memory that the cgroup has now where those
// are higher. A file that is not there limits nothing, and is left to who sets it.
func (hs hierarchies) raised(levels []string, c host.Cgroup) (host.Cgroup, error) {
	if hi, ok := hs.with(controllerCPU); ok && c.Quota > 0 {
		quota, period, err := quotaOf(hi.at(levels), hi.unified)
		switch {
		case unknown(err):
		case err != nil:
			return c, err
		case quota == 0:
			c.Quota = 0
		default:
			c.Quota = max(c.Quota, quota*periodOf(c)/period)
		}
	}
	if hi, ok := hs.with(controllerMemory); ok && c.Memory > 0 {
		file := "memory.limit_in_bytes"
		if hi.unified {
			file = "memory.max"
		}
		memory, err := limitIn(filepath.Join(hi.at(levels), file))
		switch {
		case unknown(err):
		case err != nil:
			return c, err
		case memory == 0:
			c.Memory = 0
		default:
			c.Memory = max(c.Memory, memory)
		}
	}
	return c, nil
}

// quotaOf is what a cgroup may use of the processors, in microseconds of a period;
// 0 is no limit.
func quotaOf(dir string, unified bool) (quota, period int64, err error) {
	if !unified {
		if quota, err = limitIn(filepath.Join(dir, "cpu.cfs_quota_us")); err != nil {
			return 0, 0, err
		}
		period, err = limitIn(filepath.Join(dir, "cpu.cfs_period_us"))
		return quota, max(period, 1), err
	}
	fields, err := words(filepath.Join(dir, "cpu.max"))
	if err != nil || len(fields) != 2 || fields[0] == unlimited {
		return 0, cfs.Period, err
	}
	if quota, err = strconv.ParseInt(fields[0], 10, 64); err != nil {
		return 0, 0, err
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
