package backends

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/user"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri"
	"github.com/burstlet/burstlet/backend/cri/explain"
	"github.com/burstlet/burstlet/backend/cri/fields"
	"github.com/burstlet/burstlet/backend/cri/host/helper/binary"
	hostlocal "github.com/burstlet/burstlet/backend/cri/host/local"
	"github.com/burstlet/burstlet/backend/cri/sshlink"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

func criKind() Kind {
	return Kind{
		Place:     func(b config.Backend) string { return b.CRI.Endpoint },
		Away:      func(b config.Backend) bool { return strings.HasPrefix(b.CRI.Endpoint, "ssh://") },
		InProcess: func(config.Backend) bool { return false },
		New: func(ctx context.Context, n Node) (backend.Backend, error) {
			b, err := newCRI(ctx, n)
			if err != nil {
				return backend.Backend{}, fmt.Errorf("set up the cri backend: %w", err)
			}
			return b, nil
		},
		Offline: newCRI,
		Diagnose: func(ctx context.Context, n Node) ([]backend.Finding, error) {
			found, err := diagnoseHost(ctx, n)
			if err != nil || slices.ContainsFunc(found, func(f backend.Finding) bool { return !f.OK && !f.Warn }) {
				return found, err
			}
			return append(found, diagnoseEviction(ctx, n, newCRI)...), nil
		},
		Taken: func(_ Node, pod *corev1.Pod) map[string]string { return fields.Uses(pod) },
		Preview: func(_ context.Context, n Node, launch backend.LaunchSpec) (Preview, error) {
			host, err := explain.Explain(criConfig(n), launch)
			if err != nil {
				return Preview{}, err
			}
			return Preview{Host: &host}, nil
		},
	}
}

// newCRI makes the backend, which connects to nothing before it runs.
func newCRI(_ context.Context, n Node) (backend.Backend, error) {
	b, err := cri.New(criConfig(n), n.May)
	if err != nil {
		return backend.Backend{}, err
	}
	return *b, nil
}

// criConfig is the configuration of a container host as its backend wants it.
func criConfig(n Node) cri.Config {
	out := n.Config.Backend.CRI.Settings()
	out.Leader = n.Leader
	out.Bounded = n.Config.Node.Capacity.CPU != nil && n.Config.Node.Capacity.Memory != nil
	out.NodeIdentity, out.ClusterDNS, out.ClusterDomain = n.Identity, n.Config.ClusterDNS, n.Config.ClusterDomain
	n.Config.Pods.Limit(&out)
	if out.SSH != nil {
		out.SSH.Helper = binary.Packed
	}
	return out
}

// diagnoseHost diagnoses a container host, here or over SSH.
func diagnoseHost(ctx context.Context, n Node) ([]backend.Finding, error) {
	c := n.Config.Backend.CRI
	if c.SSH == nil {
		return diagnoseHere(ctx, c, tenant(n)), nil
	}
	cfg, err := cri.Link(criConfig(n))
	if err != nil {
		return nil, err
	}
	cfg.Tenant = tenant(n)
	link, err := sshlink.New(cfg)
	if err != nil {
		return nil, err
	}
	return link.Diagnose(ctx, c.RuntimeSocket), nil
}

// PartAdvice is what to do where nodes offer what their host has more than once.
const PartAdvice = sshlink.PartAdvice

// tenant is the node as one of those of its host. Without the cluster its identity may not
// be known.
func tenant(n Node) sshlink.Tenant {
	c := criConfig(n)
	out := sshlink.Tenant{Node: c.NodeIdentity, Bounded: c.Bounded, ShutdownDelay: c.ShutdownDelay}
	if n.StandIn {
		out.Node = ""
	}
	return out
}

// diagnoseHere diagnoses this machine.
func diagnoseHere(ctx context.Context, c *config.CRI, node sshlink.Tenant) []backend.Finding {
	name := "this user"
	if me, err := user.Current(); err == nil {
		name = me.Username
	}
	root := backend.Good("root", "runs as root")
	if os.Getuid() != 0 {
		root = backend.Bad("root", "runs as "+name,
			"the host operations (mounts, cgroups) need root: run burstlet as root, or reach the host over SSH")
	}
	socket := strings.TrimPrefix(c.Endpoint, "unix://")
	found := append([]backend.Finding{root}, sshlink.DiagnoseRuntime(ctx, &net.Dialer{}, name, socket)...)
	here := hostlocal.New(hostlocal.Options{Root: c.PodsDir})
	facts, err := here.Facts(ctx)
	if err != nil {
		return append(found, backend.Bad("host", err.Error(), ""))
	}
	found = append(found, sshlink.DiagnoseHost(facts, socket, node)...)
	return append(found, node.DiagnoseShutdown(ctx, here)...)
}
