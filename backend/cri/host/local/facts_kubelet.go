package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/burstlet/burstlet/backend/cri/host"
)

const (
	// maxKubeletConfig bounds what is read of what a process says of itself: it may be
	// anybody's that is called kubelet.
	maxKubeletConfig = 1 << 20

	k3sConfig   = "/etc/rancher/k3s/config.yaml"
	k3sEndpoint = "unix:///run/k3s/containerd/containerd.sock"
)

// distributions are programs with a kubelet within, and the runtime that it uses unless it is
// told another. A kubelet's own default is host.DefaultEndpoint.
var distributions = map[string]string{
	"kubelet":  "",
	"kubelite": "unix:///var/snap/microk8s/common/run/containerd.sock", // MicroK8s
	"k3s":      k3sEndpoint,
}

// kubelets are the processes whose executable is a kubelet or has one within. Those of
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
		name := h.program(e.Name())
		endpoint, known := distributions[name]
		if !known || name == "k3s" && !h.isK3sNode(e.Name()) {
			continue
		}
		// One that cannot be read is reported: it may be ours.
		if ns, err := os.Readlink(h.proc(e.Name() + "/ns/pid")); err == nil && ns != ours {
			continue
		}
		found = append(found, host.Kubelet{PID: pid, Endpoint: cmp.Or(h.kubeletEndpoint(e.Name(), name), endpoint)})
	}
	slices.SortFunc(found, func(a, b host.Kubelet) int { return cmp.Compare(a.PID, b.PID) })
	return found, nil
}

// program is the executable's name, or that of the process where that cannot be read: only
// root can.
func (h *Host) program(pid string) string {
	if exe, err := os.Readlink(h.proc(pid + "/exe")); err == nil {
		return filepath.Base(strings.TrimSuffix(exe, " (deleted)"))
	}
	name, err := line(h.proc(pid + "/comm"))
	if err != nil {
		return ""
	}
	// k3s-server and k3s-agent.
	if first, _, ok := strings.Cut(name, "-"); ok && first == "k3s" {
		return first
	}
	return name
}

// isK3sNode is true of a k3s that runs a kubelet: its other commands are kubectl and the
// like. It writes its command line anew, as one word without its flags. One that cannot be
// read may be one.
func (h *Host) isK3sNode(pid string) bool {
	words := strings.Fields(strings.Join(h.arguments(pid), " "))
	if len(words) == 0 {
		return true
	}
	return len(words) > 1 && (words[1] == "agent" || words[1] == "server") &&
		h.configured(pid, k3sConfig, "disable-agent") != "true"
}

// arguments are those of a process; none if they cannot be read.
func (h *Host) arguments(pid string) []string {
	cmdline, err := readSome(h.proc(pid + "/cmdline"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
}

// kubeletEndpoint is the container runtime that a kubelet was given; empty if
// nothing, or if it cannot be read.
func (h *Host) kubeletEndpoint(pid, program string) string {
	args := h.arguments(pid)
	if endpoint := flagValue(args, "container-runtime-endpoint"); endpoint != "" {
		return endpoint
	}
	if program == "k3s" {
		return h.configured(pid, k3sConfig, "container-runtime-endpoint")
	}
	if file := flagValue(args, "config"); file != "" {
		return h.configured(pid, file, "containerRuntimeEndpoint")
	}
	return ""
}

// configured is the value of a key at the top of a process's YAML file, as the process
// sees it, which may be in a root of its own; empty if it is not there.
func (h *Host) configured(pid, file, key string) string {
	config, err := readSome(h.proc(pid + "/root" + file))
	if err != nil {
		return ""
	}
	for text := range strings.Lines(string(config)) {
		if value, ok := strings.CutPrefix(text, key+":"); ok {
			return strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return ""
}

// readSome reads the beginning of a file, and waits for none that is a pipe.
func readSome(path string) ([]byte, error) {
	f, _, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(f, maxKubeletConfig))
	return out, errors.Join(err, f.Close())
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
