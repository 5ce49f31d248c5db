package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// limitTop gives the cgroup above all pods its limits, where it has others. A limit
// below the memory in use is refused with EBUSY: pods that run are not killed for it.
func (h *Host) limitTop(ctx context.Context, hs hierarchies, levels []string, c host.Cgroup) error {
	var properties []string
	for _, l := range topSettings(c.Top, hs.pure()) {
		hi, ok := hs.with(l.controller)
		if !ok {
			return fmt.Errorf("limit cgroup %s: the kernel has no cgroup controller %s", levels[0], l.controller)
		}
		dir := hi.at(levels[:1])
		set := l.v1
		if hi.unified {
			set = l.v2
		}
		if now, err := line(filepath.Join(dir, set.file)); err == nil && now == set.value {
			continue
		}
		if l.controller == controllerMemory {
			if err := fits(dir, hi.unified, c.Top.Memory); err != nil {
				return fmt.Errorf("limit cgroup %s: %w", levels[0], err)
			}
		}
		if c.Systemd {
			properties = append(properties, l.property)
		}
		if err := set.apply(dir); err != nil {
			return fmt.Errorf("limit cgroup %s: %w", levels[0], err)
		}
	}
	if len(properties) == 0 {
		return nil
	}
	// It would write its own values again.
	return h.setProperties(ctx, levels[0], properties...)
}

// topSetting is one limit: as files of both versions have it, and as systemd does.
type topSetting struct {
	controller string
	v1, v2     setting
	property   string
}

func topSettings(t host.TopLimits, pure bool) []topSetting {
	var out []topSetting
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	if t.Shares > 0 {
		out = append(out, topSetting{
			controllerCPU,
			setting{file: "cpu.shares", value: number(t.Shares)},
			setting{file: "cpu.weight", value: number(cpuWeight(t.Shares))},
			weightProperty(t.Shares, pure),
		})
	}
	if t.Memory > 0 {
		// The kernel counts in pages.
		whole := t.Memory - t.Memory%int64(os.Getpagesize())
		property := "MemoryMax="
		if !pure {
			property = "MemoryLimit="
		}
		out = append(out, topSetting{
			controllerMemory,
			setting{file: "memory.limit_in_bytes", value: number(whole)},
			setting{file: "memory.max", value: number(whole)},
			property + number(whole),
		})
	}
	if t.PIDs > 0 {
		set := setting{file: "pids.max", value: number(t.PIDs)}
		out = append(out, topSetting{controllerPIDs, set, set, "TasksMax=" + number(t.PIDs)})
	}
	return out
}
