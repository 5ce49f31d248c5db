package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// What stands in many cells.
const (
	scheduling = "used before the pod reaches the node"
	no         = ""
)

func ptr[T any](v T) *T { return &v }

type fieldSection struct {
	title string
	rows  []fieldRow
}

func fieldSections() []fieldSection {
	return []fieldSection{
		{"What runs", podRunRows()},
		{"Where and with what", podPlaceRows()},
		{"The pod's security context", podSecurityRows()},
		{"A container", containerRows()},
		{"A container's health and end", containerLifeRows()},
		{"A container's security context", securityRows()},
	}
}

// spec makes a setter of one that changes the spec.
func spec(set func(*corev1.PodSpec)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { set(&pod.Spec) }
}

// container makes a setter of one that changes the only container.
func container(set func(*corev1.Container)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { set(&pod.Spec.Containers[0]) }
}

func podSecurity(context corev1.PodSecurityContext) func(*corev1.Pod) {
	return spec(func(s *corev1.PodSpec) { s.SecurityContext = &context })
}

func security(context corev1.SecurityContext) func(*corev1.Pod) {
	return container(func(c *corev1.Container) { c.SecurityContext = &context })
}

func podRunRows() []fieldRow {
	return []fieldRow{
		{"containers[]", "one", spec(func(*corev1.PodSpec) {}), "a container each", "the one app container of a task"},
		{"containers[]", "two", spec(func(s *corev1.PodSpec) {
			s.Containers = append(s.Containers, corev1.Container{Name: "d", Image: "i"})
		}), "a container each", no},
		{"initContainers[]", "one", spec(func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{Name: "i", Image: "i"}}
		}), "one after the other, each until it ends with 0", "one after the other (dependsOn SUCCESS)"},
		{"initContainers[].restartPolicy", "Always (a sidecar)", spec(func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{Name: "i", Image: "i", RestartPolicy: ptr(corev1.ContainerRestartPolicyAlways)}}
		}), no, no},
		{"ephemeralContainers", "one", spec(func(s *corev1.PodSpec) {
			s.EphemeralContainers = []corev1.EphemeralContainer{{}}
		}), no, no},
		{
			"restartPolicy", "any", spec(func(s *corev1.PodSpec) { s.RestartPolicy = corev1.RestartPolicyOnFailure }),
			"as the kubelet's, with its backoff", "as the kubelet's; a restart is a new task",
		},
		{
			"terminationGracePeriodSeconds", "30", spec(func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = ptr(int64(30)) }),
			"TERM, then KILL", "stopTimeout of the task, which cannot be shortened later",
		},
		{
			"terminationGracePeriodSeconds", "300", spec(func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = ptr(int64(300)) }),
			"TERM, then KILL", no,
		},
		{
			"activeDeadlineSeconds", "any", spec(func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = ptr(int64(9)) }),
			"the pod fails when it has passed", "the pod fails when it has passed",
		},
		{"readinessGates", "any", spec(func(s *corev1.PodSpec) {
			s.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x"}}
		}), "Ready waits for the conditions", "Ready waits for the conditions"},
		{"volumes", "one", spec(func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{{Name: "v"}} }), no, no},
		{"imagePullSecrets", "one", spec(func(s *corev1.PodSpec) {
			s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}}
		}), no, no},
		{
			"serviceAccountName", "any", spec(func(s *corev1.PodSpec) { s.ServiceAccountName = "a" }),
			"a name only: tokens travel in volumes", "a name only: tokens travel in volumes",
		},
		{
			"serviceAccount", "any", spec(func(s *corev1.PodSpec) { s.DeprecatedServiceAccount = "a" }),
			"a name only: tokens travel in volumes", "a name only: tokens travel in volumes",
		},
		{
			"automountServiceAccountToken", "false", spec(func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = ptr(false) }),
			"needed today: with a token the API server adds a volume", "needed today: with a token the API server adds a volume",
		},
		{
			"enableServiceLinks", "any", spec(func(s *corev1.PodSpec) { s.EnableServiceLinks = ptr(true) }),
			"without effect: variables of Services are not set yet", "without effect: variables of Services are not set yet",
		},
	}
}

