package resolve

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/burstlet/burstlet/backend"
)

// podField is what a fieldRef of a variable names. Errors: ErrWaiting for an
// address that is not known yet; the kubelet's words for a field that cannot be
// referred to.
func podField(pod *corev1.Pod, ref *corev1.ObjectFieldSelector, at Addresses) (string, error) {
	if ref.APIVersion != "" && ref.APIVersion != "v1" {
		return "", fmt.Errorf("unsupported pod version: %s", ref.APIVersion)
	}
	podIPs := at.PodIPs
	if pod.Spec.HostNetwork && len(podIPs) == 0 {
		podIPs = at.HostIPs
	}
	switch ref.FieldPath {
	case "spec.nodeName", "spec.host":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs":
		if at.Late {
			return lateAddresses[ref.FieldPath], nil
		}
	}
	switch ref.FieldPath {
	case "status.hostIP":
		return address(ref.FieldPath, at.HostIPs, false)
	case "status.hostIPs":
		return address(ref.FieldPath, at.HostIPs, true)
	case "status.podIP":
		return address(ref.FieldPath, podIPs, false)
	case "status.podIPs":
		return address(ref.FieldPath, podIPs, true)
	}
	return metadataField(pod, ref.FieldPath)
}

// lateAddresses are the texts in the place of addresses, by field.
var lateAddresses = map[string]string{
	"status.podIP": backend.LatePodIP, "status.podIPs": backend.LatePodIPs,
	"status.hostIP": backend.LateHostIP, "status.hostIPs": backend.LateHostIPs,
}

// fieldOrigin is the origin of what podField returns. What is the same for all
// pods of a template is shared: those have a namespace and an account in common, and
// the text in the place of an address that is put in late.
func fieldOrigin(path string, at Addresses) backend.Origin {
	if at.Late && lateAddresses[path] != "" {
		return backend.OriginShared
	}
	switch path {
	case "metadata.namespace", "spec.serviceAccountName":
		return backend.OriginShared
	}
	return backend.OriginPod
}

func address(field string, ips []string, all bool) (string, error) {
	if len(ips) == 0 {
		return "", fmt.Errorf("%s: %w", field, ErrWaiting)
	}
	if all {
		return strings.Join(ips, ","), nil
	}
	return ips[0], nil
}

// metadataField is a field of the pod's metadata, all that the files of a
// downward API volume may name.
func metadataField(pod *corev1.Pod, path string) (string, error) {
	if field, key, ok := subscript(path); ok {
		return subscripted(pod, path, field, key)
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return formatMap(pod.Labels), nil
	case "metadata.annotations":
		return formatMap(pod.Annotations), nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %v", path)
}

func subscripted(pod *corev1.Pod, path, field, key string) (string, error) {
	var problems []string
	var value string
	switch field {
	case "metadata.labels":
		problems, value = content.IsLabelKey(key), pod.Labels[key]
	case "metadata.annotations":
		// Keys of annotations are compared without case when they are admitted.
		problems, value = content.IsLabelKey(strings.ToLower(key)), pod.Annotations[key]
	default:
		return "", fmt.Errorf("fieldPath %q does not support subscript", path)
	}
	if len(problems) > 0 {
		return "", fmt.Errorf("invalid key subscript in %s: %s", path, strings.Join(problems, ";"))
	}
	return value, nil
}

// subscript splits "metadata.labels['key']".
func subscript(path string) (field, key string, ok bool) {
	rest, ok := strings.CutSuffix(path, "']")
	if !ok {
		return "", "", false
	}
	field, key, ok = strings.Cut(rest, "['")
	return field, key, ok && field != ""
}

// formatMap is a line key="value" each, sorted, with Go's escapes.
func formatMap(m map[string]string) string {
	lines := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, key+"="+strconv.Quote(m[key]))
	}
	return strings.Join(lines, "\n")
}

// limited are the resources for which a limit stands in when a container sets
// none. Huge pages are never overcommitted: their limit is always set.
var limited = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// podLimits are the limits that stand in for those that a container does not
// set: the pod's own, else what the node can allocate.
func podLimits(pod *corev1.Pod, allocatable corev1.ResourceList) corev1.ResourceList {
	if pod.Spec.Resources == nil {
		return allocatable
	}
	out := maps.Clone(allocatable)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit, set := pod.Spec.Resources.Limits[name]
		if _, known := out[name]; known && set && !limit.IsZero() {
			out[name] = limit
		}
	}
	return out
}

// resourceField is a limit or request of a container, in units of the divisor,
// rounded up. The container is the one named, or self. defaults stand in for
// limits that it does not set.
func resourceField(pod *corev1.Pod, self *corev1.Container, ref *corev1.ResourceFieldSelector,
	defaults corev1.ResourceList,
) (string, error) {
	c := self
	if ref.ContainerName != "" || c == nil {
		if c = containerNamed(pod, ref.ContainerName); c == nil {
			return "", fmt.Errorf("container %s not found", ref.ContainerName)
		}
	}
	list, name, ok := strings.Cut(ref.Resource, ".")
	resourceName := corev1.ResourceName(name)
	known := slices.Contains(limited, resourceName) || strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
	if !ok || !known || list != "limits" && list != "requests" {
		return "", fmt.Errorf("unsupported container resource : %v", ref.Resource)
	}
	quantity := c.Resources.Requests[resourceName]
	if list == "limits" {
		quantity = c.Resources.Limits[resourceName]
		if quantity.IsZero() && slices.Contains(limited, resourceName) {
			quantity = defaults[resourceName]
		}
	}
	return inUnits(resourceName, quantity, ref.Divisor), nil
}

func containerNamed(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// inUnits is the quantity divided by the divisor (0 means 1), rounded up. CPU is
// counted in thousandths.
func inUnits(name corev1.ResourceName, quantity, divisor resource.Quantity) string {
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	value, unit := quantity.Value(), divisor.Value()
	if name == corev1.ResourceCPU {
		value, unit = quantity.MilliValue(), divisor.MilliValue()
	}
	units := value / unit
	if value%unit > 0 {
		units++
	}
	return strconv.FormatInt(units, 10)
}
