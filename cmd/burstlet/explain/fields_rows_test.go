package explain

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// What stands in many cells.
const (
	scheduling  = "used before the pod reaches the node"
	filesOnTask = "files, on the task's disk, brought up to date in one step, within `refresh` (with `taskRoleARN`); " +
		"needs `taskImage`"
	no = ""
)

func podRunRows() []fieldRow {
	return []fieldRow{
		{"containers[]", "one", spec(func(*corev1.PodSpec) {}), "a container each", "the one app container of a task"},
		{"containers[]", "two", spec(func(s *corev1.PodSpec) {
			s.Containers = append(s.Containers, corev1.Container{Name: "d", Image: "i"})
		}), "a container each", "containers of one task; burstlet-agent beside them waits for all of them; needs " +
			"`taskImage`"},
		{"initContainers[]", "one", spec(func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{Name: "i", Image: "i"}}
		}), "one after the other, each until it ends with 0", "one after the other (dependsOn SUCCESS)"},
		{"initContainers[].restartPolicy", "Always (a sidecar)", spec(func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{
				Name: "i", Image: "i", RestartPolicy: ptr(corev1.ContainerRestartPolicyAlways),
			}}
		}), "started in order, restarted whenever it ends, ended after the app containers", fromTable},
		{"ephemeralContainers", "one", spec(func(s *corev1.PodSpec) {
			s.EphemeralContainers = []corev1.EphemeralContainer{{}}
		}), "started in the running pod, in the process namespace of its target", no},
		{
			"restartPolicy", "any", spec(func(s *corev1.PodSpec) { s.RestartPolicy = corev1.RestartPolicyOnFailure }),
			"as the kubelet's, with its backoff", "as the kubelet's; a restart is a new task",
		},
		{
			"terminationGracePeriodSeconds", "30",
			spec(func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = ptr(int64(30)) }),
			"TERM, then KILL", "stopTimeout of the task; a deletion's shorter one is told to the supervisors, if ECS Exec is on",
		},
		{
			"terminationGracePeriodSeconds", "300",
			spec(func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = ptr(int64(300)) }),
			"TERM, then KILL", no,
		},
		{
			"activeDeadlineSeconds", "any", spec(func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = ptr(int64(9)) }),
			"the pod fails when it has passed", "the pod fails when it has passed",
		},
		{"readinessGates", "any", spec(func(s *corev1.PodSpec) {
			s.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x"}}
		}), "Ready waits for the conditions", "Ready waits for the conditions"},
		{"imagePullSecrets", "one", spec(func(s *corev1.PodSpec) {
			s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}}
		}), "their logins for the image's registry, in turn", fromTable},
		{
			"serviceAccountName", "any", spec(func(s *corev1.PodSpec) { s.ServiceAccountName = "a" }),
			"a name only: tokens travel in volumes", "a name only: tokens travel in volumes",
		},
		{
			"serviceAccount", "any", spec(func(s *corev1.PodSpec) { s.DeprecatedServiceAccount = "a" }),
			"a name only: tokens travel in volumes", "a name only: tokens travel in volumes",
		},
		{
			"automountServiceAccountToken", "false",
			spec(func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = ptr(false) }),
			"no token is mounted", "no token is mounted",
		},
		{
			"enableServiceLinks", "any", spec(func(s *corev1.PodSpec) { s.EnableServiceLinks = ptr(true) }),
			"unless false, variables for the Services of the namespace",
			"unless false, variables for the Services of the namespace, in the task definition",
		},
	}
}

