// Package admit says which pods the node takes, and when to fail those that it
// does not take.
//
// [Decide] is the kubelet's admission, as a pure function. What the engine will
// not do with a backend ([Fields]) and what the remote cannot do (the backend's
// Check) is judged after the kubelet's own checks. [AdmittedPods] keeps what the
// admitted pods hold, so that a judgement costs the same however many there
// are, and spaces the failures of one controller's pods where the scheduler does
// not know of the obstacle: the controller would replace them at once and for
// ever.
package admit

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// The kubelet's reasons for not admitting a pod (pkg/kubelet/lifecycle,
// pkg/kubelet/sysctl), and one that is ours. A missing resource has the reason
// OutOf<resource> ("OutOfcpu"), a failed predicate its name.
const (
	ReasonInvalidNodeInfo                      = "InvalidNodeInfo"
	ReasonSysctlForbidden                      = "SysctlForbidden"
	ReasonPodOSSelectorNodeLabelDoesNotMatch   = "PodOSSelectorNodeLabelDoesNotMatch"
	ReasonPodOSNotSupported                    = "PodOSNotSupported"
	ReasonSupplementalGroupsPolicyNotSupported = "SupplementalGroupsPolicyNotSupported"
	ReasonPodFeatureUnsupported                = "PodFeatureUnsupported"
	ReasonNodeAffinity                         = "NodeAffinity"
	ReasonNodeName                             = "NodeName"
	ReasonNodePorts                            = "NodePorts"
	ReasonTaintToleration                      = "TaintToleration"
	ReasonNodeShutdown                         = "NodeShutdown"
	// ReasonEvicted is for pods that come while the node evicts others.
	ReasonEvicted = "Evicted"
	// ReasonUnsupported is for fields that the engine or the backend cannot honour.
	ReasonUnsupported = "UnsupportedByBackend"
	outOf             = "OutOf"
)

// restartAllFeature is the name of the node feature that pods with the action
// RestartAllContainers require (k8s.io/component-helpers/nodedeclaredfeatures).
const restartAllFeature = "RestartAllContainersOnContainerExits"

// Rejection says why a pod is not admitted.
type Rejection struct {
	// Reason is one word, of the pod's status and of the Event.
	Reason string
	// Message is the Event's text; the status has it with a prefix.
	Message string
}

// StatusMessage is the message of the failed pod's status (kubelet: rejectPod).
func (r *Rejection) StatusMessage() string { return "Pod was rejected: " + r.Message }

// recurs is true where the pod that replaces the failed one would likely come
// back to this node and fail again, because the scheduler does not know of the
// obstacle. What it knows of keeps the replacement away.
func (r *Rejection) recurs() bool {
	switch r.Reason {
	case ReasonNodeAffinity, ReasonNodeName, ReasonNodePorts, ReasonTaintToleration, ReasonNodeShutdown:
		return false
	}
	return !strings.HasPrefix(r.Reason, outOf)
}

// Node is what admission knows of the node. It is only read.
type Node struct {
	Name string
	// Labels and Taints are those of the Node object as it is now.
	Labels map[string]string
	Taints []corev1.Taint
	// Allocatable is what pods may use, the number of pods among it; a resource
	// that it lacks is one of which there is none. Nil means that the node is not
	// known yet: every pod is rejected with InvalidNodeInfo, so wait for it.
	Allocatable corev1.ResourceList
	// OS is the remote's, a GOOS word ("linux").
	OS string
	// Kernel is the version of the remote's kernel ("5.10.0-28-amd64"). Empty is
	// unknown: sysctls that old kernels lack are not counted as safe.
	Kernel string
	// SupplementalGroupsPolicy is true where the remote can be strict about
	// supplemental groups (status.features of the Node).
	SupplementalGroupsPolicy bool
	// HostNetwork, HostPID, HostIPC and HostPorts are what the configuration
	// allows pods to ask of their host.
	HostNetwork, HostPID, HostIPC, HostPorts bool
	// AllowedUnsafeSysctls are names and patterns ("net.core.*") beyond the safe
	// sysctls; see CheckSysctls.
	AllowedUnsafeSysctls []string
	// ShuttingDown is true once the node takes no pod any more.
	ShuttingDown bool
	// Pressure are the pressure conditions of the node that are true.
	Pressure []corev1.NodeConditionType
	// Can is what the engine can do with this backend.
	Can Abilities
}

