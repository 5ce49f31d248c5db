package sim

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// hostMaxProcesses is the most that the simulated host allows.
const hostMaxProcesses = 32768

// signalsView lends backend.Signals.
type signalsView struct{ *view }

// Signals works out what the host has left by what its containers use. Images have a file
// system of their own, and inodes are not counted.
func (v signalsView) Signals(ctx context.Context) (backend.SignalFacts, error) {
	const op = "measure the host"
	if err := v.request(ctx, op); err != nil {
		return backend.SignalFacts{}, err
	}
	facts := v.signals()
	if err := v.reply(ctx, op); err != nil {
		return backend.SignalFacts{}, err
	}
	return facts, nil
}

func (v signalsView) signals() backend.SignalFacts {
	measured := statsView(v).measure()
	var pods uint64
	for i := range measured.Pods {
		pods += *measured.Pods[i].MemoryWorkingSet
	}
	facts := backend.SignalFacts{
		Time: time.Now().Round(0), PodsMemory: &pods, DedicatedImageFS: true,
		PIDs: &backend.Level{
			Available: hostMaxProcesses - min(hostMaxProcesses, *measured.Node.Processes), Capacity: hostMaxProcesses,
		},
	}
	if left := measured.Node.MemoryAvailable; left != nil {
		memory := v.cfg.Capacity[corev1.ResourceMemory]
		facts.Memory = &backend.Level{Available: *left, Capacity: uint64(memory.Value())} //nolint:gosec // a capacity
	}
	facts.NodeFS, facts.ImageFS = level(measured.Node.Rootfs), level(measured.Images)
	v.mu.Lock()
	squeeze := v.squeeze
	v.mu.Unlock()
	if squeeze != nil {
		squeeze(&facts)
	}
	return facts
}

func level(f *backend.FilesystemUsage) *backend.Level {
	if f == nil || f.Available == nil || f.Capacity == nil {
		return nil
	}
	return &backend.Level{Available: *f.Available, Capacity: *f.Capacity}
}

// Squeeze has edit change what the host has left from now on, as something beside the
// pods would; nil leaves it alone.
func (r *Remote) Squeeze(edit func(*backend.SignalFacts)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.squeeze = edit
}
