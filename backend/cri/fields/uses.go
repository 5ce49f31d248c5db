package fields

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// Uses says, by path, what becomes of the fields of a pod on a container host.
// Refused ones may be among them: see Check. docs/fields.md says the same, which a
// test holds it to.
func Uses(pod *corev1.Pod) map[string]string {
	out := map[string]string{}
	add := func(at string, fields map[string]string) {
		for field, how := range fields {
			if how != "" {
				out[at+field] = how
			}
		}
	}
	add("spec.", podTexts)
	add("spec.", podValueTexts(&pod.Spec))
	if sc := pod.Spec.SecurityContext; sc != nil {
		add("spec.securityContext.", podSecurityTexts)
		add("spec.securityContext.", map[string]string{
			"seccompProfile": seccompText(sc.SeccompProfile), "appArmorProfile": podAppArmorText(sc.AppArmorProfile),
		})
	}
	for _, list := range []struct {
		field      string
		containers []corev1.Container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}} {
		for i := range list.containers {
			c := &list.containers[i]
			at := fmt.Sprintf("spec.%s[%d].", list.field, i)
			add(at, containerTexts)
			add(at, containerValueTexts(c, list.field == "initContainers"))
			if sc := c.SecurityContext; sc != nil {
				add(at+"securityContext.", securityTexts)
				add(at+"securityContext.", securityValueTexts(sc))
			}
		}
	}
	return out
}

const (
	textScheduling = "used before the pod reaches the node"
	textSELinux    = "given to the runtime; without effect on a host without SELinux"
	textWindows    = "not looked at: the host runs linux"
	textName       = "a name only: tokens travel in volumes"
)

// podTexts are what becomes of fields of a pod whatever their value.
var podTexts = map[string]string{
	"ephemeralContainers": "started in the running pod, in the process namespace of its target",
	"restartPolicy":       "as the kubelet's, with its backoff", "terminationGracePeriodSeconds": "TERM, then KILL",
	"activeDeadlineSeconds": "the pod fails when it has passed", "readinessGates": "Ready waits for the conditions",
	"imagePullSecrets":   "their logins for the image's registry, in turn",
	"serviceAccountName": textName, "serviceAccount": textName, "automountServiceAccountToken": "no token is mounted",
	"enableServiceLinks":    "unless false, variables for the Services of the namespace",
	"hostNetwork":           "the host's network, unless the configuration forbids it",
	"hostPID":               "the host's processes, unless the configuration forbids it",
	"hostIPC":               "the host's IPC, unless the configuration forbids it",
	"shareProcessNamespace": "one process namespace for the pod",
	"hostname":              "the pod's host name", "hostnameOverride": "the pod's host name",
	"subdomain":         "the pod's domain, in its /etc/hosts too",
	"setHostnameAsFQDN": "the host name with the subdomain and the cluster's domain", "hostAliases": "lines of /etc/hosts",
	"dnsConfig": "added to the policy's", "os": "what runs anyway",
	"runtimeClassName": "its handler, which the host's runtime must have",
	"overhead":         "added to the limits of the pod's cgroup", "resources": "limits of the pod's cgroup",
	"nodeName": textScheduling, "nodeSelector": textScheduling, "affinity": textScheduling, "tolerations": textScheduling,
	"topologySpreadConstraints": textScheduling, "schedulerName": textScheduling, "schedulingGates": textScheduling,
	"schedulingGroup": textScheduling, "priority": textScheduling, "priorityClassName": textScheduling,
	"preemptionPolicy": textScheduling,
}

// podValueTexts are those that depend on the value.
func podValueTexts(s *corev1.PodSpec) map[string]string {
	dns := "`clusterDNS` of the configuration; without it the host's"
	switch s.DNSPolicy {
	case corev1.DNSDefault:
		dns = "the host's resolv.conf"
	case corev1.DNSNone:
		dns = "`dnsConfig` alone"
	default: // ClusterFirst, with the host's network or not
	}
	named := len(s.Volumes) > 1
	var kinds []string
	for i := range s.Volumes {
		text := volumeText(&s.Volumes[i])
		if named && text != "" {
			text = s.Volumes[i].Name + " " + text
		}
		kinds = append(kinds, text)
	}
	users := "the host's users"
	if s.HostUsers != nil && !*s.HostUsers {
		users = "a user namespace with 65536 ids of the host's that no other pod has; refused where the runtime cannot " +
			"(before containerd 2.0 and runc 1.2)"
	}
	return map[string]string{"dnsPolicy": dns, "volumes": several(kinds), "hostUsers": users}
}