func volumeRows() []fieldRow {
	var rows []fieldRow
	for _, v := range []struct {
		kind   string
		source corev1.VolumeSource
		how    string
		ecs    string
	}{
		{
			"emptyDir",
			corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
			"a directory on the host's disk; a pod that exceeds sizeLimit is evicted",
			"a directory on the task's ephemeral storage, which grows with sizeLimit; needs `taskImage`, unless root alone " +
				"mounts it",
		},
		{
			"emptyDir, medium Memory",
			corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
			"a tmpfs of that size", "a tmpfs of that size for one container; one that several mount is on disk",
		},
		{
			"emptyDir, medium HugePages-2Mi",
			corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "HugePages-2Mi"}},
			"huge pages of a size that the pod requests", no,
		},
		{
			"hostPath",
			corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}},
			"a path of the pods' host, unless the configuration forbids it, checked or made as its type says", no,
		},
		{
			"configMap",
			corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}},
			"files, updated in one step",
			filesOnTask,
		},
		{
			"secret",
			corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}},
			"files on a tmpfs, updated in one step",
			filesOnTask,
		},
		{
			"projected",
			corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}},
			"files on a tmpfs, updated in one step; tokens are renewed",
			"files, on the task's disk, brought up to date in one step, within `refresh`; tokens are renewed; needs " +
				"`taskImage` and, with tokens, `taskRoleARN`",
		},
		{
			"downwardAPI",
			corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}},
			"files on a tmpfs, updated in one step", filesOnTask,
		},
		{
			"persistentVolumeClaim",
			corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}},
			"bound to a PersistentVolume of kind local, hostPath or nfs",
			"bound to a PersistentVolume of the CSI driver efs.csi.aws.com, of Amazon EFS or S3 Files (volumeHandle " +
				"s3files:…); another is refused at the launch",
		},
		{"ephemeral", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
				},
			}},
		}}, "as persistentVolumeClaim", "one volume of Amazon EBS of the requested size, made for each task (a restart " +
			"begins with an empty one) and deleted with it; another in the pod, volumeMode Block, other accessModes than " +
			"ReadWriteOnce and ReadWriteOncePod, dataSource, selector and volumeName are refused; the claim and its " +
			"storageClassName are not used; needs `ebs.roleARN`"},
		{
			"nfs",
			corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}},
			"mounted by the pods' host, which needs mount.nfs (nfs-common)", no,
		},
		{
			"image",
			corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "r.example/data"}},
			"the image's files, read-only, with containerd 2.1 or newer (subPath: 2.2); before, the pod is refused", no,
		},
	} {
		rows = append(rows, fieldRow{"volumes", v.kind, spec(func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: v.source}}
		}), v.how, v.ecs})
	}
	return append(rows, fieldRow{"volumes", "any other kind", spec(func(s *corev1.PodSpec) {
		s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}}}
		s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v"}}
	}), no, no})
}

