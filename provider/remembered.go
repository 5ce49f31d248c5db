package provider

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// annotationDomain is that of the annotations which remotes give their Node.
const annotationDomain = "burstlet.dev"

// remembered is what a Node in the API says of its remote, from when that last
// answered. It stands for the remote until that answers again: a Node without cpu,
// memory or its labels would have its pods refused for good.
func remembered(node *corev1.Node) *backend.NodeFacts {
	info := &node.Status.NodeInfo
	facts := &backend.NodeFacts{
		Capacity: node.Status.Capacity.DeepCopy(),
		OS:       info.OperatingSystem, Arch: info.Architecture, Kernel: info.KernelVersion,
		OSImage: info.OSImage, RuntimeVersion: info.ContainerRuntimeVersion,
		MachineID: info.MachineID, SystemUUID: info.SystemUUID, BootID: info.BootID,
		Annotations: map[string]string{},
	}
	if f := node.Status.Features; f != nil && f.SupplementalGroupsPolicy != nil {
		facts.SupplementalGroupsPolicy = *f.SupplementalGroupsPolicy
	}
	for _, h := range node.Status.RuntimeHandlers {
		facts.RuntimeHandlers = append(facts.RuntimeHandlers, h.Name)
		if h.Features == nil {
			continue
		}
		if can := h.Features.RecursiveReadOnlyMounts; can != nil && *can {
			facts.RecursiveReadOnly = append(facts.RecursiveReadOnly, h.Name)
		}
		if can := h.Features.UserNamespaces; can != nil && *can {
			facts.UserNamespaces = append(facts.UserNamespaces, h.Name)
		}
	}
	for key, value := range node.Annotations {
		if domain, _, _ := strings.Cut(key, "/"); domain == annotationDomain ||
			strings.HasSuffix(domain, "."+annotationDomain) {
			facts.Annotations[key] = value
		}
	}
	return facts
}
