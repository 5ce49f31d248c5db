package convert

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend/cri/criconfig"
)

// maskedPaths and readonlyPaths are what every container gets unless it is
// privileged (pkg/securitycontext, kept in step with moby's defaults).
func maskedPaths() []string {
	return []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys",
		"/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug",
		"/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
}

func readonlyPaths() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}

// EffectiveSecurity is the container's security context with what it leaves
// open taken from the pod's.
func EffectiveSecurity(pod *corev1.Pod, c *corev1.Container) corev1.SecurityContext {
	var sc corev1.SecurityContext
	if c.SecurityContext != nil {
		sc = *c.SecurityContext
	}
	if p := pod.Spec.SecurityContext; p != nil {
		sc.RunAsUser = firstSet(sc.RunAsUser, p.RunAsUser)
		sc.RunAsGroup = firstSet(sc.RunAsGroup, p.RunAsGroup)
		sc.SELinuxOptions = firstSet(sc.SELinuxOptions, p.SELinuxOptions)
		sc.RunAsNonRoot = firstSet(sc.RunAsNonRoot, p.RunAsNonRoot)
		sc.SeccompProfile = firstSet(sc.SeccompProfile, p.SeccompProfile)
		sc.AppArmorProfile = firstSet(sc.AppArmorProfile, p.AppArmorProfile)
	}
	return sc
}

