package fields

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// rule refuses one field of a T.
type rule[T any] struct {
	field string
	// found returns what to append to the field's name for each place where it
	// is set to something that cannot be honoured.
	found func(*T) []string
	why   string
}

func apply[T any](refusals []backend.Refusal, at string, value *T, rules []rule[T]) []backend.Refusal {
	if value == nil {
		return refusals
	}
	for _, r := range rules {
		for _, suffix := range r.found(value) {
			refusals = append(refusals, backend.Refusal{Field: at + "." + r.field + suffix, Why: r.why})
		}
	}
	return refusals
}

// Check says what of a pod cannot be honoured on a CRI host. It does not speak
// of what the engine does itself, probes or environment for example, nor of
// windowsOptions: as with a kubelet on Linux they are for other nodes.
func Check(pod *corev1.Pod) []backend.Refusal {
	var out []backend.Refusal
	out = apply(out, "spec", &pod.Spec, podRules())
	eachContainer(pod, func(at string, c *corev1.Container) { out = apply(out, at, c, containerRules()) })
	return out
}

// eachContainer calls f for every container with its path in the pod.
func eachContainer(pod *corev1.Pod, f func(at string, c *corev1.Container)) {
	for _, list := range []struct {
		field      string
		containers []corev1.Container
	}{
		{"initContainers", pod.Spec.InitContainers},
		{"containers", pod.Spec.Containers},
		{"ephemeralContainers", ephemeralContainers(pod)},
	} {
		for i := range list.containers {
			f(fmt.Sprintf("spec.%s[%d]", list.field, i), &list.containers[i])
		}
	}
}

func ephemeralContainers(pod *corev1.Pod) []corev1.Container {
	var out []corev1.Container
	for _, e := range pod.Spec.EphemeralContainers {
		out = append(out, corev1.Container(e.EphemeralContainerCommon))
	}
	return out
}

// when is one place or none.
func when(set bool) []string {
	if set {
		return []string{""}
	}
	return nil
}

// each is every element of a list.
func each(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("[%d]", i)
	}
	return out
}

func podRules() []rule[corev1.PodSpec] {
	type spec = corev1.PodSpec
	return []rule[spec]{
		{
			"os", func(s *spec) []string { return when(s.OS != nil && s.OS.Name != corev1.Linux) },
			"the host runs linux",
		},
		{
			"resourceClaims", func(s *spec) []string { return each(len(s.ResourceClaims)) },
			"devices cannot be allocated on a container host",
		},
	}
}

func containerRules() []rule[corev1.Container] {
	type container = corev1.Container
	return []rule[container]{
		{
			"volumeDevices", func(c *container) []string { return each(len(c.VolumeDevices)) },
			"block devices are not supported on a container host",
		},
		{
			"resources", func(c *container) []string { return unknownResources(c.Resources) },
			"only cpu, memory, ephemeral-storage and huge pages are known here; devices cannot be allocated",
		},
		{"lifecycle", func(c *container) []string {
			if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
				return nil
			}
			return []string{".stopSignal"}
		}, "the runtime takes the stop signal from the image; set STOPSIGNAL there"},
	}
}

// unknownResources names each resource that nothing on the host would enforce.
func unknownResources(r corev1.ResourceRequirements) []string {
	var out []string
	for _, list := range []struct {
		field     string
		resources corev1.ResourceList
	}{{"limits", r.Limits}, {"requests", r.Requests}} {
		for name, quantity := range list.resources {
			switch name {
			case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
			default:
				if !quantity.IsZero() && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
					out = append(out, fmt.Sprintf(".%s[%s]", list.field, name))
				}
			}
		}
	}
	for i := range r.Claims {
		out = append(out, fmt.Sprintf(".claims[%d]", i))
	}
	slices.Sort(out)
	return out
}
