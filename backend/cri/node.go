package cri

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
)

// node implements [backend.Node].
type node struct{ *remote }

// Describe asks the runtime how it is and reads the host's /proc.
func (n node) Describe(ctx context.Context) (backend.NodeFacts, error) {
	version, err := n.runtime.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return backend.NodeFacts{}, n.notCRI(err)
	}
	facts := backend.NodeFacts{
		OS:             "linux",
		RuntimeVersion: version.GetRuntimeName() + "://" + version.GetRuntimeVersion(),
	}
	st, err := n.runtime.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return backend.NodeFacts{}, failed(err, "ask the container runtime at %s for its status", n.cfg.Endpoint)
	}
	for _, c := range st.GetStatus().GetConditions() {
		switch {
		case c.GetType() == runtimeapi.RuntimeReady && !c.GetStatus():
			return backend.NodeFacts{}, backend.Errorf(backend.ErrUnavailable, "the container runtime at %s is not ready: %s: %s", n.cfg.Endpoint, c.GetReason(), c.GetMessage())
		case c.GetType() == runtimeapi.NetworkReady:
			facts.NetworkReady = c.GetStatus()
			if !c.GetStatus() {
				facts.Message = strings.TrimPrefix(c.GetReason()+": "+c.GetMessage(), ": ")
			}
		}
	}
	if err := n.describeHost(ctx, &facts); err != nil {
		return backend.NodeFacts{}, fmt.Errorf("describe the host: %w", err)
	}
	return facts, nil
}

// notCRI explains a Version call that failed, most of all one that was answered
// by something else than CRI.
func (n node) notCRI(err error) error {
	if status.Code(err) == codes.Unimplemented {
		return backend.Errorf(backend.ErrUnavailable,
			"what listens at %s does not speak CRI v1 (%w): use containerd 1.6 or newer, and see that its cri plugin is not in disabled_plugins", n.cfg.Endpoint, err)
	}
	return failed(err, "ask the container runtime for its version")
}

func (n node) describeHost(ctx context.Context, facts *backend.NodeFacts) error {
	memory, err := n.hostMemory(ctx)
	if err != nil {
		return err
	}
	stat, err := n.host.ReadFile(ctx, "/proc/stat")
	if err != nil {
		return fmt.Errorf("count CPUs: %w", err)
	}
	kernel, err := n.host.ReadFile(ctx, "/proc/sys/kernel/osrelease")
	if err != nil {
		return fmt.Errorf("read kernel version: %w", err)
	}
	release, err := n.host.ReadFile(ctx, "/etc/os-release")
	if err != nil && !isNotExist(err) {
		return fmt.Errorf("read OS release: %w", err)
	}
	if facts.Arch, err = n.host.Arch(ctx); err != nil {
		return fmt.Errorf("read architecture: %w", err)
	}
	if facts.HostIPs, err = n.host.Addresses(ctx); err != nil {
		return fmt.Errorf("read addresses: %w", err)
	}
	facts.Capacity = corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(countCPUs(stat), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
	}
	facts.Kernel = strings.TrimSpace(string(kernel))
	facts.OSImage = prettyName(release)
	return nil
}

// hostMemory is the host's memory in bytes, read once.
func (r *remote) hostMemory(ctx context.Context) (int64, error) {
	r.memoryMu.Lock()
	defer r.memoryMu.Unlock()
	if r.memory > 0 {
		return r.memory, nil
	}
	info, err := r.host.ReadFile(ctx, "/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read the host's memory: %w", err)
	}
	if r.memory, err = memTotal(info); err != nil {
		return 0, fmt.Errorf("read the host's memory: %w", err)
	}
	return r.memory, nil
}

// memTotal reads /proc/meminfo: "MemTotal:  16316412 kB".
func memTotal(info []byte) (int64, error) {
	for line := range strings.Lines(string(info)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil || kib <= 0 {
				return 0, fmt.Errorf("parse %q", strings.TrimSpace(line))
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("no MemTotal in /proc/meminfo")
}

// countCPUs counts the lines "cpu0", "cpu1", … of /proc/stat: those online.
func countCPUs(stat []byte) int64 {
	var n int64
	for line := range strings.Lines(string(stat)) {
		if len(line) > 3 && strings.HasPrefix(line, "cpu") && line[3] >= '0' && line[3] <= '9' {
			n++
		}
	}
	return n
}

// prettyName is PRETTY_NAME of os-release(5).
func prettyName(release []byte) string {
	for line := range strings.Lines(string(release)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(value, `"'`)
		}
	}
	return "Linux"
}
