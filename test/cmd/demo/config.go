package main

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"sigs.k8s.io/yaml"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

const (
	// nodeName is the name of the demo's node.
	nodeName = "burstlet"
	loopback = "127.0.0.1"
	// firstPort is the kubelet's, and lastPort the end of those that are tried.
	firstPort, lastPort = 10250, 10349
)

// nodeConfig is what is particular to a run of the demo.
type nodeConfig struct {
	kubeconfig, clientCA string
	port                 int
	// host has the containers; nil for the simulated backend.
	host *hostConfig
}

// hostConfig is a container host: its socket, the directory of its logs, and the
// name of the cgroup that its containers stand in.
type hostConfig struct{ endpoint, logs, cgroup string }

// render writes burstlet's configuration file as a person would: without what
// has a default.
func (c nodeConfig) render() ([]byte, error) {
	type object = map[string]any
	where := object{"type": config.BackendSim}
	if c.host != nil {
		where = object{"type": config.BackendCRI, "cri": object{
			"endpoint":         c.host.endpoint,
			"podLogsDir":       filepath.Join(c.host.logs, "pods"),
			"containerLogsDir": filepath.Join(c.host.logs, "containers"),
			"cgroupParent":     c.host.cgroup,
		}}
	}
	content, err := yaml.Marshal(object{
		"apiVersion": config.APIVersion,
		"kind":       config.Kind,
		"node":       object{"name": nodeName, "internalIP": loopback},
		"kubeconfig": c.kubeconfig,
		"backend":    where,
		"kubeletAPI": object{
			"address": loopback, "port": c.port, "selfSigned": true,
			// The node's credential may not read the ConfigMap with the CAs.
			"clientCAFile": c.clientCA,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("render the configuration: %w", err)
	}
	return content, nil
}

// freePort finds a port for the kubelet API: the kubelet's own if it is free.
func freePort() (int, error) {
	var last error
	for port := firstPort; port <= lastPort; port++ {
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		return port, nil
	}
	return 0, fmt.Errorf("find a free port from %d to %d: %w", firstPort, lastPort, last)
}