// several joins different texts.
func several(texts []string) string {
	var out []string
	for _, t := range texts {
		if t != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return strings.Join(out, "; ")
}

func volumeText(v *corev1.Volume) string {
	switch {
	case v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumMemory:
		return "a tmpfs of that size"
	case v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumDefault:
		return "huge pages of a size that the pod requests"
	case v.EmptyDir != nil:
		return "a directory on the host's disk; a pod that exceeds sizeLimit is evicted"
	case v.HostPath != nil:
		return "a path of the pods' host, unless the configuration forbids it, checked or made as its type says"
	case v.ConfigMap != nil:
		return "files, updated in one step"
	case v.Projected != nil:
		return "files on a tmpfs, updated in one step; tokens are renewed"
	case v.Secret != nil, v.DownwardAPI != nil:
		return "files on a tmpfs, updated in one step"
	case v.PersistentVolumeClaim != nil:
		return "bound to a PersistentVolume of kind local, hostPath or nfs"
	case v.Ephemeral != nil:
		return "as persistentVolumeClaim"
	case v.Image != nil:
		return "the image's files, read-only, with containerd 2.1 or newer (subPath: 2.2); before, the pod is refused"
	case v.NFS != nil:
		return "mounted by the pods' host, which needs mount.nfs (nfs-common)"
	default:
		return ""
	}
}

var podSecurityTexts = map[string]string{
	"runAsUser": "for containers that name none", "runAsGroup": "for containers that name none",
	"runAsNonRoot": "the image's user is looked at where none is set", "supplementalGroups": "groups of the processes",
	"supplementalGroupsPolicy": "with containerd 2.0 or newer; before, the pod is refused",
	"fsGroup":                  "a group of the processes, and the owner of volumes",
	"fsGroupChangePolicy":      "as on a kubelet",
	"sysctls":                  "set in the sandbox; unsafe ones if the configuration allows them",
	"seLinuxOptions":           textSELinux,
	"seLinuxChangePolicy":      "volumes are relabelled file by file", "windowsOptions": textWindows,
}

func seccompText(p *corev1.SeccompProfile) string {
	switch {
	case p == nil:
		return ""
	case p.Type == corev1.SeccompProfileTypeRuntimeDefault:
		return "the runtime's profile"
	case p.Type == corev1.SeccompProfileTypeLocalhost:
		return "a file of the host, below `seccompProfileRoot`"
	default:
		return "no profile"
	}
}

func appArmorText(p *corev1.AppArmorProfile) string {
	switch {
	case p == nil:
		return ""
	case p.Type == corev1.AppArmorProfileTypeRuntimeDefault:
		return "the runtime's profile"
	case p.Type == corev1.AppArmorProfileTypeLocalhost:
		return "a profile that is loaded on the host"
	default:
		return "no profile"
	}
}

func podAppArmorText(p *corev1.AppArmorProfile) string {
	if p != nil && p.Type == corev1.AppArmorProfileTypeRuntimeDefault {
		return appArmorText(p) + "; refused where the host does not enforce AppArmor"
	}
	return appArmorText(p)
}

// containerTexts are what becomes of fields of a container whatever their value.
var containerTexts = map[string]string{
	"name": "the container's name", "image": "pulled by the runtime", "command": "with $(VAR) expanded",
	"args":       "with $(VAR) expanded",
	"workingDir": "the working directory", "resizePolicy": "a resize in place, or a restart, as it says",
	"envFrom": "the values at the container's start", "stdin": "open for kubectl attach",
	"stdinOnce": "closed when the first who attached leaves", "tty": "a terminal",
	"restartPolicy": "of this container, before the pod's", "terminationMessagePath": "a file is mounted there",
}

// containerValueTexts are those that depend on the value.
func containerValueTexts(c *corev1.Container, init bool) map[string]string {
	out := map[string]string{
		"imagePullPolicy": pullText(c.ImagePullPolicy), "ports": portsText(c.Ports), "resources": resourcesText(c.Resources),
		"volumeMounts": mountsText(c.VolumeMounts), "env": envText(c.Env),
		"terminationMessagePolicy": messageText(c.TerminationMessagePolicy),
		"startupProbe":             probeText(c.StartupProbe, "; the other probes wait for it"),
		"livenessProbe":            probeText(c.LivenessProbe, "; a failure restarts the container"),
		"readinessProbe":           probeText(c.ReadinessProbe, "; it makes the container ready"),
		"lifecycle":                lifecycleText(c.Lifecycle),
	}
	if init && backend.IsSidecar(c) {
		out["restartPolicy"] = "started in order, restarted whenever it ends, ended after the app containers"
	}
	if len(c.RestartPolicyRules) > 0 {
		out["restartPolicyRules"] = "by exit code, before the policy"
		if restartsAll(c.RestartPolicyRules) {
			out["restartPolicyRules"] = "all init and app containers end at once and start anew, in the same sandbox"
		}
	}
	return out
}

func restartsAll(rules []corev1.ContainerRestartRule) bool {
	return slices.ContainsFunc(rules, func(r corev1.ContainerRestartRule) bool {
		return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
	})
}

func pullText(p corev1.PullPolicy) string {
	switch p {
	case corev1.PullAlways:
		return "pulled at every start"
	case corev1.PullNever:
		return "must be there"
	default:
		return "pulled when missing"
	}
}

func portsText(ports []corev1.ContainerPort) string {
	var out []string
	for _, p := range ports {
		text := "for information: every port can be reached"
		if p.HostPort > 0 {
			text = "by the network plugin (portmap), unless the configuration forbids it"
		}
		out = append(out, text)
	}
	return several(out)
}

func resourcesText(r corev1.ResourceRequirements) string {
	all := map[corev1.ResourceName]bool{}
	for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
		for name := range list {
			all[name] = true
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch name {
		case corev1.ResourceCPU, corev1.ResourceMemory:
			out = append(out, "cgroup")
		case corev1.ResourceEphemeralStorage:
			out = append(out, "a pod that exceeds it is evicted")
		default:
			if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
				out = append(out, "cgroup, of what the host has set aside")
			}
		}
	}
	return several(out)
}

