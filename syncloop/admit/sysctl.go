package admit

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/node/util/sysctl"
)

// safeSysctls are isolated in the pod and harm no other (kubelet:
// safe_sysctls.go), each with the kernel that first isolated it.
var safeSysctls = map[string]string{
	"kernel.shm_rmid_forced":              "",
	"net.ipv4.ip_local_port_range":        "",
	"net.ipv4.tcp_syncookies":             "",
	"net.ipv4.ping_group_range":           "",
	"net.ipv4.ip_unprivileged_port_start": "",
	"net.ipv4.ip_local_reserved_ports":    "3.16",
	"net.ipv4.tcp_keepalive_time":         "4.5",
	"net.ipv4.tcp_keepalive_intvl":        "4.5",
	"net.ipv4.tcp_keepalive_probes":       "4.5",
	"net.ipv4.tcp_fin_timeout":            "4.6",
	"net.ipv4.tcp_rmem":                   "4.15",
	"net.ipv4.tcp_wmem":                   "4.15",
}

// sysctlPattern is what the kubelet's allowedUnsafeSysctls may hold.
var sysctlPattern = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]$`)

const sysctlMax = 253

// CheckSysctls says what is wrong with a configured list of unsafe sysctls that
// pods may set: each must be a name or a prefix with "*", of a kind that the
// kernel keeps apart for pods.
func CheckSysctls(patterns []string) error {
	for _, p := range patterns {
		if len(p) > sysctlMax || !sysctlPattern.MatchString(p) {
			return fmt.Errorf("sysctl %q must have at most %d characters and match regex %s", p, sysctlMax, sysctlPattern)
		}
		if ns, name, _ := sysctl.GetNamespace(p); ns == sysctl.UnknownNamespace {
			return fmt.Errorf("the sysctls %q are not known to be namespaced", name)
		}
	}
	return nil
}

// sysctls rejects those that are neither safe nor allowed, and those that would
// change the host because the pod shares its namespace.
func sysctls(pod *corev1.Pod, node *Node) *Rejection {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		name := sysctl.NormalizeName(s.Name)
		ns, allowed := allowedSysctl(name, node)
		switch {
		case !allowed:
			return forbidden("%q not allowlisted", name)
		case ns == sysctl.IPCNamespace && pod.Spec.HostIPC, ns == sysctl.NetNamespace && pod.Spec.HostNetwork:
			return forbidden("%q not allowed with host %s enabled", name, ns)
		}
	}
	return nil
}

func forbidden(format string, args ...any) *Rejection {
	return &Rejection{ReasonSysctlForbidden, "forbidden sysctl: " + fmt.Sprintf(format, args...)}
}

// allowedSysctl returns the namespace of a sysctl that pods may set.
func allowedSysctl(name string, node *Node) (sysctl.Namespace, bool) {
	if since, ok := safeSysctls[name]; ok && node.OS == string(corev1.Linux) && kernelHas(node.Kernel, since) {
		ns, _, _ := sysctl.GetNamespace(name)
		return ns, true
	}
	for _, p := range node.AllowedUnsafeSysctls {
		ns, prefix, prefixed := sysctl.GetNamespace(p)
		if ns != sysctl.UnknownNamespace && (name == prefix || prefixed && strings.HasPrefix(name, prefix)) {
			return ns, true
		}
	}
	return sysctl.UnknownNamespace, false
}

// kernelHas compares versions; an unknown kernel has nothing that came later.
func kernelHas(kernel, since string) bool {
	if since == "" {
		return true
	}
	have, err := version.ParseGeneric(kernel)
	return err == nil && have.AtLeast(version.MustParseGeneric(since))
}
