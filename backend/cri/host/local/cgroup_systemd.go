package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cfs"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// systemd is true where it manages this host (sd_booted(3)).
func (h *Host) systemd() bool {
	info, err := os.Lstat(filepath.Join(h.opts.RunRoot, "systemd/system"))
	return err == nil && info.IsDir()
}

// startSlice has systemd make the slice of a pod with its limits: it would take
// away what it does not know of. A slice needs no unit file.
func (h *Host) startSlice(ctx context.Context, levels []string, c host.Cgroup, v2 bool) error {
	if !h.systemd() {
		return errors.New(
			"the cgroup driver is systemd, and systemd does not run on this host: use the driver cgroupfs for the container " +
				"runtime and for its pods",
		)
	}
	if err := h.setSlice(ctx, levels, c, v2); err != nil {
		return err
	}
	return h.systemctl(ctx, "start", levels[len(levels)-1])
}

func (h *Host) setSlice(ctx context.Context, levels []string, c host.Cgroup, v2 bool) error {
	return h.setProperties(ctx, levels[len(levels)-1], sliceProperties(c, v2)...)
}

func (h *Host) setProperties(ctx context.Context, slice string, properties ...string) error {
	return h.systemctl(ctx, append([]string{"set-property", "--runtime", slice}, properties...)...)
}

// sliceProperties are the limits in systemd's words, as runc has them. An empty
// value is the default.
func sliceProperties(c host.Cgroup, v2 bool) []string {
	memory := "MemoryMax="
	if !v2 {
		memory = "MemoryLimit="
	}
	if c.Memory > 0 {
		memory += strconv.FormatInt(c.Memory, 10)
	} else {
		memory += "infinity"
	}
	tasks := "TasksMax=infinity"
	if c.PIDs > 0 {
		tasks = "TasksMax=" + strconv.FormatInt(c.PIDs, 10)
	}
	return append([]string{
		"CPUAccounting=yes", "MemoryAccounting=yes", "TasksAccounting=yes",
		weightProperty(c.Shares, v2), memory, tasks,
	}, quotaProperties(c)...)
}

func weightProperty(shares int64, v2 bool) string {
	switch {
	case v2 && shares > 0:
		return "CPUWeight=" + strconv.FormatInt(cpuWeight(shares), 10)
	case v2:
		return "CPUWeight="
	case shares > 0:
		return "CPUShares=" + strconv.FormatInt(shares, 10)
	default:
		return "CPUShares="
	}
}

// quotaProperties round up to a percent of a processor, as systemd counts.
func quotaProperties(c host.Cgroup) []string {
	if c.Quota <= 0 {
		return []string{"CPUQuota="}
	}
	period := periodOf(c)
	percent := (c.Quota*100 + period - 1) / period
	out := []string{fmt.Sprintf("CPUQuota=%d%%", percent)}
	if period != cfs.Period {
		out = append(out, fmt.Sprintf("CPUQuotaPeriodSec=%dus", period))
	}
	return out
}

// stopSlice ends the slice of a pod. To stop one kills what is in it: what is to be
// spared must be seen before.
func (h *Host) stopSlice(ctx context.Context, hs hierarchies, levels []string, inside inhabitants) error {
	if !h.systemd() {
		return nil // only directories are left
	}
	if err := awaitEmpty(ctx, hs, levels, inside); err != nil {
		return err
	}
	slice := levels[len(levels)-1]
	if err := h.systemctl(ctx, "stop", slice); err != nil {
		return err
	}
	// What set-property wrote stands in /run until then.
	return h.systemctl(ctx, "revert", slice)
}

func (h *Host) systemctl(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, h.opts.SystemctlCommand, args...).CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return fmt.Errorf(
		"ask systemd (%s %s): %w: %s", h.opts.SystemctlCommand, strings.Join(args, " "), err, strings.TrimSpace(string(out)),
	)
}

// awaitEmpty waits a moment for the last processes of a cgroup to end, or kills them.
func awaitEmpty(ctx context.Context, hs hierarchies, levels []string, inside inhabitants) error {
	ctx, cancel := context.WithTimeout(ctx, freeing)
	defer cancel()
	tick := time.NewTicker(retry)
	defer tick.Stop()
	for {
		var pids []string
		for _, hi := range hs {
			pids = append(pids, processesBelow(hi.at(levels))...)
		}
		if len(pids) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: processes %s still stand in it", unix.EBUSY, strings.Join(pids, ", "))
		case <-tick.C:
		}
		if inside == killed {
			kill(pids)
		}
	}
}