func podPlaceRows() []fieldRow {
	rows := []fieldRow{
		{"hostNetwork", "true", spec(func(s *corev1.PodSpec) { s.HostNetwork = true }), "the host's network", no},
		{"hostPID", "true", spec(func(s *corev1.PodSpec) { s.HostPID = true }), "the host's processes", no},
		{"hostIPC", "true", spec(func(s *corev1.PodSpec) { s.HostIPC = true }), "the host's IPC", no},
		{"hostUsers", "false", spec(func(s *corev1.PodSpec) { s.HostUsers = ptr(false) }), no, no},
		{
			"shareProcessNamespace", "true", spec(func(s *corev1.PodSpec) { s.ShareProcessNamespace = ptr(true) }),
			"one process namespace for the pod", "pidMode task",
		},
		{"hostname", "any", spec(func(s *corev1.PodSpec) { s.Hostname = "h" }), "the pod's host name", no},
		{"hostnameOverride", "any", spec(func(s *corev1.PodSpec) { s.HostnameOverride = ptr("h") }), "the pod's host name", no},
		{
			"subdomain", "any", spec(func(s *corev1.PodSpec) { s.Subdomain = "d" }),
			"without effect in the pod: /etc/hosts is not written yet", no,
		},
		{"setHostnameAsFQDN", "true", spec(func(s *corev1.PodSpec) { s.SetHostnameAsFQDN = ptr(true) }), no, no},
		{"hostAliases", "one", spec(func(s *corev1.PodSpec) { s.HostAliases = []corev1.HostAlias{{IP: "192.0.2.1"}} }), no, no},
		{
			"dnsPolicy", "ClusterFirst", spec(func(s *corev1.PodSpec) { s.DNSPolicy = corev1.DNSClusterFirst }),
			"`clusterDNS` of the configuration; without it the host's", "the VPC's resolver: names of Services are not found",
		},
		{"dnsPolicy", "Default", spec(func(s *corev1.PodSpec) { s.DNSPolicy = corev1.DNSDefault }), "the host's resolv.conf", "the VPC's resolver"},
		{"dnsPolicy", "None", spec(func(s *corev1.PodSpec) { s.DNSPolicy = corev1.DNSNone }), "`dnsConfig` alone", no},
		{"dnsConfig", "any", spec(func(s *corev1.PodSpec) { s.DNSConfig = &corev1.PodDNSConfig{} }), "added to the policy's", no},
		{"os", "linux", spec(func(s *corev1.PodSpec) { s.OS = &corev1.PodOS{Name: corev1.Linux} }), "what runs anyway", "what runs anyway"},
		{"os", "windows", spec(func(s *corev1.PodSpec) { s.OS = &corev1.PodOS{Name: corev1.Windows} }), no, no},
		{"runtimeClassName", "any", spec(func(s *corev1.PodSpec) { s.RuntimeClassName = ptr("r") }), no, no},
		{"overhead", "any", spec(func(s *corev1.PodSpec) {
			s.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		}), no, "added to the task's size"},
		{"resources", "any", spec(func(s *corev1.PodSpec) { s.Resources = &corev1.ResourceRequirements{} }), no, no},
		{"resourceClaims", "one", spec(func(s *corev1.PodSpec) { s.ResourceClaims = []corev1.PodResourceClaim{{Name: "r"}} }), no, no},
	}
	for _, row := range []struct {
		field string
		set   func(*corev1.PodSpec)
	}{
		{"nodeName", func(s *corev1.PodSpec) { s.NodeName = "n" }},
		{"nodeSelector", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"a": "b"} }},
		{"affinity", func(s *corev1.PodSpec) { s.Affinity = &corev1.Affinity{} }},
		{"tolerations", func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{{}} }},
		{"topologySpreadConstraints", func(s *corev1.PodSpec) {
			s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{}}
		}},
		{"schedulerName", func(s *corev1.PodSpec) { s.SchedulerName = "s" }},
		{"schedulingGates", func(s *corev1.PodSpec) { s.SchedulingGates = []corev1.PodSchedulingGate{{}} }},
		{"schedulingGroup", func(s *corev1.PodSpec) { s.SchedulingGroup = &corev1.PodSchedulingGroup{} }},
		{"priority", func(s *corev1.PodSpec) { s.Priority = ptr(int32(1)) }},
		{"priorityClassName", func(s *corev1.PodSpec) { s.PriorityClassName = "p" }},
		{"preemptionPolicy", func(s *corev1.PodSpec) { s.PreemptionPolicy = ptr(corev1.PreemptNever) }},
	} {
		rows = append(rows, fieldRow{row.field, "any", spec(row.set), scheduling, scheduling})
	}
	return rows
}

