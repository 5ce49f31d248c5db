package main

import (
	"fmt"
	"net/netip"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider"
	"github.com/burstlet/burstlet/syncloop"
	"github.com/burstlet/burstlet/syncloop/admit"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// engineNode returns what the engine asks about the node: what is configured,
// with what the node is now.
func engineNode(
	cfg config.Configuration, b backend.Backend, current func() provider.Current,
) (func() syncloop.Node, error) {
	if err := admit.CheckSysctls(cfg.Pods.AllowedUnsafeSysctls); err != nil {
		return nil, fmt.Errorf("pods.allowedUnsafeSysctls: %w", err)
	}
	fixed := syncloop.Node{
		Admission: admit.Node{
			Name: cfg.Node.Name, Can: admit.AbilitiesOf(b), AllowedUnsafeSysctls: cfg.Pods.AllowedUnsafeSysctls,
			HostNetwork: cfg.Pods.HostNetwork, HostPID: cfg.Pods.HostPID, HostIPC: cfg.Pods.HostIPC,
			HostPorts: cfg.Pods.HostPorts,
		},
		Cluster: resolve.Node{Name: cfg.Node.Name},
	}
	if cfg.Pods.APIServer != "" {
		var err error
		if fixed.Cluster.APIServer, err = netip.ParseAddrPort(cfg.Pods.APIServer); err != nil {
			return nil, fmt.Errorf("pods.apiServer: %w", err)
		}
	}
	return func() syncloop.Node {
		now, n := current(), fixed
		if now.Described { // what the API holds from before says nothing of the remote as it is
			n.Admission.Allocatable = now.Allocatable
		}
		n.Admission.Labels, n.Admission.Taints = now.Labels, now.Taints
		n.Admission.OS, n.Admission.Kernel = now.OS, now.Kernel
		n.Admission.SupplementalGroupsPolicy = now.SupplementalGroupsPolicy
		n.Cluster.RecursiveReadOnly = now.RecursiveReadOnly
		n.Cluster.Allocatable, n.NetworkProblem = now.Allocatable, now.NetworkProblem
		return n
	}, nil
}
