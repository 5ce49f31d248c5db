package local

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// kubelets are the processes whose executable is called kubelet. Those of
// another pid namespace are in a container, with a runtime of their own.
func (h *Host) kubelets(ctx context.Context) ([]host.Kubelet, error) {
	entries, err := os.ReadDir(h.opts.ProcRoot)
	if err != nil {
		return nil, fmt.Errorf("look for kubelets: %w", err)
	}
	ours, err := os.Readlink(h.proc("self/ns/pid"))
	if err != nil {
		return nil, fmt.Errorf("look for kubelets: %w", err)
	}
	var found []host.Kubelet
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("look for kubelets: %w", err)
		}
		if !h.isKubelet(e.Name()) {
			continue
		}
		// One that cannot be read is reported: it may be ours.
		if ns, err := os.Readlink(h.proc(e.Name() + "/ns/pid")); err == nil && ns != ours {
			continue
		}
		found = append(found, host.Kubelet{PID: pid, Endpoint: h.kubeletEndpoint(e.Name())})
	}
	slices.SortFunc(found, func(a, b host.Kubelet) int { return cmp.Compare(a.PID, b.PID) })
	return found, nil
}

// isKubelet goes by the executable, and by the name of the process where that
// cannot be read: only root can.
func (h *Host) isKubelet(pid string) bool {
	name, err := line(h.proc(pid + "/comm"))
	if exe, linkErr := os.Readlink(h.proc(pid + "/exe")); linkErr == nil {
		name, err = filepath.Base(strings.TrimSuffix(exe, " (deleted)")), nil
	}
	return err == nil && name == "kubelet"
}

// kubeletEndpoint is the container runtime that a kubelet was given; empty if
// nothing, or if it cannot be read.
func (h *Host) kubeletEndpoint(pid string) string {
	cmdline, err := os.ReadFile(h.proc(pid + "/cmdline"))
	if err != nil {
		return ""
	}
	args := strings.Split(string(cmdline), "\x00")
	if endpoint := flagValue(args, "container-runtime-endpoint"); endpoint != "" {
		return endpoint
	}
	file := flagValue(args, "config")
	if file == "" {
		return ""
	}
	// As the kubelet sees it, which may be in a root of its own.
	config, err := os.ReadFile(h.proc(pid + "/root" + file))
	if err != nil {
		return ""
	}
	for text := range strings.Lines(string(config)) {
		if value, ok := strings.CutPrefix(text, "containerRuntimeEndpoint:"); ok {
			return strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return ""
}

// flagValue is that of --name=value or --name value.
func flagValue(args []string, name string) string {
	for i, arg := range args {
		flag, value, given := strings.Cut(arg, "=")
		if strings.TrimLeft(flag, "-") != name || !strings.HasPrefix(flag, "-") {
			continue
		}
		if !given && i+1 < len(args) {
			value = args[i+1]
		}
		return value
	}
	return ""
}
