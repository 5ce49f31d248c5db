package remotehost

import (
	"context"
	"fmt"
	"net/http"

	"github.com/burstlet/burstlet/test/kit/link"
	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
)

// served is a registry inside a host.
type served struct {
	name    string
	handler http.Handler
	server  *http.Server
}

// ServeRegistry serves a registry (package registry, say) at a port of the
// host's loopback, where containerd finds it under its name, until Stop and
// across reboots. No other host and nobody on the machine reaches it.
func (h *Host) ServeRegistry(ctx context.Context, name string, handler http.Handler) error {
	registry := &served{name: name, handler: handler}
	if err := h.listen(ctx, registry); err != nil {
		return err
	}
	h.registries = append(h.registries, registry)
	return nil
}

func (h *Host) listen(ctx context.Context, registry *served) error {
	listener, err := h.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serve registry %s: %w", registry.name, err)
	}
	registry.server = containerd.ServeRegistry(listener, registry.handler)
	return h.UseRegistry(registry.name, listener.Addr().String())
}

// UseRegistry makes containerd find a registry of that name at a numeric address
// that the host reaches, in plain HTTP.
func (h *Host) UseRegistry(name, address string) error {
	return containerd.WriteRegistry(h.layout.disk(registryConf), name, address)
}

func (s *served) close() error {
	if err := s.server.Close(); err != nil {
		return fmt.Errorf("close registry %s: %w", s.name, err)
	}
	return nil
}

// Reach lets the host's users dial the sshd of another host, at an address of
// the host's own loopback that it returns: the host is then a jump host. It lasts
// until a reboot. The other host's link does not count or hold it.
func (h *Host) Reach(ctx context.Context, other *Host) (string, error) {
	listener, err := h.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("reach %s: %w", other.Hostname(), err)
	}
	way := link.Serve(listener, other.dialSSHD)
	h.reached = append(h.reached, way)
	return way.Address(), nil
}