func firstSet[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

func isTrue(b *bool) bool { return b != nil && *b }

// containerSecurity is the container's security context for the runtime. user is
// the image's, used where the pod names none.
func containerSecurity(
	pod *corev1.Pod, c *corev1.Container, user ImageUser, cfg criconfig.Config,
) *runtimeapi.LinuxContainerSecurityContext {
	sc := EffectiveSecurity(pod, c)
	out := &runtimeapi.LinuxContainerSecurityContext{
		Privileged:         isTrue(sc.Privileged),
		ReadonlyRootfs:     isTrue(sc.ReadOnlyRootFilesystem),
		NoNewPrivs:         sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
		NamespaceOptions:   namespaces(pod),
		SupplementalGroups: groups(pod),
		Seccomp:            seccomp(sc.SeccompProfile, cfg),
		Apparmor:           appArmor(sc.AppArmorProfile),
		SelinuxOptions:     seLinux(sc.SELinuxOptions),
		RunAsUser:          int64Value(sc.RunAsUser),
		RunAsGroup:         int64Value(sc.RunAsGroup),

		SupplementalGroupsPolicy: GroupsPolicy(pod),
	}
	if sc.Capabilities != nil {
		out.Capabilities = &runtimeapi.Capability{
			AddCapabilities:  names(sc.Capabilities.Add),
			DropCapabilities: names(sc.Capabilities.Drop),
		}
	}
	if sc.RunAsUser == nil {
		out.RunAsUser = int64Value(user.UID)
		out.RunAsUsername = user.Name
	}
	if sc.ProcMount == nil || *sc.ProcMount != corev1.UnmaskedProcMount {
		out.MaskedPaths, out.ReadonlyPaths = maskedPaths(), readonlyPaths()
	}
	return out
}

func int64Value(v *int64) *runtimeapi.Int64Value {
	if v == nil {
		return nil
	}
	return &runtimeapi.Int64Value{Value: *v}
}

func names(caps []corev1.Capability) []string {
	out := make([]string, len(caps))
	for i, c := range caps {
		// The runtime wants names without the prefix that people write.
		out[i] = strings.TrimPrefix(string(c), "CAP_")
	}
	return out
}

func namespaces(pod *corev1.Pod) *runtimeapi.NamespaceOption {
	mode := func(host bool, otherwise runtimeapi.NamespaceMode) runtimeapi.NamespaceMode {
		if host {
			return runtimeapi.NamespaceMode_NODE
		}
		return otherwise
	}
	pid := runtimeapi.NamespaceMode_CONTAINER
	if isTrue(pod.Spec.ShareProcessNamespace) {
		pid = runtimeapi.NamespaceMode_POD
	}
	return &runtimeapi.NamespaceOption{
		Network: mode(pod.Spec.HostNetwork, runtimeapi.NamespaceMode_POD),
		Ipc:     mode(pod.Spec.HostIPC, runtimeapi.NamespaceMode_POD),
		Pid:     mode(pod.Spec.HostPID, pid),
		// The host gives it its ids: see setUsers.
		UsernsOptions: userNamespace(pod),
	}
}

func groups(pod *corev1.Pod) []int64 {
	p := pod.Spec.SecurityContext
	if p == nil {
		return nil
	}
	var out []int64
	if p.FSGroup != nil {
		out = append(out, *p.FSGroup)
	}
	return append(out, p.SupplementalGroups...)
}

// seccomp without a profile is unconfined, the kubelet's default, or confined as by its seccompDefault.
func seccomp(p *corev1.SeccompProfile, cfg criconfig.Config) *runtimeapi.SecurityProfile {
	switch {
	case p == nil && !cfg.SeccompDefault:
	case p == nil, p.Type == corev1.SeccompProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	case p.Type == corev1.SeccompProfileTypeLocalhost && p.LocalhostProfile != nil:
		return &runtimeapi.SecurityProfile{
			ProfileType:  runtimeapi.SecurityProfile_Localhost,
			LocalhostRef: path.Join(cfg.SeccompProfileRoot, *p.LocalhostProfile),
		}
	}
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
}

// appArmor without a profile leaves the choice to the runtime.
func appArmor(p *corev1.AppArmorProfile) *runtimeapi.SecurityProfile {
	switch {
	case p == nil:
		return nil
	case p.Type == corev1.AppArmorProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
	case p.Type == corev1.AppArmorProfileTypeLocalhost && p.LocalhostProfile != nil:
		return &runtimeapi.SecurityProfile{
			ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: *p.LocalhostProfile,
		}
	default:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	}
}

func podSELinux(pod *corev1.Pod) *runtimeapi.SELinuxOption {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return seLinux(pod.Spec.SecurityContext.SELinuxOptions)
}

func seLinux(o *corev1.SELinuxOptions) *runtimeapi.SELinuxOption {
	if o == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

// GroupsPolicy says whether the groups of the image's /etc/group are added.
func GroupsPolicy(pod *corev1.Pod) runtimeapi.SupplementalGroupsPolicy {
	p := pod.Spec.SecurityContext
	if p != nil && p.SupplementalGroupsPolicy != nil &&
		*p.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyStrict {
		return runtimeapi.SupplementalGroupsPolicy_Strict
	}
	return runtimeapi.SupplementalGroupsPolicy_Merge
}

func hasPrivileged(pod *corev1.Pod) bool {
	privileged := func(c corev1.Container) bool {
		return c.SecurityContext != nil && isTrue(c.SecurityContext.Privileged)
	}
	return slices.ContainsFunc(pod.Spec.Containers, privileged) || slices.ContainsFunc(pod.Spec.InitContainers, privileged)
}

// ImageUser is the user that an image says it runs as: a number, a name, or
// neither, which is root.
type ImageUser struct {
	UID  *int64
	Name string
}

// NeedsImageUser is true when the pod's own security context does not settle
// the user: a group needs one beside it, and runAsNonRoot has to know.
func NeedsImageUser(sc corev1.SecurityContext) bool {
	return sc.RunAsUser == nil && (isTrue(sc.RunAsNonRoot) || sc.RunAsGroup != nil)
}

// VerifyNonRoot holds runAsNonRoot against the user that the container would
// run as. The texts are the kubelet's, but for the pod and the container.
func VerifyNonRoot(sc corev1.SecurityContext, user ImageUser) error {
	switch {
	case !isTrue(sc.RunAsNonRoot):
		return nil
	case sc.RunAsUser != nil && *sc.RunAsUser == 0:
		return fmt.Errorf("container's runAsUser breaks non-root policy")
	case sc.RunAsUser != nil:
		return nil
	case user.Name != "":
		return fmt.Errorf(
			"container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root", user.Name,
		)
	case user.UID == nil || *user.UID == 0:
		return fmt.Errorf("container has runAsNonRoot and image will run as root")
	default:
		return nil
	}
}

// AppArmorField is the first that asks for a profile; empty for none.
func AppArmorField(pod *corev1.Pod) string {
	asks := func(p *corev1.AppArmorProfile) bool {
		return p != nil && p.Type != corev1.AppArmorProfileTypeUnconfined
	}
	if sc := pod.Spec.SecurityContext; sc != nil && asks(sc.AppArmorProfile) {
		return "spec.securityContext.appArmorProfile"
	}
	for _, list := range []struct {
		name       string
		containers []corev1.Container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}} {
		for i := range list.containers {
			if sc := list.containers[i].SecurityContext; sc != nil && asks(sc.AppArmorProfile) {
				return fmt.Sprintf("spec.%s[%d].securityContext.appArmorProfile", list.name, i)
			}
		}
	}
	return ""
}
