package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cfs"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// The nodes of a host, of whatever processes, have the cgroups above their pods in common.
// So the weight of a class is made of what stands there, and not of what one node knows.

// sharesNote is the attribute of a pod's cgroup of version 2 that holds its CPU shares,
// which its weight rounds.
const sharesNote = "trusted.burstlet.cpu-shares"

// weighClass gives the class above a pod its weight (kubelet: setCPUCgroupConfig). A sum
// is made and written under a lock: whoever comes last has seen all.
func (h *Host) weighClass(ctx context.Context, hs hierarchies, levels []string, c host.Cgroup) error {
	class := levels[:len(levels)-1]
	hi, ok := hs.with(controllerCPU)
	// A guaranteed pod stands below the top itself, which has no class.
	if !ok || len(class) < 2 || !c.QOSSum && c.QOSShares == 0 {
		return nil
	}
	weigh := func() error {
		shares := c.QOSShares
		if c.QOSSum {
			dir, err := lockDir(ctx, hi.at(class))
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it was never made, or has gone with a reboot
			}
			if err != nil {
				return err
			}
			defer dir.Close() //nolint:errcheck // it was only locked
			if shares, err = hi.sumShares(class, levels[len(levels)-1]); err != nil {
				return err
			}
		}
		return h.setWeight(ctx, hs, hi, class, c.Systemd, shares)
	}
	if err := weigh(); err != nil {
		return fmt.Errorf("weigh cgroup %s: %w", strings.Join(class, "/"), err)
	}
	return nil
}

// setWeight writes what is not so already. systemd comes first: it would write its own
// value again.
func (h *Host) setWeight(
	ctx context.Context, hs hierarchies, hi hierarchy, class []string, systemd bool, shares int64,
) error {
	set := setting{file: "cpu.shares", value: strconv.FormatInt(shares, 10)}
	if hi.unified {
		set = setting{file: "cpu.weight", value: strconv.FormatInt(cpuWeight(shares), 10)}
	}
	dir := hi.at(class)
	if now, err := line(filepath.Join(dir, set.file)); err == nil && now == set.value {
		return nil
	}
	if systemd && h.systemd() {
		if err := h.setProperties(ctx, class[len(class)-1], weightProperty(shares, hs.pure())); err != nil {
			return err
		}
	}
	return set.apply(dir)
}

// sumShares are the CPU shares of the pods in a class together. A pod counts while
// something runs in its cgroup, or soon will: made is the one that is being made.
func (hi hierarchy) sumShares(class []string, made string) (int64, error) {
	dir := hi.at(class)
	pods, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	before := time.Now().Add(-sweepAge)
	var sum int64
	for _, pod := range pods {
		at := filepath.Join(dir, pod.Name())
		if !pod.IsDir() || pod.Name() != made && olderThan(pod, before) && !populated(at) {
			continue
		}
		shares, err := hi.shares(at)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			continue // it has gone
		}
		if err != nil {
			return 0, err
		}
		sum += shares
	}
	return min(max(sum, cfs.MinShares), cfs.MaxShares), nil
}

// shares are those of a pod's cgroup.
func (hi hierarchy) shares(dir string) (int64, error) {
	if !hi.unified {
		text, err := line(filepath.Join(dir, "cpu.shares"))
		if err != nil {
			return 0, err
		}
		return strconv.ParseInt(text, 10, 64)
	}
	text, err := line(filepath.Join(dir, "cpu.weight"))
	if err != nil {
		return 0, err
	}
	weight, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, err
	}
	if noted := notedShares(dir); noted > 0 && cpuWeight(noted) == weight {
		return noted, nil
	}
	return weightShares(weight), nil
}

// weightShares are in the middle of those that have a weight; the least are those of pods
// that ask for no processor.
func weightShares(weight int64) int64 {
	if weight <= 1 {
		return cfs.MinShares
	}
	return min(cfs.MinShares+(2*weight-1)*(cfs.MaxShares-cfs.MinShares)/(2*9999), cfs.MaxShares)
}

// noteShares keeps a pod's CPU shares with its cgroup; 0 is none. A kernel that cannot
// leaves rounded ones.
func noteShares(dir string, shares int64) error {
	err := unix.Setxattr(dir, sharesNote, []byte(strconv.FormatInt(shares, 10)), 0)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EPERM) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("note the CPU shares of %s: %w", dir, err)
	}
	return nil
}

// notedShares are 0 where none are noted.
func notedShares(dir string) int64 {
	text := make([]byte, 32)
	n, err := unix.Getxattr(dir, sharesNote, text)
	if err != nil {
		return 0
	}
	shares, err := strconv.ParseInt(string(text[:n]), 10, 64)
	if err != nil {
		return 0
	}
	return shares
}

// populated is true where something runs in a cgroup or below.
func populated(dir string) bool {
	if events, err := words(filepath.Join(dir, "cgroup.events")); err == nil {
		for i := 0; i+1 < len(events); i += 2 {
			if events[i] == "populated" {
				return events[i+1] == "1"
			}
		}
	}
	return len(processesBelow(dir)) > 0
}