func podSecurityRows() []fieldRow {
	const path = "securityContext."
	type context = corev1.PodSecurityContext
	return []fieldRow{
		{path + "runAsUser", "any", podSecurity(context{RunAsUser: ptr(int64(1))}), "for containers that name none", "for containers that name none"},
		{
			path + "runAsGroup", "with runAsUser", podSecurity(context{RunAsUser: ptr(int64(1)), RunAsGroup: ptr(int64(1))}),
			"for containers that name none", "for containers that name none",
		},
		{
			path + "runAsNonRoot", "true, with runAsUser", podSecurity(context{RunAsUser: ptr(int64(1)), RunAsNonRoot: ptr(true)}),
			"the image's user is looked at where none is set", "the user must be set",
		},
		{path + "supplementalGroups", "any", podSecurity(context{SupplementalGroups: []int64{1}}), "groups of the processes", no},
		{path + "supplementalGroupsPolicy", "Strict", podSecurity(context{SupplementalGroupsPolicy: ptr(corev1.SupplementalGroupsPolicyStrict)}), no, no},
		{path + "fsGroup", "any", podSecurity(context{FSGroup: ptr(int64(1))}), "a group of the processes (there are no volumes yet)", no},
		{
			path + "fsGroupChangePolicy", "any", podSecurity(context{FSGroupChangePolicy: ptr(corev1.FSGroupChangeAlways)}),
			"without effect: there are no volumes yet", no,
		},
		{path + "sysctls", "any", podSecurity(context{Sysctls: []corev1.Sysctl{{Name: "a", Value: "b"}}}), "set in the sandbox", no},
		{
			path + "seccompProfile", "RuntimeDefault", podSecurity(context{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}),
			"the runtime's profile", "Fargate's profile",
		},
		{path + "seccompProfile", "Localhost", podSecurity(context{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost}}), no, no},
		{
			path + "appArmorProfile", "RuntimeDefault", podSecurity(context{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}}),
			"the runtime's profile", "Fargate's profile",
		},
		{path + "appArmorProfile", "Localhost", podSecurity(context{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost}}), no, no},
		{path + "seLinuxOptions", "any", podSecurity(context{SELinuxOptions: &corev1.SELinuxOptions{}}), no, no},
		{path + "seLinuxChangePolicy", "any", podSecurity(context{SELinuxChangePolicy: ptr(corev1.SELinuxChangePolicyMountOption)}), no, no},
		{path + "windowsOptions", "any", podSecurity(context{WindowsOptions: &corev1.WindowsSecurityContextOptions{}}), no, no},
	}
}

