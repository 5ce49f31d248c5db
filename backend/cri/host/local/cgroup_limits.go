package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cfs"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// What the kernel has where nothing is set.
const (
	defaultWeight = 100
	unlimited     = "max" // in version 2, and of pids in both
	unlimitedV1   = "-1"
)

// cpuWeight turns shares of 2 to 262144 into a weight of 1 to 10000 (kubelet:
// getCPUWeight).
func cpuWeight(shares int64) int64 {
	return 1 + (min(max(shares, cfs.MinShares), cfs.MaxShares)-cfs.MinShares)*9999/(cfs.MaxShares-cfs.MinShares)
}

// periodOf is the period of a quota, in microseconds.
func periodOf(c host.Cgroup) int64 {
	if c.Period > 0 {
		return c.Period
	}
	return cfs.Period
}

func setCPU(dir string, unified bool, c host.Cgroup) error {
	period := periodOf(c)
	if unified {
		weight := setting{"cpu.weight", strconv.Itoa(defaultWeight), true}
		if c.Shares > 0 {
			weight = setting{"cpu.weight", strconv.FormatInt(cpuWeight(c.Shares), 10), false}
		}
		if err := noteShares(dir, c.Shares); err != nil {
			return err
		}
		limit := setting{"cpu.max", fmt.Sprintf("%s %d", unlimited, period), true}
		if c.Quota > 0 {
			limit = setting{"cpu.max", fmt.Sprintf("%d %d", c.Quota, period), false}
		}
		return applyAll(dir, weight, limit)
	}
	weight := setting{"cpu.shares", strconv.Itoa(cfs.SharesOfOne), true}
	if c.Shares > 0 {
		weight = setting{"cpu.shares", strconv.FormatInt(c.Shares, 10), false}
	}
	if err := weight.apply(dir); err != nil {
		return err
	}
	return setQuotaV1(dir, c.Quota, period)
}

// setQuotaV1 writes the two files in an order in which the kernel takes both: it
// refuses more than what is above allows, and less than what is below has.
func setQuotaV1(dir string, quota, period int64) error {
	every := setting{"cpu.cfs_period_us", strconv.FormatInt(period, 10), false}
	if quota <= 0 {
		every.reset = true
		return applyAll(dir, setting{"cpu.cfs_quota_us", unlimitedV1, true}, every)
	}
	limit := setting{"cpu.cfs_quota_us", strconv.FormatInt(quota, 10), false}
	first := every.apply(dir)
	if first != nil && !errors.Is(first, unix.EINVAL) {
		return first
	}
	if err := limit.apply(dir); err != nil {
		if errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("%w: a container in it has more, and is to be limited first", err)
		}
		return err
	}
	if first != nil {
		return every.apply(dir)
	}
	return nil
}

func setMemory(dir string, unified bool, c host.Cgroup) error {
	limit := setting{file: "memory.limit_in_bytes", value: unlimitedV1, reset: true}
	if unified {
		limit.file, limit.value = "memory.max", unlimited
	}
	if c.Memory > 0 {
		limit.value, limit.reset = strconv.FormatInt(c.Memory, 10), false
		if err := fits(dir, unified, c.Memory); err != nil {
			return err
		}
	}
	return limit.apply(dir)
}

// fits refuses a limit of version 2 that the kernel would enforce with a kill;
// version 1 refuses such a limit itself, with the same error.
func fits(dir string, unified bool, limit int64) error {
	if !unified {
		return nil
	}
	u, err := memoryV2(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil // nothing was ever charged to it
	case err != nil:
		return err
	case *u.WorkingSet > uint64(limit):
		return fmt.Errorf("%d bytes of memory are in use: %w", *u.WorkingSet, unix.EBUSY)
	}
	return nil
}

func setPIDs(dir string, _ bool, c host.Cgroup) error {
	limit := setting{"pids.max", unlimited, true}
	if c.PIDs > 0 {
		limit.value, limit.reset = strconv.FormatInt(c.PIDs, 10), false
	}
	return limit.apply(dir)
}

// setHugePages limits each size that the kernel has; one that the pod does not
// name it may not use (kubelet: maybeSetHugetlb).
func setHugePages(dir string, unified bool, c host.Cgroup) error {
	suffix := ".limit_in_bytes"
	if unified {
		suffix = ".max"
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sizes []string
	for _, e := range entries {
		size, ok := strings.CutPrefix(e.Name(), "hugetlb.")
		size, also := strings.CutSuffix(size, suffix)
		if !ok || !also || strings.Contains(size, ".") {
			continue
		}
		sizes = append(sizes, size)
		limit := strconv.FormatInt(c.HugePages[size], 10)
		// Reservations fail when they are made; without that limit the process is
		// killed when it touches the page.
		if reserved := "hugetlb." + size + ".rsvd" + suffix; exists(filepath.Join(dir, reserved)) {
			if err := (setting{file: reserved, value: limit}).apply(dir); err != nil {
				return err
			}
		}
		if err := (setting{file: e.Name(), value: limit}).apply(dir); err != nil {
			return err
		}
	}
	for size := range c.HugePages {
		if !slices.Contains(sizes, size) {
			return fmt.Errorf("the kernel has no huge pages of %s to limit", size)
		}
	}
	return nil
}

// inheritCPUSet copies the processors and memory nodes from above: a new cgroup
// of version 1 has none, and no process can stand in it.
func inheritCPUSet(above, dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		now, err := os.ReadFile(filepath.Join(dir, file))
		if err == nil && strings.TrimSpace(string(now)) != "" {
			continue
		}
		value, err := os.ReadFile(filepath.Join(above, file))
		if err != nil {
			return err
		}
		if err := (setting{file: file, value: strings.TrimSpace(string(value))}).apply(dir); err != nil {
			return err
		}
	}
	return nil
}

// enabledFor are the controllers to be enabled in a unified tree. A kubelet
// enables all that it knows; beside version 1 only what the pod is limited by,
// for the tree is not ours alone.
func (hs hierarchies) enabledFor(hi hierarchy, c host.Cgroup) []string {
	asked := map[string]bool{
		controllerCPU:     c.Shares > 0 || c.Quota > 0 || c.Top.Shares > 0,
		controllerMemory:  c.Memory > 0 || c.Top.Memory > 0,
		controllerPIDs:    c.PIDs > 0 || c.Top.PIDs > 0,
		controllerHugeTLB: len(c.HugePages) > 0,
	}
	return slices.DeleteFunc(slices.Clone(podControllers), func(name string) bool {
		return !hi.unified || !slices.Contains(hi.controllers, name) || (!hs.pure() && !asked[name])
	})
}

// enable lets the cgroups below dir have the controllers.
func enable(dir string, controllers []string) error {
	if len(controllers) == 0 {
		return nil
	}
	now, err := words(filepath.Join(dir, fileSubtree))
	if err != nil {
		return err
	}
	for _, name := range controllers {
		if slices.Contains(now, name) {
			continue
		}
		err := os.WriteFile(filepath.Join(dir, fileSubtree), []byte("+"+name), 0o644)
		switch {
		case errors.Is(err, unix.EBUSY):
			return fmt.Errorf(
				"enable cgroup controller %s: %w: processes stand in %s itself, and must stand below it", name, err, dir,
			)
		case err != nil:
			return fmt.Errorf("enable cgroup controller %s: %w", name, err)
		}
	}
	return nil
}
