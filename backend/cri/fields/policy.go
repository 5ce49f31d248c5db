package fields

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/criconfig"
)

// baselineCapabilities are those that Pod Security's level Baseline lets containers
// add (Kubernetes: pod-security-admission/policy, check_capabilities_baseline.go).
var baselineCapabilities = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
	"SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

// Forbidden says what of a pod the node's configuration forbids: pods.privileged and
// pods.hostPaths. What pods do with the host's namespaces and ports the engine judges.
func Forbidden(pod *corev1.Pod, cfg criconfig.Config) []backend.Refusal {
	out := forbiddenVolumes(pod, cfg)
	eachContainer(pod, func(at string, c *corev1.Container) {
		out = append(out, ForbiddenIn(pod, at, c, cfg)...)
	})
	return out
}

// ForbiddenIn is what it forbids of a container, which stands at a path of the pod, and
// of the volumes that the container mounts.
func ForbiddenIn(pod *corev1.Pod, at string, c *corev1.Container, cfg criconfig.Config) []backend.Refusal {
	var out []backend.Refusal
	if cfg.Unprivileged {
		out = apply(out, at+".securityContext", c.SecurityContext, privilegeRules(pod.Spec.HostUsers != nil &&
			!*pod.Spec.HostUsers))
	}
	if cfg.HostPaths == nil {
		return out
	}
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		source := hostPathOf(pod, m.Name)
		if source == "" {
			continue
		}
		at := fmt.Sprintf("%s.volumeMounts[%d]", at, i)
		allowed, ok := cfg.AllowedHostPath(source, !m.ReadOnly)
		switch propagates := m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone; {
		case ok && propagates && !allowed.Whole(source):
			out = append(out, backend.Refusal{
				Field: at + ".mountPropagation",
				Why: fmt.Sprintf("is kept from paths below one of pods.hostPaths in the node's configuration: leave it out, "+
					"or have %s itself listed there", source),
			})
		case ok:
		case !readable(cfg, source): // the volume is refused
		default:
			out = append(out, backend.Refusal{
				Field: at + ".readOnly",
				Why:   fmt.Sprintf("pods.hostPaths in the node's configuration lets pods only read %s: set it to true", source),
			})
		}
	}
	return out
}

// hostPathOf is the path of a hostPath volume of the pod; empty: the volume is none.
func hostPathOf(pod *corev1.Pod, volume string) string {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == volume && v.HostPath != nil {
			return path.Clean(v.HostPath.Path)
		}
	}
	return ""
}

func readable(cfg criconfig.Config, p string) bool {
	_, ok := cfg.AllowedHostPath(p, false)
	return ok
}

func forbiddenVolumes(pod *corev1.Pod, cfg criconfig.Config) []backend.Refusal {
	if cfg.HostPaths == nil {
		return nil
	}
	var out []backend.Refusal
	for i := range pod.Spec.Volumes {
		h := pod.Spec.Volumes[i].HostPath
		if h == nil || readable(cfg, h.Path) {
			continue
		}
		out = append(
			out, backend.Refusal{Field: fmt.Sprintf("spec.volumes[%d].hostPath.path", i), Why: NotAllowed(h.Path, cfg)},
		)
	}
	return out
}

// NotAllowed says why a path of the host cannot be mounted.
func NotAllowed(p string, cfg criconfig.Config) string {
	if len(cfg.HostPaths) == 0 {
		return "pods of this node may not mount paths of the host (pods.hostPaths of its configuration is empty); use " +
			"another volume"
	}
	prefixes := make([]string, len(cfg.HostPaths))
	for i, h := range cfg.HostPaths {
		prefixes[i] = h.PathPrefix
	}
	return fmt.Sprintf("pods of this node may not mount %s, only what pods.hostPaths of its configuration lists (%s)",
		p, strings.Join(prefixes, ", "))
}

// privilegeRules refuse privileged containers and what amounts to one: capabilities
// beyond Pod Security's Baseline, and a /proc without its masks unless the pod has users
// of its own (Kubernetes: pod-security-admission/policy, check_procMount.go).
func privilegeRules(ownUsers bool) []rule[corev1.SecurityContext] {
	type security = corev1.SecurityContext
	const why = "pods.privileged of the node's configuration is false"
	return []rule[security]{
		{
			"privileged", func(s *security) []string { return when(s.Privileged != nil && *s.Privileged) },
			why + ": leave it out, or name the capabilities that the container needs",
		},
		{"capabilities", addedBeyond, why + ": containers may add only " + strings.Join(baselineCapabilities, ", ")},
		{
			"procMount", func(s *security) []string {
				return when(!ownUsers && s.ProcMount != nil && *s.ProcMount != corev1.DefaultProcMount)
			},
			why + ": leave it out, or set hostUsers of the pod to false",
		},
	}
}

// beyondBaseline judges a capability as the runtime takes it (cri: names).
func beyondBaseline(name corev1.Capability) bool {
	return !slices.Contains(baselineCapabilities, strings.ToUpper(strings.TrimPrefix(string(name), "CAP_")))
}

// addedBeyond names each capability that containers may not add.
func addedBeyond(s *corev1.SecurityContext) []string {
	if s.Capabilities == nil {
		return nil
	}
	var out []string
	for i, name := range s.Capabilities.Add {
		if beyondBaseline(name) {
			out = append(out, fmt.Sprintf(".add[%d]", i))
		}
	}
	return out
}
