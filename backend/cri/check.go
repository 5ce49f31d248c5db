package cri

import (
	"fmt"
	"slices"

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

// check says what of a pod cannot be honoured on a CRI host. It does not speak
// of what the engine does itself, probes or environment for example.
func check(pod *corev1.Pod) []backend.Refusal {
	var out []backend.Refusal
	out = apply(out, "spec", &pod.Spec, podRules())
	out = apply(out, "spec.securityContext", pod.Spec.SecurityContext, podSecurityRules())
	for _, list := range []struct {
		field      string
		containers []corev1.Container
	}{
		{"initContainers", pod.Spec.InitContainers},
		{"containers", pod.Spec.Containers},
		{"ephemeralContainers", ephemerals(pod)},
	} {
		for i := range list.containers {
			c := &list.containers[i]
			at := fmt.Sprintf("spec.%s[%d]", list.field, i)
			out = apply(out, at, c, containerRules())
			out = apply(out, at+".securityContext", c.SecurityContext, securityRules())
		}
	}
	return out
}

func ephemerals(pod *corev1.Pod) []corev1.Container {
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
			"volumes", func(s *spec) []string { return each(len(s.Volumes)) },
			"volumes are not supported on a container host yet; for the service account token set automountServiceAccountToken: false",
		},
		{
			"hostAliases", func(s *spec) []string { return when(len(s.HostAliases) > 0) },
			"entries cannot be added to /etc/hosts yet; use DNS instead",
		},
		{
			"runtimeClassName", func(s *spec) []string { return when(s.RuntimeClassName != nil && *s.RuntimeClassName != "") },
			"only the runtime's default handler is supported; leave it out",
		},
		{
			"overhead", func(s *spec) []string { return when(len(s.Overhead) > 0) },
			"it belongs to a RuntimeClass, which is not supported; leave it out",
		},
		{
			"setHostnameAsFQDN", func(s *spec) []string { return when(isTrue(s.SetHostnameAsFQDN)) },
			"the host name is always the short one; leave it out",
		},
		{
			"os", func(s *spec) []string { return when(s.OS != nil && s.OS.Name != corev1.Linux) },
			"the host runs linux",
		},
		{
			"hostUsers", func(s *spec) []string { return when(s.HostUsers != nil && !*s.HostUsers) },
			"user namespaces are not supported; leave it out or set it to true",
		},
		{
			"resourceClaims", func(s *spec) []string { return each(len(s.ResourceClaims)) },
			"devices cannot be allocated on a container host",
		},
		{
			"resources", func(s *spec) []string { return when(s.Resources != nil) },
			"resources of the pod as a whole are not supported; set them on its containers",
		},
	}
}

func podSecurityRules() []rule[corev1.PodSecurityContext] {
	type context = corev1.PodSecurityContext
	return []rule[context]{
		{"seLinuxOptions", func(c *context) []string { return when(c.SELinuxOptions != nil) }, whySELinux},
		{"seLinuxChangePolicy", func(c *context) []string { return when(c.SELinuxChangePolicy != nil) }, whySELinux},
		{"windowsOptions", func(c *context) []string { return when(c.WindowsOptions != nil) }, whyWindows},
		{"supplementalGroupsPolicy", func(c *context) []string {
			return when(c.SupplementalGroupsPolicy != nil && *c.SupplementalGroupsPolicy != corev1.SupplementalGroupsPolicyMerge)
		}, "only Merge is supported: the groups of the image's /etc/group are always added"},
		{"seccompProfile", func(c *context) []string { return localSeccomp(c.SeccompProfile) }, whyLocalhost},
		{"appArmorProfile", func(c *context) []string { return localAppArmor(c.AppArmorProfile) }, whyLocalhost},
	}
}

const (
	whySELinux   = "SELinux labels are not supported; leave them out"
	whyWindows   = "the host runs linux"
	whyLocalhost = "profiles cannot be placed on the host; use RuntimeDefault or Unconfined"
)

func localSeccomp(p *corev1.SeccompProfile) []string {
	return when(p != nil && p.Type == corev1.SeccompProfileTypeLocalhost)
}

func localAppArmor(p *corev1.AppArmorProfile) []string {
	return when(p != nil && p.Type == corev1.AppArmorProfileTypeLocalhost)
}

func containerRules() []rule[corev1.Container] {
	type container = corev1.Container
	return []rule[container]{
		{
			"volumeMounts", func(c *container) []string { return each(len(c.VolumeMounts)) },
			"volumes are not supported on a container host yet; for the service account token set automountServiceAccountToken: false",
		},
		{
			"volumeDevices", func(c *container) []string { return each(len(c.VolumeDevices)) },
			"block devices are not supported on a container host",
		},
		{
			"resources", func(c *container) []string { return unknownResources(c.Resources) },
			"only cpu, memory and ephemeral-storage are known here; devices and huge pages cannot be allocated",
		},
		{
			"resources", func(c *container) []string {
				return at(has(c.Resources.Limits, corev1.ResourceEphemeralStorage), ".limits[ephemeral-storage]")
			},
			"the use of disk is not watched yet; a request without a limit is counted by the scheduler",
		},
		{"lifecycle", func(c *container) []string {
			if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
				return nil
			}
			return []string{".stopSignal"}
		}, "the runtime takes the stop signal from the image; set STOPSIGNAL there"},
	}
}

func has(list corev1.ResourceList, name corev1.ResourceName) bool {
	_, ok := list[name]
	return ok
}

func at(set bool, path string) []string {
	if set {
		return []string{path}
	}
	return nil
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
				if !quantity.IsZero() {
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

func securityRules() []rule[corev1.SecurityContext] {
	type context = corev1.SecurityContext
	return []rule[context]{
		{"seLinuxOptions", func(c *context) []string { return when(c.SELinuxOptions != nil) }, whySELinux},
		{"windowsOptions", func(c *context) []string { return when(c.WindowsOptions != nil) }, whyWindows},
		{"procMount", func(c *context) []string {
			return when(c.ProcMount != nil && *c.ProcMount != corev1.DefaultProcMount)
		}, "only Default is supported: unmasked /proc needs a user namespace"},
		{"seccompProfile", func(c *context) []string { return localSeccomp(c.SeccompProfile) }, whyLocalhost},
		{"appArmorProfile", func(c *context) []string { return localAppArmor(c.AppArmorProfile) }, whyLocalhost},
	}
}
