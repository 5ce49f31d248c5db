package admit

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// Abilities are what the engine can do with a backend.
type Abilities struct {
	// Traits are the backend's.
	backend.Traits
}

// AbilitiesOf returns what a backend lends.
func AbilitiesOf(b backend.Backend) Abilities {
	return Abilities{Traits: b.Traits()}
}

// refuser collects refusals.
type refuser struct{ out []backend.Refusal }

func (r *refuser) refuse(field, why string) {
	r.out = append(r.out, backend.Refusal{Field: field, Why: why})
}

// Fields returns the fields of a pod that the engine cannot honour with what a
// backend lends. What the remote itself cannot do is the backend's to say.
func Fields(pod *corev1.Pod, can Abilities) []backend.Refusal {
	r := &refuser{}
	each(pod, func(path string, c *corev1.Container, init bool) {
		r.probes(path, c, init, can)
		r.lifecycle(path, c, can)
		r.restarts(path, c, init, can)
		r.addresses(path, c, can)
		for i, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.FileKeyRef != nil && (can.PodUnit() || !can.Places) {
				r.refuse(fmt.Sprintf("%s.env[%d].valueFrom.fileKeyRef", path, i),
					"variables cannot be read from files of a volume; use a ConfigMap or a Secret")
			}
		}
	})
	for i := range pod.Spec.ResourceClaims {
		r.refuse(fmt.Sprintf("spec.resourceClaims[%d]", i), "this node has no devices to claim; leave it out")
	}
	return r.out
}

// each calls f for the pod's init containers, then its app containers. Ephemeral
// containers come later, one by one, to a pod that was admitted.
func each(pod *corev1.Pod, f func(path string, c *corev1.Container, init bool)) {
	for i := range pod.Spec.InitContainers {
		f(fmt.Sprintf("spec.initContainers[%d]", i), &pod.Spec.InitContainers[i], true)
	}
	for i := range pod.Spec.Containers {
		f(fmt.Sprintf("spec.containers[%d]", i), &pod.Spec.Containers[i], false)
	}
}

// probes must be run by the engine or by the remote itself.
func (r *refuser) probes(path string, c *corev1.Container, init bool, can Abilities) {
	if can.Supervised {
		return
	}
	probe := func(name string, p *corev1.Probe) {
		if p == nil {
			return
		}
		const unreachable = "pods of this backend cannot be reached over the network; use another kind of probe or leave " +
			"it out"
		switch path := path + "." + name; {
		case p.Exec != nil && !can.Exec:
			r.refuse(
				path+".exec", "commands cannot be run in containers of this backend; use another kind of probe or leave it out",
			)
		case p.HTTPGet != nil && !can.Dial:
			r.refuse(path+".httpGet", unreachable)
		case p.TCPSocket != nil && !can.Dial:
			r.refuse(path+".tcpSocket", unreachable)
		case p.GRPC != nil && !can.Dial:
			r.refuse(path+".grpc", unreachable)
		}
	}
	if init && can.PodUnit() && c.StartupProbe != nil {
		r.refuse(
			path+".startupProbe",
			"a pod is launched whole on this backend: nothing can wait for a sidecar's probe; leave it out",
		)
		return
	}
	probe("startupProbe", c.StartupProbe)
	probe("livenessProbe", c.LivenessProbe)
	probe("readinessProbe", c.ReadinessProbe)
}

// addresses are known only after the launch where a pod is launched whole.
func (r *refuser) addresses(path string, c *corev1.Container, can Abilities) {
	if !can.PodUnit() || can.Supervised {
		return
	}
	for i, e := range c.Env {
		if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
			continue
		}
		switch e.ValueFrom.FieldRef.FieldPath {
		case "status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs":
			r.refuse(fmt.Sprintf("%s.env[%d].valueFrom.fieldRef", path, i),
				"a pod's address is known only once it runs on this backend; let the container find it")
		}
	}
}

// lifecycle hooks are the engine's to run. One with tcpSocket is not refused:
// the API keeps it for old pods, and it fails when it is run, as on a kubelet.
func (r *refuser) lifecycle(path string, c *corev1.Container, can Abilities) {
	if c.Lifecycle == nil || can.Supervised {
		return
	}
	hook := func(name string, h *corev1.LifecycleHandler) {
		switch path := path + ".lifecycle." + name; {
		case h == nil:
		case h.Exec != nil && !can.Exec:
			r.refuse(path+".exec", "commands cannot be run in containers of this backend; leave it out")
		case h.HTTPGet != nil && !can.Dial:
			r.refuse(path+".httpGet", "pods of this backend cannot be reached over the network; leave it out")
		}
	}
	if c.Lifecycle.PostStart != nil && can.PodUnit() {
		r.refuse(path+".lifecycle.postStart",
			"this backend starts all containers of a pod at once, with nothing between; do it in the container's command")
	} else {
		hook("postStart", c.Lifecycle.PostStart)
	}
	hook("preStop", c.Lifecycle.PreStop)
}

// restarts of single containers need a backend that can restart one. Whether
// sidecars are possible elsewhere is the backend's to say.
func (r *refuser) restarts(path string, c *corev1.Container, init bool, can Abilities) {
	if !can.PodUnit() {
		return
	}
	if c.RestartPolicy != nil && (!init || !backend.IsSidecar(c)) {
		r.refuse(path+".restartPolicy", "this backend restarts whole pods, not single containers; use spec.restartPolicy")
	}
	if len(c.RestartPolicyRules) > 0 {
		r.refuse(
			path+".restartPolicyRules", "this backend restarts whole pods, not single containers; use spec.restartPolicy",
		)
	}
}

// hostFields are what the pod asks of its host and the configuration forbids.
func hostFields(pod *corev1.Pod, node *Node) []backend.Refusal {
	r := &refuser{}
	namespace := func(field, what string, asked, allowed bool) {
		if asked && !allowed {
			r.refuse("spec."+field, "pods of this node may not use the host's "+what+
				"; leave it out, or have the node's configuration allow it")
		}
	}
	namespace("hostNetwork", "network", pod.Spec.HostNetwork, node.HostNetwork)
	namespace("hostPID", "process namespace", pod.Spec.HostPID, node.HostPID)
	namespace("hostIPC", "IPC namespace", pod.Spec.HostIPC, node.HostIPC)
	// The ports of a pod in the host's network are host ports by definition.
	if node.HostPorts || pod.Spec.HostNetwork {
		return r.out
	}
	each(pod, func(path string, c *corev1.Container, _ bool) {
		for i, p := range c.Ports {
			if p.HostPort != 0 {
				r.refuse(fmt.Sprintf("%s.ports[%d].hostPort", path, i),
					"pods of this node may not take ports of the host; use a Service, or have the node's configuration allow it")
			}
		}
	})
	return r.out
}
