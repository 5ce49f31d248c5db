package explain

// Preview is what a pod would become on a container host, told without a call to it.
type Preview struct {
	QOSClass string         `json:"qosClass"`
	Sandbox  SandboxPreview `json:"sandbox"`
	// Volumes are those of the pod that something mounts, in the pod's order.
	Volumes []VolumePreview `json:"volumes,omitempty"`
	// Containers are in the order in which they start.
	Containers []ContainerPreview `json:"containers"`
	// Notes say what only the host knows.
	Notes []string `json:"notes,omitempty"`
}

// SandboxPreview is the pod's sandbox: its namespaces, cgroup and addresses.
type SandboxPreview struct {
	// Hostname is empty where the pod has the host's.
	Hostname   string            `json:"hostname,omitempty"`
	Namespaces NamespacesPreview `json:"namespaces"`
	// Cgroup is the pod's own cgroup: a path with the driver cgroupfs, a slice with
	// systemd.
	Cgroup    string           `json:"cgroup"`
	Resources ResourcesPreview `json:"resources"`
	// PIDs is the most processes of the pod; 0 is no limit.
	PIDs int64 `json:"pids,omitempty"`
	// DNS is the pod's resolv.conf, as far as it is not the host's.
	DNS DNSPreview `json:"dns"`
	// Ports of the host that lead to the pod, as in "192.0.2.1:8080 -> 80/TCP".
	Ports []string `json:"hostPorts,omitempty"`
	// Sysctls are set in the pod's namespaces.
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// RuntimeClass is the pod's, whose handler the cluster knows.
	RuntimeClass string `json:"runtimeClass,omitempty"`
	// Logs is the directory of the containers' logs.
	Logs string `json:"logs"`
}

// NamespacesPreview tells whose namespaces containers are in: "pod", "container"
// (each its own) or "host".
type NamespacesPreview struct {
	Network string `json:"network"`
	IPC     string `json:"ipc"`
	PID     string `json:"pid"`
	User    string `json:"user"`
}

// ResourcesPreview is what the kernel enforces.
type ResourcesPreview struct {
	// CPUShares is the weight among others: 1024 for a CPU (cpu.weight on cgroup v2 is
	// made of it by the runtime).
	CPUShares int64 `json:"cpuShares"`
	// CPUQuota is the time in each CPUPeriod, both in microseconds (cpu.max); a quota
	// of 0 is no limit.
	CPUQuota  int64 `json:"cpuQuotaMicroseconds"`
	CPUPeriod int64 `json:"cpuPeriodMicroseconds"`
	// Memory is the limit in bytes (memory.max); 0 is none.
	Memory int64 `json:"memoryBytes"`
	// OOMScore is oom_score_adj; nil where it depends on the host's memory, and of
	// sandboxes.
	OOMScore *int64 `json:"oomScoreAdj,omitempty"`
}

// DNSPreview is a resolv.conf.
type DNSPreview struct {
	// OfHost is true where the host's is the base: then the rest is what is added.
	// HostSearches is true where its searches alone are added at the end.
	OfHost       bool     `json:"ofHost"`
	HostSearches bool     `json:"hostSearches,omitempty"`
	Servers      []string `json:"servers,omitempty"`
	Searches     []string `json:"searches,omitempty"`
	Options      []string `json:"options,omitempty"`
}

// VolumePreview is a volume on the host.
type VolumePreview struct {
	Name string `json:"name"`
	// Kind says what is made: "directory", "tmpfs", "hugepages", "files", "files in
	// memory", "nfs", "host path", "image", or "claim", which is what its PersistentVolume
	// says.
	Kind string `json:"kind"`
	// Path on the host, empty for an image; Source is what is mounted there, of kinds that
	// mount.
	Path   string `json:"path,omitempty"`
	Source string `json:"source,omitempty"`
	// SizeBytes limits a tmpfs; 0 is half of the host's memory.
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	ReadOnly  bool  `json:"readOnly,omitempty"`
	// FSGroup owns what is in it; nil: as it is.
	FSGroup *int64 `json:"fsGroup,omitempty"`
}

// Kinds of containers.
const (
	KindInit      = "init container"
	KindSidecar   = "sidecar"
	KindContainer = "container"
)

// ContainerPreview is one container.
type ContainerPreview struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Starts says after what, Restarts when it is started again, Ends when it is stopped.
	Starts   string `json:"starts"`
	Restarts string `json:"restarts"`
	Ends     string `json:"ends"`
	Image    string `json:"image"`
	// Pull is the imagePullPolicy.
	Pull string `json:"pull"`
	// Command and Args are the image's own where they are empty.
	Command    []string `json:"command,omitempty"`
	Args       []string `json:"args,omitempty"`
	WorkingDir string   `json:"workingDir,omitempty"`
	// Env are the names of its variables, without those of Services and of whole
	// ConfigMaps and Secrets.
	Env      []string         `json:"env,omitempty"`
	Security SecurityPreview  `json:"security"`
	Cgroup   ResourcesPreview `json:"resources"`
	Mounts   []MountPreview   `json:"mounts,omitempty"`
	// Log is the file of its first attempt.
	Log string `json:"log"`
}

// SecurityPreview is as whom and with what a container runs.
type SecurityPreview struct {
	// User is a number, or says that it is the image's.
	User string `json:"user"`
	// Group is the primary one where the pod names it.
	Group *int64 `json:"group,omitempty"`
	// SupplementalGroups are added; GroupsPolicy says whether the image's are too.
	SupplementalGroups []int64  `json:"supplementalGroups,omitempty"`
	GroupsPolicy       string   `json:"supplementalGroupsPolicy,omitempty"`
	Privileged         bool     `json:"privileged,omitempty"`
	ReadOnlyRoot       bool     `json:"readOnlyRootFilesystem,omitempty"`
	NoNewPrivileges    bool     `json:"noNewPrivileges,omitempty"`
	AddCapabilities    []string `json:"addCapabilities,omitempty"`
	DropCapabilities   []string `json:"dropCapabilities,omitempty"`
	Seccomp            string   `json:"seccomp"`
	AppArmor           string   `json:"appArmor"`
	// UnmaskedProc is true where /proc shows all.
	UnmaskedProc bool `json:"unmaskedProc,omitempty"`
}

// MountPreview is one mount in a container.
type MountPreview struct {
	Path     string `json:"path"`
	HostPath string `json:"hostPath,omitempty"`
	// Image is mounted instead of a path of the host.
	Image string `json:"image,omitempty"`
	// Volume is the pod's; empty for what every container gets.
	Volume string `json:"volume,omitempty"`
	// SubPath is bound to HostPath from within the volume; of an image it is the
	// directory that is mounted.
	SubPath     string `json:"subPath,omitempty"`
	ReadOnly    bool   `json:"readOnly,omitempty"`
	Propagation string `json:"propagation,omitempty"`
}
