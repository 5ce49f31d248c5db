package provider

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/inplacepodresize"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/restartallcontainers"

	"github.com/burstlet/burstlet/backend"
)

// virtualLabel marks a Node as one of ours or of a kind with it.
const (
	virtualLabel      = "type"
	virtualLabelValue = "virtual-kubelet"
)

// nodeSpec is the configured part of a Node.
type nodeSpec struct {
	name, backend string
	NodeOptions
	port int32 // of the kubelet API; 0 when it is not served
	// features are those that the Node declares, sorted (kubelet: NodeDeclaredFeatures).
	features []string
	holder   string // of HolderAnnotation; empty: none
}

// declaredFeatures are what the API server and the scheduler ask of a node before they
// let a pod have it, sorted: of those known to 1.36 (k8s.io/component-helpers,
// nodedeclaredfeatures) what this node does. A kubelet also declares
// ExtendWebSocketsToKubelet, without which the API server translates streams to SPDY.
func declaredFeatures(b backend.Backend) []string {
	var features []string
	if b.Resize != nil {
		features = append(
			features, inplacepodresize.IPPRPodLevelResourcesFeatureGate, inplacepodresize.IPPRInitContainersFeatureGate,
		)
	}
	if b.Containers != nil {
		features = append(features, restartallcontainers.RestartAllContainersOnContainerExits)
	}
	return features
}

// build computes the Node that should stand in the API, but for labels that a
// node may not set by itself (see restrictedLabels). inAPI is the status that
// does stand there and before the one computed last; both may be empty.
func (s nodeSpec) build(obs observation, inAPI, before corev1.NodeStatus) *corev1.Node {
	facts := obs.facts
	if facts == nil {
		facts = obs.remembered
	}
	capacity := s.capacity(facts)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: s.labels(facts), Annotations: s.annotations(facts)},
		Status: corev1.NodeStatus{
			Capacity:         capacity,
			Allocatable:      s.allocatable(facts),
			Addresses:        s.addresses(),
			DeclaredFeatures: s.features,
			NodeInfo:         corev1.NodeSystemInfo{KubeletVersion: s.Version},
			Conditions:       conditions(verdicts(s.backend, obs, capacity), obs.now, inAPI.Conditions, before.Conditions),
		},
	}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = s.port
	if node.Status.Images = obs.images; obs.images == nil {
		node.Status.Images = inAPI.Images // until more is known
	}
	if f := facts; f != nil {
		info := &node.Status.NodeInfo
		info.OperatingSystem, info.Architecture, info.KernelVersion = f.OS, f.Arch, f.Kernel
		info.OSImage, info.ContainerRuntimeVersion = f.OSImage, f.RuntimeVersion
		info.MachineID, info.SystemUUID, info.BootID = f.MachineID, f.SystemUUID, f.BootID
		node.Status.RuntimeHandlers = runtimeHandlers(f)
		if f.SupplementalGroupsPolicy {
			node.Status.Features = &corev1.NodeFeatures{SupplementalGroupsPolicy: new(true)}
		}
	}
	return node
}

// runtimeHandlers are the remote's, with what pods get of them.
func runtimeHandlers(f *backend.NodeFacts) (all []corev1.NodeRuntimeHandler) {
	for _, name := range f.RuntimeHandlers {
		all = append(all, corev1.NodeRuntimeHandler{Name: name, Features: &corev1.NodeRuntimeHandlerFeatures{
			RecursiveReadOnlyMounts: new(slices.Contains(f.RecursiveReadOnly, name)),
			UserNamespaces:          new(slices.Contains(f.UserNamespaces, name)),
		}})
	}
	return all
}

// capacity is what the remote says, with the configuration's word above it.
func (s nodeSpec) capacity(facts *backend.NodeFacts) corev1.ResourceList {
	capacity := corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(s.MaxPods, resource.DecimalSI)}
	if facts != nil {
		for name, quantity := range facts.Capacity {
			if name != corev1.ResourcePods {
				capacity[name] = quantity.DeepCopy()
			}
		}
	}
	for name, quantity := range s.Capacity {
		capacity[name] = quantity.DeepCopy()
	}
	return capacity
}

// allocatable is the capacity without what the remote keeps from pods.
func (s nodeSpec) allocatable(facts *backend.NodeFacts) corev1.ResourceList {
	out := s.capacity(facts)
	if facts == nil {
		return out
	}
	for name, reserved := range facts.Reserved {
		if left, ok := out[name]; ok {
			left.Sub(reserved)
			if left.Sign() < 0 {
				left.Set(0)
			}
			out[name] = left
		}
	}
	return out
}

func (s nodeSpec) labels(facts *backend.NodeFacts) map[string]string {
	labels := map[string]string{
		corev1.LabelHostname: s.name,
		virtualLabel:         virtualLabelValue,
		// A load balancer cannot send traffic to this node's address.
		corev1.LabelNodeExcludeBalancers: "",
	}
	if facts != nil && facts.OS != "" {
		labels[corev1.LabelOSStable] = facts.OS
	}
	if facts != nil && facts.Arch != "" {
		labels[corev1.LabelArchStable] = facts.Arch
	}
	for key, value := range s.Labels {
		if !restricted(key) {
			labels[key] = value
		}
	}
	return labels
}

