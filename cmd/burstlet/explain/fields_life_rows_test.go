package explain

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

func environmentRows() []fieldRow {
	const path = "containers[]."
	type c = corev1.Container
	from := func(source corev1.EnvVarSource) func(*corev1.Pod) {
		return container(func(c *c) { c.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &source}} })
	}
	field := func(path string) func(*corev1.Pod) {
		return from(corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}})
	}
	const inDefinition = "the value at the launch; in the clear in the task definition"
	const inSecrets = "the value at the launch, by way of Secrets Manager; needs `executionRoleARN`"
	return []fieldRow{
		{
			path + "env[]", "value", container(func(c *c) { c.Env = []corev1.EnvVar{{Name: "A", Value: "b"}} }),
			"with $(VAR) expanded", "with $(VAR) expanded; in the clear in the task definition",
		},
		{
			path + "env[]", "configMapKeyRef", from(corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{}}),
			"the value at the container's start", inDefinition,
		},
		{
			path + "env[]", "secretKeyRef", from(corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{}}),
			"the value at the container's start", inSecrets,
		},
		{
			path + "env[]", "fieldRef metadata.name", field("metadata.name"), "the pod's",
			"the pod's, in the overrides of the task",
		},
		{
			path + "env[]", "fieldRef status.podIP", field("status.podIP"), "the pod's address",
			"the task's address, put in by the supervisor; needs `taskImage`",
		},
		{
			path + "env[]", "fieldRef status.hostIP", field("status.hostIP"), "the host's address",
			"the task's address, put in by the supervisor; needs `taskImage`",
		},
		{
			path + "env[]", "resourceFieldRef",
			from(corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}),
			"the container's, or what the node can allocate", "the container's, or what the node can allocate",
		},
		{
			path + "env[]", "fileKeyRef", from(corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}}),
			"the value of the file at the container's start", no,
		},
		{
			path + "envFrom", "configMapRef",
			container(func(c *c) { c.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{}}} }),
			"the values at the container's start", inDefinition,
		},
		{
			path + "envFrom", "secretRef",
			container(func(c *c) { c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{}}} }),
			"the values at the container's start", inSecrets,
		},
	}
}

func containerLifeRows() []fieldRow {
	return slices.Concat(probeRows(), lifecycleRows(), endRows())
}

func probeRows() []fieldRow {
	type c = corev1.Container
	var rows []fieldRow
	for _, probe := range []struct {
		field string
		set   func(*c, *corev1.Probe)
		then  string
	}{
		{"startupProbe", func(c *c, p *corev1.Probe) { c.StartupProbe = p }, "; the other probes wait for it"},
		{"livenessProbe", func(c *c, p *corev1.Probe) { c.LivenessProbe = p }, "; a failure restarts the container"},
		{"readinessProbe", func(c *c, p *corev1.Probe) { c.ReadinessProbe = p }, "; it makes the container ready"},
	} {
		for _, kind := range []struct {
			value   string
			handler corev1.ProbeHandler
			how     string
		}{
			{"exec", corev1.ProbeHandler{Exec: &corev1.ExecAction{}}, "run in the container"},
			{"httpGet", corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{}}, "asked from the host"},
			{"tcpSocket", corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}, "connected to from the host"},
			{"grpc", corev1.ProbeHandler{GRPC: &corev1.GRPCAction{}}, "asked from the host"},
		} {
			rows = append(rows, fieldRow{
				"containers[]." + probe.field, kind.value,
				container(func(c *c) { probe.set(c, &corev1.Probe{ProbeHandler: kind.handler}) }),
				kind.how + probe.then, fromTable,
			})
		}
	}
	return rows
}

func lifecycleRows() []fieldRow {
	const path = "containers[].lifecycle"
	lifecycle := func(l corev1.Lifecycle) func(*corev1.Pod) {
		return container(func(c *corev1.Container) { c.Lifecycle = &l })
	}
	exec := &corev1.LifecycleHandler{Exec: &corev1.ExecAction{}}
	get := &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{}}
	sleep := &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}
	const after, before = "; a failure kills the container", ", within the grace, before TERM"
	return []fieldRow{
		{path, "postStart exec", lifecycle(corev1.Lifecycle{PostStart: exec}), "run in the container" + after, fromTable},
		{path, "postStart httpGet", lifecycle(corev1.Lifecycle{PostStart: get}), "asked from the host" + after, fromTable},
		{path, "postStart sleep", lifecycle(corev1.Lifecycle{PostStart: sleep}), "the next container waits", fromTable},
		{path, "preStop exec", lifecycle(corev1.Lifecycle{PreStop: exec}), "run in the container" + before, fromTable},
		{path, "preStop httpGet", lifecycle(corev1.Lifecycle{PreStop: get}), "asked from the host" + before, fromTable},
		{path, "preStop sleep", lifecycle(corev1.Lifecycle{PreStop: sleep}), "waited for" + before, fromTable},
		{path, "stopSignal", lifecycle(corev1.Lifecycle{StopSignal: ptr(corev1.SIGHUP)}), no, fromTable},
	}
}

