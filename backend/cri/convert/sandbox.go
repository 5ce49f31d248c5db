package convert

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
)

const (
	// hostnameMax is the longest label of a name, fqdnMax the kernel's limit.
	hostnameMax = 63
	fqdnMax     = 64
)

// Sandbox describes attempt of the pod to the runtime, all but its DNS. It is the same at
// every call: CreateContainer wants it again.
func (n Converter) Sandbox(pod *corev1.Pod, attempt int, driver string) (*runtimeapi.PodSandboxConfig, error) {
	name, err := hostname(pod, n.cfg.ClusterDomain)
	if err != nil {
		return nil, err
	}
	parent := cgroupParent(driver, n.cfg.CgroupParent, pod)
	annotations := podAnnotations(pod)
	annotations[AnnotationCgroup] = parent
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: uint32(attempt),
		},
		Hostname:     name,
		LogDirectory: n.LogDir(backend.Ref{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}),
		PortMappings: portMappings(pod),
		Labels:       n.podLabels(pod),
		Annotations:  annotations,
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    parent,
			SecurityContext: sandboxSecurity(pod),
			Sysctls:         sysctls(pod),
			Resources:       Resources(podResources(pod)),
			Overhead:        overhead(pod),
		},
	}, nil
}

// hostname is empty on the host's network: the pod then has the host's. Errors:
// Invalid for a full name that the kernel has no room for; the words are the
// kubelet's.
func hostname(pod *corev1.Pod, domain string) (string, error) {
	if pod.Spec.HostNetwork {
		return "", nil
	}
	full := fqdn(pod, domain)
	if !isTrue(pod.Spec.SetHostnameAsFQDN) || full == "" {
		return shortName(pod), nil
	}
	if len(full) > fqdnMax {
		return "", backend.Errorf(backend.ErrInvalid, "failed to construct FQDN from pod hostname and cluster domain, "+
			"FQDN %s is too long "+
			"(64 characters is the max, %d characters requested)", full, len(full))
	}
	return full, nil
}

// shortName is the pod's host name without its domain.
func shortName(pod *corev1.Pod) string {
	name := pod.Name
	if pod.Spec.Hostname != "" {
		name = pod.Spec.Hostname
	}
	if o := pod.Spec.HostnameOverride; o != nil {
		name = *o
	}
	if len(name) > hostnameMax {
		name = strings.TrimRight(name[:hostnameMax], "-.")
	}
	return name
}

// fqdn is the pod's full name below its subdomain; empty without one.
func fqdn(pod *corev1.Pod, domain string) string {
	if pod.Spec.Subdomain == "" || pod.Spec.HostnameOverride != nil {
		return ""
	}
	return strings.TrimSuffix(
		shortName(pod)+"."+pod.Spec.Subdomain+"."+pod.Namespace+".svc."+strings.TrimSuffix(domain, "."), ".",
	)
}

// portMappings are the ports of the host that lead to the pod; the network
// plugin makes them.
func portMappings(pod *corev1.Pod) []*runtimeapi.PortMapping {
	if pod.Spec.HostNetwork {
		return nil
	}
	var out []*runtimeapi.PortMapping
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			out = append(out, &runtimeapi.PortMapping{
				Protocol: protocol(p.Protocol), ContainerPort: p.ContainerPort, HostPort: p.HostPort, HostIp: p.HostIP,
			})
		}
	}
	return out
}

func protocol(p corev1.Protocol) runtimeapi.Protocol {
	switch p {
	case corev1.ProtocolUDP:
		return runtimeapi.Protocol_UDP
	case corev1.ProtocolSCTP:
		return runtimeapi.Protocol_SCTP
	default:
		return runtimeapi.Protocol_TCP
	}
}

// overhead is what the pod's RuntimeClass takes for itself.
func overhead(pod *corev1.Pod) *runtimeapi.LinuxContainerResources {
	if len(pod.Spec.Overhead) == 0 {
		return nil
	}
	return Resources(corev1.ResourceRequirements{Requests: pod.Spec.Overhead, Limits: pod.Spec.Overhead})
}

// sandboxSecurity is the security context of the sandbox's own process, which
// the kubelet always runs under the runtime's seccomp profile.
func sandboxSecurity(pod *corev1.Pod) *runtimeapi.LinuxSandboxSecurityContext {
	sc := &runtimeapi.LinuxSandboxSecurityContext{
		Privileged:         hasPrivileged(pod),
		NamespaceOptions:   namespaces(pod),
		SupplementalGroups: groups(pod),
		SelinuxOptions:     podSELinux(pod),
		Seccomp:            &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
	}
	if p := pod.Spec.SecurityContext; p != nil && p.RunAsUser != nil {
		sc.RunAsUser = int64Value(p.RunAsUser)
		// A group without a user is an error to the runtime.
		sc.RunAsGroup = int64Value(p.RunAsGroup)
	}
	return sc
}

func sysctls(pod *corev1.Pod) map[string]string {
	out := map[string]string{}
	if p := pod.Spec.SecurityContext; p != nil {
		for _, s := range p.Sysctls {
			out[s.Name] = s.Value
		}
	}
	return out
}

// LogDir is the directory of the pod's logs, shared by all its attempts.
func (n Converter) LogDir(ref backend.Ref) string {
	return path.Join(n.cfg.PodLogsDir, strings.Join([]string{ref.Namespace, ref.Name, string(ref.UID)}, "_"))
}
