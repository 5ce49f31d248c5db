package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// The controllers that limit pods (kubelet: getSupportedUnifiedControllers).
const (
	controllerCPU     = "cpu"
	controllerCPUSet  = "cpuset"
	controllerMemory  = "memory"
	controllerPIDs    = "pids"
	controllerHugeTLB = "hugetlb"
	controllerCPUAcct = "cpuacct"
)

var podControllers = []string{controllerCPU, controllerCPUSet, controllerHugeTLB, controllerMemory, controllerPIDs}

// Files of cgroups of both versions.
const (
	fileProcs       = "cgroup.procs"
	fileControllers = "cgroup.controllers"
	fileSubtree     = "cgroup.subtree_control"
	fileSwapMax     = "memory.swap.max"
)

// hierarchy is one tree of cgroups: one for each controller or few in version 1,
// one for all in version 2, and both on a hybrid host.
type hierarchy struct {
	dir     string // where it is mounted
	unified bool   // version 2
	// controllers of this tree; one of version 1 without any has its name here.
	controllers []string
}

type hierarchies []hierarchy

// hierarchies are the trees below the root of cgroups, found as every
// distribution mounts them: version 2 at the root, or directories named by their
// controllers. Links ("cpu" to "cpu,cpuacct") are no trees.
func (h *Host) hierarchies() (hierarchies, error) {
	root := h.opts.CgroupRoot
	controllers, err := words(filepath.Join(root, fileControllers))
	if err == nil {
		return hierarchies{{dir: root, unified: true, controllers: controllers}}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for cgroups: %w", err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("look for cgroups: %w", err)
	}
	var found hierarchies
	for _, e := range entries {
		dir := filepath.Join(root, e.Name())
		if !e.IsDir() || !exists(filepath.Join(dir, fileProcs)) {
			continue
		}
		controllers, err := words(filepath.Join(dir, fileControllers))
		switch {
		case err == nil:
			found = append(found, hierarchy{dir: dir, unified: true, controllers: controllers})
		case errors.Is(err, fs.ErrNotExist):
			found = append(found, hierarchy{dir: dir, controllers: strings.Split(e.Name(), ",")})
		default:
			return nil, fmt.Errorf("look for cgroups: %w", err)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("look for cgroups: none are mounted at %s", root)
	}
	return found, nil
}

// pure is version 2 alone.
func (hs hierarchies) pure() bool { return len(hs) == 1 && hs[0].unified }

// with is the tree of a controller: the kernel has it in one alone.
func (hs hierarchies) with(controller string) (hierarchy, bool) {
	i := slices.IndexFunc(hs, func(hi hierarchy) bool { return slices.Contains(hi.controllers, controller) })
	if i < 0 {
		return hierarchy{}, false
	}
	return hs[i], true
}

// at is the directory of a cgroup in the tree.
func (hi hierarchy) at(levels []string) string {
	return filepath.Join(append([]string{hi.dir}, levels...)...)
}

// cgroupLevels are the names of the directories from the top to the pod's.
func cgroupLevels(c host.Cgroup) ([]string, error) {
	levels, err := levelsOf(c)
	if err != nil {
		return nil, err
	}
	if len(levels) < 2 {
		return nil, fmt.Errorf("cgroup %q is no pod's: it is not below another one", c.Parent)
	}
	return levels, nil
}

// levelsOf are the names of the directories from the top to the cgroup's.
// systemd nests slices by the dashes in their names: a-b.slice is in a.slice.
func levelsOf(c host.Cgroup) ([]string, error) {
	var levels []string
	if c.Systemd {
		name, ok := strings.CutSuffix(c.Parent, ".slice")
		if !ok || strings.Contains(name, "/") {
			return nil, fmt.Errorf("cgroup %q is not the name of a slice", c.Parent)
		}
		parts := strings.Split(name, "-")
		if slices.Contains(parts, "") {
			return nil, fmt.Errorf("cgroup %q is not the name of a slice: a part between dashes is empty", c.Parent)
		}
		for i := range parts {
			levels = append(levels, strings.Join(parts[:i+1], "-")+".slice")
		}
	} else {
		if !filepath.IsAbs(c.Parent) || filepath.Clean(c.Parent) != c.Parent {
			return nil, fmt.Errorf("cgroup %q is not a clean absolute path", c.Parent)
		}
		levels = strings.Split(c.Parent[1:], "/")
	}
	return levels, nil
}

// locate returns the names from the top to a pod's cgroup, and the trees that it
// stands in.
func (h *Host) locate(c host.Cgroup) ([]string, hierarchies, error) {
	levels, err := cgroupLevels(c)
	if err != nil {
		return nil, nil, err
	}
	hs, err := h.hierarchies()
	return levels, hs, err
}

// makeCgroup makes the cgroup of a pod, and those above it, in every hierarchy,
// and limits it. What is there already is kept (kubelet: cgroupCommon.Create).
func (h *Host) makeCgroup(ctx context.Context, c host.Cgroup) error {
	levels, hs, err := h.locate(c)
	if err != nil {
		return err
	}
	if c.Systemd {
		if err := h.startSlice(ctx, levels, c, hs.pure()); err != nil {
			return fmt.Errorf("make cgroup %s: %w", c.Parent, err)
		}
	}
	for _, hi := range hs {
		if err := hi.make(levels, hs.enabledFor(hi, c)); err != nil {
			return fmt.Errorf("make cgroup %s: %w", c.Parent, err)
		}
	}
	if err := h.limitTop(ctx, hs, levels, c); err != nil {
		return err
	}
	return h.limit(ctx, hs, levels, c)
}

// limit sets the limits of a pod's cgroup, and the weight of the class above it.
func (h *Host) limit(ctx context.Context, hs hierarchies, levels []string, c host.Cgroup) error {
	if err := hs.limit(levels, c); err != nil {
		return err
	}
	return h.weighClass(ctx, hs, levels, c)
}

// Limit sets the limits of a pod's cgroup anew; one that is 0 goes away. A limit
// below the memory in use is refused with EBUSY. Errors: fs.ErrNotExist when
// there is no such cgroup.
func (h *Host) Limit(ctx context.Context, c host.Cgroup) (took time.Duration, _ error) {
	if err := h.led(ctx); err != nil {
		return 0, err
	}
	levels, hs, err := h.locate(c)
	if err != nil {
		return 0, err
	}
	there := slices.DeleteFunc(slices.Clone(hs), func(hi hierarchy) bool { return !exists(hi.at(levels)) })
	if len(there) == 0 {
		return 0, fmt.Errorf("limit cgroup %s: %w", c.Parent, fs.ErrNotExist)
	}
	began := time.Now()
	defer func() { took = time.Since(began) }()
	if c.Raise {
		if c, err = hs.raised(levels, c); err != nil {
			return 0, fmt.Errorf("limit cgroup %s: %w", c.Parent, err)
		}
	}
	if c.Systemd {
		// The kernel refuses what it does not take before systemd notes it.
		if err := hs.limit(levels, c); err != nil {
			return 0, err
		}
		if err := h.setSlice(ctx, levels, c, hs.pure()); err != nil {
			return 0, fmt.Errorf("limit cgroup %s: %w", c.Parent, err)
		}
	}
	// systemd rounds what it writes.
	return 0, h.limit(ctx, hs, levels, c)
}

// make makes the directories; in version 2 each gets the controllers from above.
func (hi hierarchy) make(levels, enabled []string) error {
	dir := hi.dir
	for _, level := range levels {
		above := dir
		dir = filepath.Join(dir, level)
		if hi.unified {
			if err := enable(above, enabled); err != nil {
				return err
			}
		}
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if slices.Contains(hi.controllers, controllerCPUSet) && !hi.unified {
			if err := inheritCPUSet(above, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// limit writes the limits of the pod.
func (hs hierarchies) limit(levels []string, c host.Cgroup) error {
	for _, l := range []struct {
		controller string
		asked      bool
		set        func(dir string, unified bool, c host.Cgroup) error
	}{
		{controllerCPU, c.Shares > 0 || c.Quota > 0, setCPU},
		{controllerMemory, c.Memory > 0, setMemory},
		{controllerPIDs, c.PIDs > 0, setPIDs},
		{controllerHugeTLB, len(c.HugePages) > 0, setHugePages},
	} {
		hi, ok := hs.with(l.controller)
		switch {
		case !ok && l.asked:
			return fmt.Errorf("limit cgroup %s: the kernel has no cgroup controller %s", c.Parent, l.controller)
		case !ok:
			continue
		}
		if err := l.set(hi.at(levels), hi.unified, c); err != nil {
			return fmt.Errorf("limit cgroup %s: %w", c.Parent, err)
		}
	}
	return nil
}

// setting is the value of one file of a cgroup.
type setting struct {
	file, value string
	// reset is true of a value that limits nothing: without the file there is
	// nothing to reset.
	reset bool
}

func (s setting) apply(dir string) error {
	path := filepath.Join(dir, s.file)
	if s.reset && !exists(path) {
		return nil
	}
	if err := os.WriteFile(path, []byte(s.value), 0o644); err != nil {
		return fmt.Errorf("write %q: %w", s.value, err)
	}
	return nil
}

func applyAll(dir string, settings ...setting) error {
	for _, s := range settings {
		if err := s.apply(dir); err != nil {
			return err
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// words are those of a small file.
func words(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(data)), nil
}