func endRows() []fieldRow {
	const path = "containers[]."
	type c = corev1.Container
	rules := func(action corev1.ContainerRestartRuleAction) func(*corev1.Pod) {
		return container(func(c *c) { c.RestartPolicyRules = []corev1.ContainerRestartRule{{Action: action}} })
	}
	return []fieldRow{
		{
			path + "restartPolicy", "any", container(func(c *c) { c.RestartPolicy = ptr(corev1.ContainerRestartPolicyNever) }),
			"of this container, before the pod's", no,
		},
		{
			path + "restartPolicyRules", "Restart", rules(corev1.ContainerRestartRuleActionRestart),
			"by exit code, before the policy", no,
		},
		{
			path + "restartPolicyRules", "RestartAllContainers", rules(corev1.ContainerRestartRuleActionRestartAllContainers),
			"all init and app containers end at once and start anew, in the same sandbox", no,
		},
		{
			path + "terminationMessagePath", "/dev/termination-log",
			container(func(c *c) { c.TerminationMessagePath = corev1.TerminationMessagePathDefault }),
			"a file is mounted there", fromTable,
		},
		{
			path + "terminationMessagePath", "/another", container(func(c *c) { c.TerminationMessagePath = "/another" }),
			"a file is mounted there", fromTable,
		},
		{
			path + "terminationMessagePolicy", "File",
			container(func(c *c) { c.TerminationMessagePolicy = corev1.TerminationMessageReadFile }),
			"the last 4 KiB of the file", "the last 4 KiB of the file, seen some seconds after the end",
		},
		{path + "terminationMessagePolicy", "FallbackToLogsOnError", container(func(c *c) {
			c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
		}), "the file's, or after a failure without one the log's last 80 lines, at most 2 KiB", "the file's, or after a failure without one the log's last 80 lines, at most 2 KiB, seen some seconds after the end"},
	}
}

func securityRows() []fieldRow {
	const path = "containers[].securityContext."
	type context = corev1.SecurityContext
	return []fieldRow{
		{path + "runAsUser", "any", security(context{RunAsUser: ptr(int64(1))}), "the user", fromTable},
		{
			path + "runAsGroup", "with runAsUser", security(context{RunAsUser: ptr(int64(1)), RunAsGroup: ptr(int64(1))}),
			"the group", fromTable,
		},
		{path + "runAsGroup", "alone", security(context{RunAsGroup: ptr(int64(1))}), "the group", fromTable},
		{
			path + "runAsNonRoot", "true, with runAsUser", security(context{RunAsUser: ptr(int64(1)), RunAsNonRoot: ptr(true)}),
			"the user must not be 0", "the user must not be 0",
		},
		{
			path + "runAsNonRoot", "true, alone", security(context{RunAsNonRoot: ptr(true)}),
			"the image's user must not be root", fromTable,
		},
		{
			path + "readOnlyRootFilesystem", "true", security(context{ReadOnlyRootFilesystem: ptr(true)}), "read-only",
			"readonlyRootFilesystem",
		},
		{
			path + "allowPrivilegeEscalation", "false", security(context{AllowPrivilegeEscalation: ptr(false)}), "no_new_privs",
			fromTable,
		},
		{
			path + "privileged", "true", security(context{Privileged: ptr(true)}),
			"privileged, unless the configuration forbids it", no,
		},
		{
			path + "capabilities", "add SYS_PTRACE",
			security(context{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_PTRACE"}}}),
			"added, unless the configuration forbids it", "added",
		},
		{
			path + "capabilities", "add NET_ADMIN",
			security(context{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}}}),
			"added, unless the configuration forbids it", no,
		},
		{
			path + "capabilities", "drop",
			security(context{Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}), "dropped", "dropped",
		},
		{path + "procMount", "Default", security(context{ProcMount: ptr(corev1.DefaultProcMount)}), "masked", "masked"},
		{
			path + "procMount", "Unmasked", security(context{ProcMount: ptr(corev1.UnmaskedProcMount)}),
			"unmasked; Kubernetes wants hostUsers: false beside it", no,
		},
		{
			path + "seccompProfile", "RuntimeDefault",
			security(context{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}),
			"the runtime's profile", "Fargate's profile",
		},
		{
			path + "seccompProfile", "Unconfined",
			security(context{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}}),
			"no profile", no,
		},
		{
			path + "appArmorProfile", "RuntimeDefault",
			security(context{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}}),
			"the runtime's profile", "Fargate's profile",
		},
		{
			path + "appArmorProfile", "Unconfined",
			security(context{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}}),
			"no profile", no,
		},
		{
			path + "seLinuxOptions", "`level: s0`", security(context{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0"}}),
			"given to the runtime; without effect on a host without SELinux", "what runs anyway",
		},
		{
			path + "seLinuxOptions", "any other", security(context{SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"}}),
			"given to the runtime; without effect on a host without SELinux", no,
		},
		{
			path + "windowsOptions", "any", security(context{WindowsOptions: &corev1.WindowsSecurityContextOptions{}}),
			"not looked at: the host runs linux", no,
		},
	}
}
