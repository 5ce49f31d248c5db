package local

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// noLimitV1 is less than what version 1 shows without a limit: the largest
// number of pages.
const noLimitV1 = 1 << 62

// measure measures a cgroup with those below. Errors: fs.ErrNotExist where it
// stands in no tree.
func (hs hierarchies) measure(levels []string) (host.CgroupUsage, error) {
	var u host.CgroupUsage
	if !slices.ContainsFunc(hs, func(hi hierarchy) bool { return exists(hi.at(levels)) }) {
		return u, fs.ErrNotExist
	}
	var err error
	if u.CPUNanoseconds, err = hs.cpuTime(levels); err != nil {
		return u, err
	}
	if err := hs.measureMemory(levels, &u); err != nil && !unknown(err) {
		return u, err
	}
	if err := hs.measureDetail(levels, &u.CgroupDetail); err != nil {
		return u, err
	}
	if u.Pressure, err = hs.pressure(levels); err != nil {
		return u, err
	}
	if hi, ok := hs.with(controllerPIDs); ok {
		u.PIDs, err = maybe(number(filepath.Join(hi.at(levels), "pids.current")))
	}
	return u, err
}

// unknown is true where a cgroup does not have the file, or is being removed.
func unknown(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EOPNOTSUPP)
}

// maybe is nil for what is unknown.
func maybe(n uint64, err error) (*uint64, error) {
	switch {
	case err == nil:
		return &n, nil
	case unknown(err):
		return nil, nil
	default:
		return nil, err
	}
}

// cpuTime is in nanoseconds; nil where it is unknown. Version 2 counts it also
// where the controller is not enabled.
func (hs hierarchies) cpuTime(levels []string) (*uint64, error) {
	if hi, ok := hs.with(controllerCPUAcct); ok {
		return maybe(number(filepath.Join(hi.at(levels), "cpuacct.usage")))
	}
	for _, hi := range hs {
		if !hi.unified {
			continue
		}
		stat, err := numbers(filepath.Join(hi.at(levels), "cpu.stat"))
		if err != nil && !unknown(err) {
			return nil, err
		}
		if micros := known(stat, "usage_usec"); micros != nil {
			return new(*micros * uint64(time.Microsecond)), nil
		}
	}
	return nil, nil
}

// measureMemory sets what the memory controller reports.
func (hs hierarchies) measureMemory(levels []string, u *host.CgroupUsage) error {
	hi, ok := hs.with(controllerMemory)
	if !ok {
		return nil
	}
	read := memoryV1
	if hi.unified {
		read = memoryV2
	}
	m, err := read(hi.at(levels))
	if err != nil {
		return err
	}
	u.Memory, u.WorkingSet, u.RSS, u.MemoryLimit = m.Memory, m.WorkingSet, m.RSS, m.MemoryLimit
	u.PageFaults, u.MajorPageFaults = m.PageFaults, m.MajorPageFaults
	return nil
}

// usedMemory reads what a cgroup uses in bytes, from a file of its version, and what of.
func usedMemory(dir, file string) (used uint64, stat map[string]uint64, err error) {
	if used, err = number(filepath.Join(dir, file)); err != nil {
		return 0, nil, err
	}
	stat, err = numbers(filepath.Join(dir, "memory.stat"))
	return used, stat, err
}

// memoryLimit is how many bytes a cgroup may use; nil where nothing limits it.
func memoryLimit(path string) (*uint64, error) {
	limit, err := limitIn(path)
	if err == nil && limit == 0 {
		return nil, nil
	}
	return maybe(uint64(limit), err)
}

func memoryV1(dir string) (host.CgroupUsage, error) {
	used, stat, err := usedMemory(dir, "memory.usage_in_bytes")
	if err != nil {
		return host.CgroupUsage{}, err
	}
	u := host.CgroupUsage{
		Memory: &used, WorkingSet: new(less(used, stat["total_inactive_file"])), RSS: known(stat, "total_rss"),
		PageFaults: known(stat, "total_pgfault"), MajorPageFaults: known(stat, "total_pgmajfault"),
	}
	u.MemoryLimit, err = memoryLimit(filepath.Join(dir, "memory.limit_in_bytes"))
	return u, err
}

func memoryV2(dir string) (host.CgroupUsage, error) {
	used, stat, err := usedMemory(dir, "memory.current")
	if err != nil {
		return host.CgroupUsage{}, err
	}
	u := host.CgroupUsage{
		Memory: &used, WorkingSet: new(less(used, stat["inactive_file"])), RSS: known(stat, "anon"),
		PageFaults: known(stat, "pgfault"), MajorPageFaults: known(stat, "pgmajfault"),
	}
	u.MemoryLimit, err = memoryLimit(filepath.Join(dir, "memory.max"))
	return u, err
}