func containerRows() []fieldRow {
	const path = "containers[]."
	type c = corev1.Container
	limits := func(name corev1.ResourceName, amount string) func(*corev1.Pod) {
		return container(func(c *c) {
			c.Resources.Limits = corev1.ResourceList{name: resource.MustParse(amount)}
		})
	}
	return []fieldRow{
		{path + "name", "any", container(func(*c) {}), "the container's name", "the container's name in the task"},
		{path + "image", "any", container(func(*c) {}), "pulled by the runtime, without a login", "pulled by Fargate, with the execution role"},
		{path + "imagePullPolicy", "Always", container(func(c *c) { c.ImagePullPolicy = corev1.PullAlways }), "pulled at every start", "pulled for every task"},
		{path + "imagePullPolicy", "IfNotPresent", container(func(c *c) { c.ImagePullPolicy = corev1.PullIfNotPresent }), "pulled when missing", "pulled for every task"},
		{path + "imagePullPolicy", "Never", container(func(c *c) { c.ImagePullPolicy = corev1.PullNever }), "must be there", no},
		{path + "command", "any", container(func(c *c) { c.Command = []string{"a"} }), "with $(VAR) expanded", "entryPoint, with $(VAR) expanded"},
		{path + "args", "any", container(func(c *c) { c.Args = []string{"a"} }), "with $(VAR) expanded", "command, with $(VAR) expanded"},
		{path + "workingDir", "any", container(func(c *c) { c.WorkingDir = "/" }), "the working directory", "workingDirectory"},
		{
			path + "env[]", "value", container(func(c *c) { c.Env = []corev1.EnvVar{{Name: "A", Value: "b"}} }),
			"with $(VAR) expanded", "with $(VAR) expanded; in the clear in the task definition",
		},
		{path + "env[]", "valueFrom", container(func(c *c) {
			c.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}}}}
		}), no, no},
		{path + "envFrom", "any", container(func(c *c) { c.EnvFrom = []corev1.EnvFromSource{{}} }), no, no},
		{
			path + "ports[]", "containerPort", container(func(c *c) { c.Ports = []corev1.ContainerPort{{ContainerPort: 80}} }),
			"for information: every port can be reached", "portMappings",
		},
		{
			path + "ports[]", "another hostPort", container(func(c *c) { c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 81}} }),
			"by the network plugin (portmap)", no,
		},
		{path + "resources", "limits of cpu", limits(corev1.ResourceCPU, "1"), "cgroup", "the task's size"},
		{path + "resources", "limits of memory", limits(corev1.ResourceMemory, "64Mi"), "cgroup", "the task's size, and memory of the container"},
		{
			path + "resources", "limits of ephemeral-storage", limits(corev1.ResourceEphemeralStorage, "1Gi"),
			no, no,
		},
		{path + "resources", "limits of devices", limits("example.com/gpu", "1"), no, no},
		{
			path + "resizePolicy", "any", container(func(c *c) { c.ResizePolicy = []corev1.ContainerResizePolicy{{}} }),
			"without effect: there is no resize in place yet", "without effect: there is no resize in place",
		},
		{path + "volumeMounts", "one", container(func(c *c) { c.VolumeMounts = []corev1.VolumeMount{{}} }), no, no},
		{path + "volumeDevices", "one", container(func(c *c) { c.VolumeDevices = []corev1.VolumeDevice{{}} }), no, no},
		{path + "stdin", "true", container(func(c *c) { c.Stdin = true }), "open, and nothing can attach yet", "interactive; nothing can attach yet"},
		{path + "stdinOnce", "true", container(func(c *c) { c.StdinOnce = true }), "nothing can attach yet", "nothing can attach yet"},
		{path + "tty", "true", container(func(c *c) { c.TTY = true }), "a terminal", "pseudoTerminal"},
	}
}

