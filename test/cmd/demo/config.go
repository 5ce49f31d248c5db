package main

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/parts/images"
)

const (
	// nodeName is the name of the demo's node.
	nodeName = demoName
	// hostName is that of the host where its pods run.
	hostName = "faraway"
	loopback = "127.0.0.1"
	// imageDomain is the registry of the demo's images, by their names.
	imageDomain = "registry.burstlet.test"
	// firstPort is the kubelet's, and lastPort the end of those that are tried.
	firstPort, lastPort = 10250, 10349
)

// nodeConfig is what is particular to a run of the demo.
type nodeConfig struct {
	kubeconfig, clientCA string
	// address is where the API server calls burstlet, which listens at bind.
	address, bind string
	port          int
	// election is the namespace of the Lease that says who runs the node; empty for
	// none.
	election string
	// host has the containers; nil for the simulated backend.
	host *hostConfig
	// cloud has the tasks; nil for none.
	cloud *cloudConfig
}

// cloudConfig is an ECS, the queue that tells of its tasks, and where images are
// looked up.
type cloudConfig struct{ endpoint, queue, images string }

// hostConfig is a container host: where it is, and how it is reached.
type hostConfig struct{ endpoint, key, knownHosts string }

// render writes burstlet's configuration file as a person would: without what
// has a default.
func (c nodeConfig) render() ([]byte, error) {
	type object = map[string]any
	where, node := object{"type": config.BackendSim}, object{"name": nodeName, "internalIP": c.address}
	if c.host != nil {
		where = object{"type": config.BackendCRI, "cri": object{
			"endpoint": c.host.endpoint,
			"ssh":      object{"keyFiles": []string{c.host.key}, "knownHostsFile": c.host.knownHosts},
		}}
	}
	if c.cloud != nil {
		node["capacity"] = object{"cpu": "16", "memory": "64Gi", "pods": 100}
		where = object{"type": config.BackendECS, "ecs": object{
			"region": "us-east-1", "cluster": "default", "subnets": []string{"subnet-a", "subnet-b"},
			"executionRoleARN": roleARN + "execution", "taskRoleARN": roleARN + "task", "taskImage": images.TaskRef,
			"logGroup": logGroup, "eventQueueURL": c.cloud.queue, "endpoint": c.cloud.endpoint,
			"registryMirrors": object{imageDomain: c.cloud.images},
		}}
	}
	settings := object{
		"apiVersion": config.APIVersion,
		"kind":       config.Kind,
		"node":       node,
		"kubeconfig": c.kubeconfig,
		"backend":    where,
		"kubeletAPI": object{
			"address": c.bind, "port": c.port, "selfSigned": true,
			// The node's credential may not read the ConfigMap with the CAs.
			"clientCAFile": c.clientCA,
		},
	}
	if c.host != nil {
		// This machine may be fuller than a kubelet takes.
		settings["eviction"] = object{"evictionHard": object{}}
	}
	if c.election != "" {
		settings["leaderElection"] = object{"enabled": true, "namespace": c.election, "kubeconfig": c.kubeconfig}
	}
	content, err := yaml.Marshal(settings)
	if err != nil {
		return nil, fmt.Errorf("render the configuration: %w", err)
	}
	return content, nil
}

// freePort finds a port for the kubelet API: the kubelet's own if it is free. No other demo
// gets it before release is called.
func freePort(address string) (port int, release func() error, err error) {
	for port = firstPort; port <= lastPort; port++ {
		if release, err = ports.Take(port, address); err == nil {
			return port, release, nil
		}
	}
	return 0, nil, fmt.Errorf("find a free port from %d to %d: %w", firstPort, lastPort, err)
}
