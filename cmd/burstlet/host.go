package main

import (
	"context"
	"sync/atomic"

	"github.com/burstlet/burstlet/backend"
)

// hostMemory remembers the addresses that the remote last gave for its host.
type hostMemory struct {
	backend.Node
	ips atomic.Pointer[[]string]
}

// Describe asks the remote and remembers.
func (h *hostMemory) Describe(ctx context.Context) (backend.NodeFacts, error) {
	facts, err := h.Node.Describe(ctx)
	if err == nil {
		h.ips.Store(&facts.HostIPs)
	}
	return facts, err
}

// IPs are the last known addresses, primary first.
func (h *hostMemory) IPs() []string {
	if ips := h.ips.Load(); ips != nil {
		return *ips
	}
	return nil
}