func containerLifeRows() []fieldRow {
	const path = "containers[]."
	type c = corev1.Container
	return []fieldRow{
		{path + "livenessProbe", "any", container(func(c *c) { c.LivenessProbe = &corev1.Probe{} }), no, no},
		{path + "readinessProbe", "any", container(func(c *c) { c.ReadinessProbe = &corev1.Probe{} }), no, no},
		{path + "startupProbe", "any", container(func(c *c) { c.StartupProbe = &corev1.Probe{} }), no, no},
		{path + "lifecycle", "any", container(func(c *c) { c.Lifecycle = &corev1.Lifecycle{} }), no, no},
		{path + "restartPolicy", "any", container(func(c *c) { c.RestartPolicy = ptr(corev1.ContainerRestartPolicyNever) }), no, no},
		{path + "restartPolicyRules", "any", container(func(c *c) { c.RestartPolicyRules = []corev1.ContainerRestartRule{{}} }), no, no},
		{
			path + "terminationMessagePath", "/dev/termination-log", container(func(c *c) { c.TerminationMessagePath = corev1.TerminationMessagePathDefault }),
			"without effect: messages are not read yet", "without effect: messages are not read yet",
		},
		{
			path + "terminationMessagePolicy", "File", container(func(c *c) { c.TerminationMessagePolicy = corev1.TerminationMessageReadFile }),
			"without effect: messages are not read yet", "without effect: messages are not read yet",
		},
		{path + "terminationMessagePolicy", "FallbackToLogsOnError", container(func(c *c) {
			c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
		}), no, no},
	}
}

func securityRows() []fieldRow {
	const path = "containers[].securityContext."
	type context = corev1.SecurityContext
	return []fieldRow{
		{path + "runAsUser", "any", security(context{RunAsUser: ptr(int64(1))}), "the user", "user"},
		{path + "runAsGroup", "with runAsUser", security(context{RunAsUser: ptr(int64(1)), RunAsGroup: ptr(int64(1))}), "the group", "user"},
		{path + "runAsGroup", "alone", security(context{RunAsGroup: ptr(int64(1))}), "the group", no},
		{
			path + "runAsNonRoot", "true, with runAsUser", security(context{RunAsUser: ptr(int64(1)), RunAsNonRoot: ptr(true)}),
			"the user must not be 0", "the user must not be 0",
		},
		{path + "runAsNonRoot", "true, alone", security(context{RunAsNonRoot: ptr(true)}), "the image's user must not be root", no},
		{path + "readOnlyRootFilesystem", "true", security(context{ReadOnlyRootFilesystem: ptr(true)}), "read-only", "readonlyRootFilesystem"},
		{path + "allowPrivilegeEscalation", "false", security(context{AllowPrivilegeEscalation: ptr(false)}), "no_new_privs", no},
		{path + "privileged", "true", security(context{Privileged: ptr(true)}), "privileged", no},
		{
			path + "capabilities", "add SYS_PTRACE", security(context{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_PTRACE"}}}),
			"added", "added",
		},
		{path + "capabilities", "add NET_ADMIN", security(context{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}}}), "added", no},
		{path + "capabilities", "drop", security(context{Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}), "dropped", "dropped"},
		{path + "procMount", "Default", security(context{ProcMount: ptr(corev1.DefaultProcMount)}), "masked", "masked"},
		{path + "procMount", "Unmasked", security(context{ProcMount: ptr(corev1.UnmaskedProcMount)}), no, no},
		{
			path + "seccompProfile", "RuntimeDefault", security(context{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}),
			"the runtime's profile", "Fargate's profile",
		},
		{
			path + "seccompProfile", "Unconfined", security(context{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}}),
			"no profile", no,
		},
		{
			path + "appArmorProfile", "RuntimeDefault", security(context{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}}),
			"the runtime's profile", "Fargate's profile",
		},
		{
			path + "appArmorProfile", "Unconfined", security(context{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}}),
			"no profile", no,
		},
		{path + "seLinuxOptions", "any", security(context{SELinuxOptions: &corev1.SELinuxOptions{}}), no, no},
		{path + "windowsOptions", "any", security(context{WindowsOptions: &corev1.WindowsSecurityContextOptions{}}), no, no},
	}
}