func podPlaceRows() []fieldRow {
	rows := []fieldRow{
		{
			"hostNetwork", "true", spec(func(s *corev1.PodSpec) { s.HostNetwork = true }),
			"the host's network, unless the configuration forbids it", no,
		},
		{
			"hostPID", "true", spec(func(s *corev1.PodSpec) { s.HostPID = true }),
			"the host's processes, unless the configuration forbids it", no,
		},
		{
			"hostIPC", "true", spec(func(s *corev1.PodSpec) { s.HostIPC = true }),
			"the host's IPC, unless the configuration forbids it", no,
		},
		{
			"hostUsers", "false", spec(func(s *corev1.PodSpec) { s.HostUsers = ptr(false) }),
			"a user namespace with 65536 ids of the host's that no other pod has; refused where the runtime cannot (before " +
				"containerd 2.0 and runc 1.2)",
			no,
		},
		{
			"shareProcessNamespace", "true", spec(func(s *corev1.PodSpec) { s.ShareProcessNamespace = ptr(true) }),
			"one process namespace for the pod", "pidMode task",
		},
		{"hostname", "any", spec(func(s *corev1.PodSpec) { s.Hostname = "h" }), "the pod's host name", fromTable},
		{
			"hostnameOverride", "any", spec(func(s *corev1.PodSpec) { s.HostnameOverride = ptr("h") }), "the pod's host name",
			no,
		},
		{
			"subdomain", "any", spec(func(s *corev1.PodSpec) { s.Subdomain = "d" }),
			"the pod's domain, in its /etc/hosts too", fromTable,
		},
		{
			"setHostnameAsFQDN", "true", spec(func(s *corev1.PodSpec) { s.SetHostnameAsFQDN = ptr(true) }),
			"the host name with the subdomain and the cluster's domain", no,
		},
		{
			"hostAliases", "one", spec(func(s *corev1.PodSpec) { s.HostAliases = []corev1.HostAlias{{IP: "192.0.2.1"}} }),
			"lines of /etc/hosts", fromTable,
		},
		{
			"dnsPolicy", "ClusterFirst", spec(func(s *corev1.PodSpec) { s.DNSPolicy = corev1.DNSClusterFirst }),
			"`clusterDNS` of the configuration; without it the host's",
			"`clusterDNS` of the configuration with `backend.ecs.clusterDNS: routed`, else the VPC's resolver, which finds " +
				"no Services",
		},
		{
			"dnsPolicy", "Default", spec(func(s *corev1.PodSpec) { s.DNSPolicy = corev1.DNSDefault }), "the host's resolv.conf",
			"the VPC's resolver",
		},
		{
			"dnsPolicy", "None", spec(func(s *corev1.PodSpec) { s.DNSPolicy = corev1.DNSNone }), "`dnsConfig` alone",
			"`dnsConfig` alone, in /etc/resolv.conf; needs `taskImage`",
		},
		{
			"dnsConfig", "any", spec(func(s *corev1.PodSpec) { s.DNSConfig = &corev1.PodDNSConfig{} }), "added to the policy's",
			fromTable,
		},
		{
			"os", "linux", spec(func(s *corev1.PodSpec) { s.OS = &corev1.PodOS{Name: corev1.Linux} }), "what runs anyway",
			"what runs anyway",
		},
		{"os", "windows", spec(func(s *corev1.PodSpec) { s.OS = &corev1.PodOS{Name: corev1.Windows} }), no, no},
		{
			"runtimeClassName", "any", spec(func(s *corev1.PodSpec) { s.RuntimeClassName = ptr("r") }),
			"its handler, which the host's runtime must have", no,
		},
		{"overhead", "any", spec(func(s *corev1.PodSpec) {
			s.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		}), "added to the limits of the pod's cgroup", "added to the task's size"},
		{
			"resources", "any", spec(func(s *corev1.PodSpec) { s.Resources = &corev1.ResourceRequirements{} }),
			"limits of the pod's cgroup", fromTable,
		},
		{
			"resourceClaims", "one", spec(func(s *corev1.PodSpec) { s.ResourceClaims = []corev1.PodResourceClaim{{Name: "r"}} }),
			no, no,
		},
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
		{
			path + "runAsUser", "any", podSecurity(context{RunAsUser: ptr(int64(1))}), "for containers that name none",
			"for containers that name none",
		},
		{
			path + "runAsGroup", "with runAsUser", podSecurity(context{RunAsUser: ptr(int64(1)), RunAsGroup: ptr(int64(1))}),
			"for containers that name none", "for containers that name none",
		},
		{
			path + "runAsNonRoot", "true, with runAsUser",
			podSecurity(context{RunAsUser: ptr(int64(1)), RunAsNonRoot: ptr(true)}),
			"the image's user is looked at where none is set", fromTable,
		},
		{
			path + "supplementalGroups", "any", podSecurity(context{SupplementalGroups: []int64{1}}), "groups of the processes",
			fromTable,
		},
		{
			path + "supplementalGroupsPolicy", "Strict",
			podSecurity(context{SupplementalGroupsPolicy: ptr(corev1.SupplementalGroupsPolicyStrict)}),
			"with containerd 2.0 or newer; before, the pod is refused", fromTable,
		},
		{
			path + "fsGroup", "any", podSecurity(context{FSGroup: ptr(int64(1))}),
			"a group of the processes, and the owner of volumes", fromTable,
		},
		{
			path + "fsGroupChangePolicy", "any", podSecurity(context{FSGroupChangePolicy: ptr(corev1.FSGroupChangeAlways)}),
			"as on a kubelet", fromTable,
		},
		{
			path + "sysctls", "any", podSecurity(context{Sysctls: []corev1.Sysctl{{Name: "a", Value: "b"}}}),
			"set in the sandbox; unsafe ones if the configuration allows them", no,
		},
		{
			path + "sysctls", "net.*, kernel.msg*, kernel.sem, kernel.shm*, fs.mqueue.*",
			podSecurity(context{Sysctls: []corev1.Sysctl{{Name: "net.ipv4.tcp_syncookies", Value: "1"}}}), "as above",
			"systemControls; unsafe ones if the configuration allows them",
		},
		{
			path + "seccompProfile", "RuntimeDefault",
			podSecurity(context{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}),
			"the runtime's profile", "Fargate's profile",
		},
		{path + "seccompProfile", "Localhost", podSecurity(context{SeccompProfile: &corev1.SeccompProfile{
			Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr("p.json"),
		}}), "a file of the host, below `seccompProfileRoot`", no},
		{
			path + "appArmorProfile", "RuntimeDefault",
			podSecurity(context{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}}),
			"the runtime's profile; refused where the host does not enforce AppArmor", "Fargate's profile",
		},
		{path + "appArmorProfile", "Localhost", podSecurity(context{AppArmorProfile: &corev1.AppArmorProfile{
			Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: ptr("p"),
		}}), "a profile that is loaded on the host", no},
		{
			path + "seLinuxOptions", "`level: s0`", podSecurity(context{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0"}}),
			"given to the runtime; without effect on a host without SELinux", "what runs anyway",
		},
		{
			path + "seLinuxOptions", "any other", podSecurity(context{SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"}}),
			"given to the runtime; without effect on a host without SELinux", no,
		},
		{
			path + "seLinuxChangePolicy", "any",
			podSecurity(context{SELinuxChangePolicy: ptr(corev1.SELinuxChangePolicyMountOption)}),
			"volumes are relabelled file by file", no,
		},
		{
			path + "windowsOptions", "any", podSecurity(context{WindowsOptions: &corev1.WindowsSecurityContextOptions{}}),
			"not looked at: the host runs linux", no,
		},
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
		{
			path + "image", "any", container(func(*c) {}), "pulled by the runtime", "pulled by Fargate, with the execution role",
		},
		{
			path + "imagePullPolicy", "Always", container(func(c *c) { c.ImagePullPolicy = corev1.PullAlways }),
			"pulled at every start", "pulled for every task",
		},
		{
			path + "imagePullPolicy", "IfNotPresent", container(func(c *c) { c.ImagePullPolicy = corev1.PullIfNotPresent }),
			"pulled when missing", "pulled for every task",
		},
		{
			path + "imagePullPolicy", "Never", container(func(c *c) { c.ImagePullPolicy = corev1.PullNever }), "must be there",
			no,
		},
		{path + "command", "any", container(func(c *c) { c.Command = []string{"a"} }), "with $(VAR) expanded", fromTable},
		{
			path + "args", "any", container(func(c *c) { c.Args = []string{"a"} }), "with $(VAR) expanded",
			"command, with $(VAR) expanded",
		},
		{
			path + "workingDir", "any", container(func(c *c) { c.WorkingDir = "/" }), "the working directory",
			"workingDirectory",
		},
		{
			path + "ports[]", "containerPort", container(func(c *c) { c.Ports = []corev1.ContainerPort{{ContainerPort: 80}} }),
			"for information: every port can be reached", "for information: the security groups say which ports can be reached",
		},
		{
			path + "ports[]", "another hostPort",
			container(func(c *c) { c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 81}} }),
			"by the network plugin (portmap), unless the configuration forbids it", no,
		},
		{path + "resources", "limits of cpu", limits(corev1.ResourceCPU, "1"), "cgroup", "the task's size"},
		{
			path + "resources", "limits of memory", limits(corev1.ResourceMemory, "64Mi"), "cgroup",
			"the task's size, and memory of the container",
		},
		{
			path + "resources", "limits of ephemeral-storage", limits(corev1.ResourceEphemeralStorage, "1Gi"),
			"a pod that exceeds it is evicted", "ephemeralStorage of the task, up to 200 GiB",
		},
		{
			path + "resources", "limits of hugepages-2Mi", limits("hugepages-2Mi", "64Mi"),
			"cgroup, of what the host has set aside", no,
		},
		{path + "resources", "limits of devices", limits("example.com/gpu", "1"), no, no},
		{
			path + "resizePolicy", "any", container(func(c *c) { c.ResizePolicy = []corev1.ContainerResizePolicy{{}} }),
			"a resize in place, or a restart, as it says", "without effect: a resize in place is answered Infeasible",
		},
		{
			path + "volumeMounts", "one", container(func(c *c) { c.VolumeMounts = []corev1.VolumeMount{{}} }),
			"mounted, with subPath and propagation", fromTable,
		},
		{
			path + "volumeMounts", "subPath", container(func(c *c) { c.VolumeMounts = []corev1.VolumeMount{{SubPath: "a"}} }),
			"mounted", "a link to that part of the whole volume, made by the supervisor; not with readOnlyRootFilesystem",
		},
		{path + "volumeMounts", "mountPropagation", container(func(c *c) {
			c.VolumeMounts = []corev1.VolumeMount{{MountPropagation: ptr(corev1.MountPropagationBidirectional)}}
		}), "mounted so", no},
		{path + "volumeMounts", "recursiveReadOnly Enabled", container(func(c *c) {
			c.VolumeMounts = []corev1.VolumeMount{{RecursiveReadOnly: ptr(corev1.RecursiveReadOnlyEnabled)}}
		}), "mounts below it are read-only too, with containerd 2.0 or newer; before, the container waits with " +
			"CreateContainerConfigError", no},
		{path + "volumeDevices", "one", container(func(c *c) { c.VolumeDevices = []corev1.VolumeDevice{{}} }), no, no},
		{path + "stdin", "true", container(func(c *c) { c.Stdin = true }), "open for kubectl attach", fromTable},
		{
			path + "stdinOnce", "true", container(func(c *c) { c.StdinOnce = true }),
			"closed when the first who attached leaves", fromTable,
		},
		{path + "tty", "true", container(func(c *c) { c.TTY = true }), "a terminal", "pseudoTerminal"},
	}
}