// Decide returns why a pod cannot be admitted beside the pods that were, or
// nil. The kubelet's checks come first, in its order, then the fields that
// cannot be honoured: the engine's and those in refusals.
func Decide(pod *corev1.Pod, node Node, others []*corev1.Pod, refusals []backend.Refusal) *Rejection {
	used := newUsage()
	for _, other := range others {
		if other.UID != pod.UID {
			used.add(shareOf(other))
		}
	}
	return decide(pod, &node, used, refusals)
}

func shuttingDown(node *Node) *Rejection {
	if !node.ShuttingDown {
		return nil
	}
	return &Rejection{Reason: ReasonNodeShutdown, Message: "Pod was rejected as the node is shutting down."}
}

// pressed keeps pods away from a node that evicts others (kubelet: evictionManager.Admit):
// for want of memory those that request none and do not tolerate its taint, for anything
// else all but critical ones.
func pressed(pod *corev1.Pod, node *Node) *Rejection {
	if len(node.Pressure) == 0 || backend.Critical(pod) {
		return nil
	}
	taint := corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}
	if slices.Equal(node.Pressure, []corev1.NodeConditionType{corev1.NodeMemoryPressure}) &&
		(QOS(pod) != corev1.PodQOSBestEffort ||
			slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return tolerates(t, taint) })) {
		return nil
	}
	return &Rejection{ReasonEvicted, fmt.Sprintf("The node had condition: %v. ", node.Pressure)}
}

// decide judges a critical pod's resources last: for want of them alone others make room
// for it (kubelet: HandleAdmissionFailure).
func decide(pod *corev1.Pod, node *Node, used *usage, refusals []backend.Refusal) *Rejection {
	fits := func() *Rejection { return used.fits(pod, node) }
	first, last := fits, func() *Rejection { return nil }
	if backend.Critical(pod) {
		first, last = last, first
	}
	for _, check := range []func() *Rejection{
		func() *Rejection { return shuttingDown(node) },
		func() *Rejection { return pressed(pod, node) },
		func() *Rejection { return sysctls(pod, node) },
		func() *Rejection { return platform(pod, node) },
		first,
		func() *Rejection { return placement(pod, node, used) },
		func() *Rejection { return features(pod, node) },
		func() *Rejection { return unsupported(pod, node, refusals) },
		last,
	} {
		if r := check(); r != nil {
			return r
		}
	}
	return nil
}

// platform is for what no other pod's end can change.
func platform(pod *corev1.Pod, node *Node) *Rejection {
	if node.Allocatable == nil {
		return &Rejection{ReasonInvalidNodeInfo, "Kubelet cannot get node info."}
	}
	// The kubelet reads the label of the pod, not its node selector.
	if os, ok := pod.Labels[corev1.LabelOSStable]; ok && os != node.OS {
		return &Rejection{
			ReasonPodOSSelectorNodeLabelDoesNotMatch,
			"Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
		}
	}
	if os := pod.Spec.OS; os != nil && string(os.Name) != node.OS {
		return &Rejection{ReasonPodOSNotSupported, "Failed to admit pod as the OS field doesn't match node OS"}
	}
	sc := pod.Spec.SecurityContext
	if sc != nil && sc.SupplementalGroupsPolicy != nil && !node.SupplementalGroupsPolicy &&
		*sc.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyStrict {
		return &Rejection{
			ReasonSupplementalGroupsPolicyNotSupported,
			fmt.Sprintf("SupplementalGroupsPolicy=%s is not supported in this node", corev1.SupplementalGroupsPolicyStrict),
		}
	}
	return nil
}

// features is for what pods require of the node by name.
func features(pod *corev1.Pod, node *Node) *Rejection {
	if !node.Can.PodUnit() {
		return nil
	}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			for _, rule := range list[i].RestartPolicyRules {
				if rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
					return &Rejection{
						ReasonPodFeatureUnsupported,
						"Pod requires node features that are not available: " + restartAllFeature,
					}
				}
			}
		}
	}
	return nil
}

// unsupported names every field that cannot be honoured, each once.
func unsupported(pod *corev1.Pod, node *Node, refusals []backend.Refusal) *Rejection {
	all := append(hostFields(pod, node), Fields(pod, node.Can)...)
	all = append(all, refusals...)
	if len(all) == 0 {
		return nil
	}
	seen := map[string]bool{}
	var words []string
	for _, r := range all {
		if !seen[r.Field] {
			seen[r.Field] = true
			words = append(words, r.Field+": "+r.Why)
		}
	}
	return &Rejection{ReasonUnsupported, strings.Join(words, "; ")}
}