func mountsText(mounts []corev1.VolumeMount) string {
	var out []string
	for i := range mounts {
		switch m := &mounts[i]; {
		case m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone:
			out = append(out, "mounted so")
		case m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled:
			out = append(
				out,
				"mounts below it are read-only too, with containerd 2.0 or newer; before, the container waits with "+
					"CreateContainerConfigError",
			)
		case m.SubPath != "" || m.SubPathExpr != "":
			out = append(out, "mounted")
		default:
			out = append(out, "mounted, with subPath and propagation")
		}
	}
	if len(out) > 1 {
		return "mounted"
	}
	return several(out)
}

func envText(env []corev1.EnvVar) string {
	var out []string
	for _, e := range env {
		switch from := e.ValueFrom; {
		case from == nil:
			out = append(out, "with $(VAR) expanded")
		case from.ConfigMapKeyRef != nil, from.SecretKeyRef != nil:
			out = append(out, "the value at the container's start")
		case from.ResourceFieldRef != nil:
			out = append(out, "the container's, or what the node can allocate")
		case from.FileKeyRef != nil:
			out = append(out, "the value of the file at the container's start")
		case from.FieldRef == nil:
		case strings.HasPrefix(from.FieldRef.FieldPath, "status.podIP"):
			out = append(out, "the pod's address")
		case strings.HasPrefix(from.FieldRef.FieldPath, "status.hostIP"):
			out = append(out, "the host's address")
		default:
			out = append(out, "the pod's")
		}
	}
	return several(out)
}

func messageText(p corev1.TerminationMessagePolicy) string {
	if p == corev1.TerminationMessageFallbackToLogsOnError {
		return "the file's, or after a failure without one the log's last 80 lines, at most 2 KiB"
	}
	return "the last 4 KiB of the file"
}

func probeText(p *corev1.Probe, then string) string {
	switch {
	case p == nil:
		return ""
	case p.Exec != nil:
		return "run in the container" + then
	case p.TCPSocket != nil:
		return "connected to from the host" + then
	default:
		return "asked from the host" + then
	}
}

func lifecycleText(l *corev1.Lifecycle) string {
	if l == nil {
		return ""
	}
	return several([]string{
		hookText(l.PostStart, "; a failure kills the container", "the next container waits"),
		hookText(l.PreStop, ", within the grace, before TERM", "waited for, within the grace, before TERM"),
	})
}

func hookText(h *corev1.LifecycleHandler, then, sleep string) string {
	switch {
	case h == nil:
		return ""
	case h.Sleep != nil:
		return sleep
	case h.Exec != nil:
		return "run in the container" + then
	case h.TCPSocket != nil:
		return "connected to from the host" + then
	default:
		return "asked from the host" + then
	}
}

var securityTexts = map[string]string{
	"runAsUser": "the user", "runAsGroup": "the group", "readOnlyRootFilesystem": "read-only",
	"allowPrivilegeEscalation": "no_new_privs",
	"privileged":               "privileged, unless the configuration forbids it", "seLinuxOptions": textSELinux,
	"windowsOptions": textWindows,
}

func addedText(caps []corev1.Capability) string {
	if slices.ContainsFunc(caps, beyondBaseline) {
		return "added, unless the configuration forbids it"
	}
	return "added"
}

func securityValueTexts(sc *corev1.SecurityContext) map[string]string {
	out := map[string]string{
		"seccompProfile": seccompText(sc.SeccompProfile), "appArmorProfile": appArmorText(sc.AppArmorProfile),
		"runAsNonRoot": "the user must not be 0", "procMount": "masked",
	}
	if sc.RunAsUser == nil {
		out["runAsNonRoot"] = "the image's user must not be root"
	}
	if sc.ProcMount != nil && *sc.ProcMount == corev1.UnmaskedProcMount {
		out["procMount"] = "unmasked; Kubernetes wants hostUsers: false beside it"
	}
	if c := sc.Capabilities; c != nil {
		var words []string
		if len(c.Add) > 0 {
			words = append(words, addedText(c.Add))
		}
		if len(c.Drop) > 0 {
			words = append(words, "dropped")
		}
		out["capabilities"] = strings.Join(words, ", ")
	}
	return out
}
