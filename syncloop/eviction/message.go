package eviction

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/burstlet/burstlet/backend"
)

// The kubelet's words.
const (
	// Reason is that of a pod that was evicted, or not admitted to a node that evicts.
	Reason = "Evicted"
	// ReasonThresholdMet is that of the Event about the node.
	ReasonThresholdMet = "EvictionThresholdMet"
)

// Annotations of the Event about a pod that is evicted for a threshold, as a kubelet has them.
const (
	AnnotationStarvedResource          = "starved_resource"
	AnnotationOffendingContainers      = "offending_containers"
	AnnotationOffendingContainersUsage = "offending_containers_usage"
	AnnotationOffendingPod             = "offending_pod"
	AnnotationOffendingPodUsage        = "offending_pod_usage"
)

// AttemptMessage is what the Event about the node says.
func AttemptMessage(signal Signal) string {
	return fmt.Sprintf("Attempting to reclaim %s", signal.Resource())
}

// Message says why a pod is evicted for the first of the thresholds that are acted on, with
// the containers that use more than they request (kubelet: evictionMessage). It ends with
// a space, as the kubelet's does. The annotations are those of the Event; there are none for
// a pod that was not measured.
func Message(p *Pod, met []Threshold, o Observations) (message string, annotations map[string]string) {
	what := met[0].Signal.Resource()
	message = fmt.Sprintf("The node was low on resource: %v. ", what)
	for i := range met {
		if level, ok := o[met[i].Signal]; ok && met[i].Signal.Resource() == what {
			limit, left := met[i].Value.of(level.Capacity), o.available(met[i].Signal)
			message += fmt.Sprintf("Threshold quantity: %v, available: %v. ", &limit, &left)
			break
		}
	}
	if p.Stats == nil {
		return message, nil
	}
	annotations = map[string]string{AnnotationStarvedResource: string(what)}
	const larger = "was using %s, request is %s, has larger consumption of %v. "
	if what == corev1.ResourceMemory && resourcehelper.IsPodLevelResourcesSet(p.Pod) {
		if request, ok := p.Spec.Resources.Requests[what]; ok {
			used := bytes(workingSet(p.Stats)).String()
			message += fmt.Sprintf("Pod %s "+larger, p.Name, used, &request, what)
			annotations[AnnotationOffendingPod], annotations[AnnotationOffendingPodUsage] = p.Name, used
		}
	}
	var names, usage []string
	for i := range p.Stats.Containers {
		stats := &p.Stats.Containers[i]
		used, measured := containerUse(stats, what)
		for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
			request := c.Resources.Requests[what]
			if c.Name == stats.Name && measured && bytes(used).Cmp(request) > 0 {
				message += fmt.Sprintf("Container %s "+larger, c.Name, bytes(used), &request, what)
				names, usage = append(names, c.Name), append(usage, bytes(used).String())
			}
		}
	}
	annotations[AnnotationOffendingContainers] = strings.Join(names, ",")
	annotations[AnnotationOffendingContainersUsage] = strings.Join(usage, ",")
	return message, annotations
}

// containerUse is what the messages tell of a container; false where it was not measured.
func containerUse(stats *backend.ContainerStats, what corev1.ResourceName) (int64, bool) {
	switch what {
	case corev1.ResourceEphemeralStorage:
		if stats.Rootfs == nil || stats.Rootfs.Used == nil || stats.Logs == nil || stats.Logs.Used == nil {
			return 0, false
		}
		return number(stats.Rootfs.Used) + number(stats.Logs.Used), true
	case corev1.ResourceMemory:
		return number(stats.MemoryWorkingSet), stats.MemoryWorkingSet != nil
	default:
		return 0, false
	}
}

// Warnings says of each threshold that is met, whatever its grace, how little is left.
func Warnings(p *Policy, o Observations) []string {
	var out []string
	for i := range p.Thresholds {
		if t := &p.Thresholds[i]; o.met(t, false) {
			limit, left := t.Value.of(o[t.Signal].Capacity), o.available(t.Signal)
			out = append(out, fmt.Sprintf("%s is %v, below its threshold of %v", t.Signal, &left, &limit))
		}
	}
	return out
}