// annotations are the remote's, above them the configured ones, and above all what
// the node's identity stands on.
func (s nodeSpec) annotations(facts *backend.NodeFacts) map[string]string {
	out := map[string]string{}
	if facts != nil {
		maps.Copy(out, facts.Annotations)
	}
	maps.Copy(out, s.Annotations)
	for key, value := range map[string]string{IdentityAnnotation: s.Identity, HolderAnnotation: s.holder} {
		if delete(out, key); value != "" {
			out[key] = value
		}
	}
	return out
}

// restrictedLabels are the configured labels that NodeRestriction does not let a
// node set. They are tried once, at registration, and never given to the
// framework, whose every status update they would make fail.
func (s nodeSpec) restrictedLabels() map[string]string {
	labels := map[string]string{}
	for key, value := range s.Labels {
		if restricted(key) {
			labels[key] = value
		}
	}
	return labels
}

// selfLabels are labels of Kubernetes' own that a node may set on itself.
var selfLabels = map[string]bool{
	corev1.LabelHostname: true, corev1.LabelOSStable: true, corev1.LabelArchStable: true,
	corev1.LabelTopologyZone: true, corev1.LabelTopologyRegion: true,
	corev1.LabelFailureDomainBetaZone: true, corev1.LabelFailureDomainBetaRegion: true,
	corev1.LabelInstanceType: true, corev1.LabelInstanceTypeStable: true,
	"beta.kubernetes.io/os": true, "beta.kubernetes.io/arch": true,
}

// restricted follows the rule of Kubernetes' NodeRestriction admission.
func restricted(key string) bool {
	namespace, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	within := func(domain string) bool { return namespace == domain || strings.HasSuffix(namespace, "."+domain) }
	switch {
	case within(corev1.LabelNamespaceNodeRestriction):
		return true
	case selfLabels[key], within(corev1.LabelNamespaceSuffixKubelet), within(corev1.LabelNamespaceSuffixNode):
		return false
	default:
		return within("kubernetes.io") || within("k8s.io")
	}
}

// settled is true when the Node in the API says all that the wanted one says.
// Times, and what others added, do not count.
func settled(want, have *corev1.Node) bool {
	for _, c := range want.Status.Conditions {
		h := condition(have.Status.Conditions, c.Type)
		if h == nil || h.Status != c.Status || h.Reason != c.Reason || h.Message != c.Message {
			return false
		}
	}
	annotations := maps.Clone(want.Annotations)
	delete(annotations, HolderAnnotation) // two processes would write it in turn
	return within(want.Labels, have.Labels) && within(annotations, have.Annotations) &&
		holds(want.Status.Capacity, have.Status.Capacity) &&
		holds(want.Status.Allocatable, have.Status.Allocatable) &&
		!slices.ContainsFunc(want.Status.Addresses, func(a corev1.NodeAddress) bool {
			return !slices.Contains(have.Status.Addresses, a)
		}) &&
		sameFeatures(want.Status, have.Status) &&
		want.Status.DaemonEndpoints == have.Status.DaemonEndpoints &&
		equality.Semantic.DeepEqual(want.Status.Images, have.Status.Images) &&
		sameInfo(want.Status.NodeInfo, have.Status.NodeInfo)
}

// sameFeatures compares what the node and its runtime handlers can do.
func sameFeatures(a, b corev1.NodeStatus) bool {
	return equality.Semantic.DeepEqual(a.Features, b.Features) &&
		equality.Semantic.DeepEqual(a.RuntimeHandlers, b.RuntimeHandlers) &&
		equality.Semantic.DeepEqual(a.DeclaredFeatures, b.DeclaredFeatures)
}

// sameInfo compares what we fill in.
func sameInfo(a, b corev1.NodeSystemInfo) bool {
	return a.KubeletVersion == b.KubeletVersion && a.ContainerRuntimeVersion == b.ContainerRuntimeVersion &&
		a.OperatingSystem == b.OperatingSystem && a.Architecture == b.Architecture &&
		a.KernelVersion == b.KernelVersion && a.OSImage == b.OSImage &&
		a.MachineID == b.MachineID && a.SystemUUID == b.SystemUUID && a.BootID == b.BootID
}

// holds is true when every quantity of part is the same in whole.
func holds(part, whole corev1.ResourceList) bool {
	for name, quantity := range part {
		if have, ok := whole[name]; !ok || have.Cmp(quantity) != 0 {
			return false
		}
	}
	return true
}

// within is true when every pair of part is in whole.
func within(part, whole map[string]string) bool {
	for key, value := range part {
		if have, ok := whole[key]; !ok || have != value {
			return false
		}
	}
	return true
}
