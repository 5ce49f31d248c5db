package config

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The type of the file, as its apiVersion and kind say.
const (
	APIVersion = "burstlet.dev/v1alpha1"
	Kind       = "BurstletConfiguration"
)

// Backends, as backend.type names them.
const (
	BackendSim = "sim"
	BackendCRI = "cri"
	BackendECS = "ecs"
)

// Granularities of the simulated backend.
const (
	GranularityContainer = "container"
	GranularityPod       = "pod"
)

// Formats of the log.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// Ways to end, as shutdown.mode names them.
const (
	ShutdownLeave = "leave"
	ShutdownDrain = "drain"
)

// What a node does about another process that has it, as node.onOtherProcess names it.
const (
	OtherProcessReport = "report"
	OtherProcessStop   = "stop"
)

// Configuration is the whole configuration of a process: of one node, or of
// several that Nodes lists. [Configuration.Each] gives it node by node.
type Configuration struct {
	// TypeMeta must be apiVersion burstlet.dev/v1alpha1, kind
	// BurstletConfiguration.
	metav1.TypeMeta `json:",inline"`

	// Node says how the node appears in the cluster. Beside Nodes it is what their
	// entries have in common, and name and identity must be left out.
	Node Node `json:"node"`
	// Nodes are several nodes in one process. Left out or empty: the one that Node
	// describes. An entry starts as a copy of what the file says outside nodes (and
	// variables and flags say) and changes what it gives: mappings are merged key by
	// key, lists replaced. After [Load] the entries are complete.
	Nodes []NodeEntry `json:"nodes"`
	// Kubeconfig is the file with the node's access to the API server. Empty:
	// $KUBECONFIG, else the pod's own service account, else ~/.kube/config.
	Kubeconfig string `json:"kubeconfig"`
	// BootstrapKubeconfig is a kubeconfig file whose credential may only ask for the
	// node's own (the kubelet's --bootstrap-kubeconfig): at the start, and whenever
	// the node has no valid client certificate, one is requested with it, kept in
	// CertDirectory and rotated. It also says where the API server is. It excludes
	// Kubeconfig. Empty: Kubeconfig is the node's credential.
	BootstrapKubeconfig string `json:"bootstrapKubeconfig"`
	// ImpersonateNode makes burstlet call the API server as the node
	// (system:node:NAME) by impersonation, so that the Node authorizer and
	// NodeRestriction limit it to its own pods. The access of Kubeconfig needs the
	// right to impersonate that node, and no other (deploy/rbac/serviceaccount.yaml).
	// It excludes BootstrapKubeconfig. Default false: burstlet acts as the user of
	// Kubeconfig.
	ImpersonateNode bool `json:"impersonateNode"`
	// CertDirectory is where certificates that the cluster issued are kept with
	// their keys (the kubelet's --cert-dir), with several nodes in a directory per
	// node below it. It may be lost at any time: they are requested again. Default
	// /var/lib/burstlet/pki.
	CertDirectory string `json:"certDirectory"`
	// Client bounds the calls to the API server.
	Client Client `json:"client"`
	// Backend says where pods run.
	Backend Backend `json:"backend"`
	// KubeletAPI is the HTTPS server behind kubectl logs.
	KubeletAPI KubeletAPI `json:"kubeletAPI"`
	// ClusterDNS are the IP addresses of the cluster's DNS, for pods with
	// dnsPolicy ClusterFirst. Empty: such pods get the name servers of their
	// host. The ecs backend uses it where its own clusterDNS says so, sim never.
	ClusterDNS []string `json:"clusterDNS"`
	// ClusterDomain is the DNS domain of the cluster; default "cluster.local".
	// It is used together with ClusterDNS.
	ClusterDomain string `json:"clusterDomain"`
	// Pods says what pods may ask of the node, and what they are told.
	Pods Pods `json:"pods"`
	// Images says which images are removed from the remote's disk, and how many of the
	// others the Node lists. Only backends that keep images use it.
	Images Images `json:"images"`
	// Eviction says when pods are evicted because their host runs short of something. Only
	// backends whose pods share a host use it: cri, and sim by containers.
	Eviction Eviction `json:"eviction"`
	// LeaderElection lets several processes stand by for the same nodes.
	LeaderElection LeaderElection `json:"leaderElection"`
	// HealthzBindAddress is the IP address of the process's health port; default
	// 127.0.0.1, as the kubelet's. Probes of a pod need 0.0.0.0 or "::".
	HealthzBindAddress string `json:"healthzBindAddress"`
	// HealthzPort is the port of /healthz (the process lives) and /readyz (every
	// node runs, or stands by), plain HTTP as the kubelet's 10248. 0, the default:
	// not served.
	HealthzPort int `json:"healthzPort"`
	// HealthzMetrics lets the health port serve /metrics too, without
	// authentication: those of the process and of all its nodes, each with the label
	// node. Default false: each node's kubelet API alone has its metrics.
	HealthzMetrics bool `json:"healthzMetrics"`
	// Compatibility is for those who come from other virtual kubelets.
	Compatibility Compatibility `json:"compatibility"`
	// Logging says what is logged and how.
	Logging Logging `json:"logging"`
	// Shutdown says how the process ends.
	Shutdown Shutdown `json:"shutdown"`
}

// Node is how the node appears in the cluster.
type Node struct {
	// Name of the Node object. Required in a file; "burstlet" without one. It
	// must be the one that the credential is for.
	Name string `json:"name"`
	// Identity tells this node's pods from those of all others on the same
	// remote: printable ASCII, at most 512 bytes. It stands on the Node, as annotation
	// burstlet.dev/identity, and burstlet does not start with another. Empty: what
	// stands there; on a new Node the UID of Service default/kubernetes and the
	// node's name.
	Identity string `json:"identity"`
	// Labels are set beside those that every node has. Those that the API server
	// does not let a node set are reported with the command an administrator
	// needs.
	Labels map[string]string `json:"labels"`
	// Annotations are set on the Node. burstlet.dev/identity and burstlet.dev/holder
	// are not among them.
	Annotations map[string]string `json:"annotations"`
	// Taints the Node is created with. Left out:
	// virtual-kubelet.io/provider=burstlet:NoSchedule. An empty list: none.
	Taints []corev1.Taint `json:"taints"`
	// Capacity replaces what the backend says of itself, resource by resource.
	Capacity Capacity `json:"capacity"`
	// OnOtherProcess says what happens when another process that is not in this one's
	// leader election renews the node's lease too: "report" it, as an Event on the Node,
	// in the log and in a metric, or "stop": then this process ends if it is the younger of
	// the two or if the other one only reports, and does not start again while the other
	// lives. Default report.
	OnOtherProcess string `json:"onOtherProcess"`
	// InternalIP is the address at which the API server reaches this process.
	// Empty: the one from which this machine reaches the API server.
	InternalIP string `json:"internalIP"`
}

// Capacity is what the node offers. What is left out comes from the backend;
// pods is then 110.
type Capacity struct {
	// CPU in cores, as in 4 or 3500m.
	CPU *Quantity `json:"cpu"`
	// Memory in bytes, as in 16Gi.
	Memory *Quantity `json:"memory"`
	// Pods is how many pods fit.
	Pods *Quantity `json:"pods"`
	// EphemeralStorage in bytes, as in 100Gi.
	EphemeralStorage *Quantity `json:"ephemeral-storage"`
}

// Pods says what pods may ask of the node, and what they are told.
type Pods struct {
	// APIServer is the IP address and port, as in 192.0.2.1:6443, at which pods
	// reach the API server: KUBERNETES_SERVICE_HOST and _PORT in their environment.
	// Empty: the address of Service default/kubernetes, which pods without a
	// kube-proxy cannot reach.
	APIServer string `json:"apiServer"`
	// HostNetwork, HostPID, HostIPC and HostPorts let pods use what is their
	// host's; default true, as on a kubelet, where admission plugins of the cluster
	// are to say no. A pod that asks for what is false is refused.
	HostNetwork bool `json:"hostNetwork"`
	// HostPID: see HostNetwork.
	HostPID bool `json:"hostPID"`
	// HostIPC: see HostNetwork.
	HostIPC bool `json:"hostIPC"`
	// HostPorts: see HostNetwork.
	HostPorts bool `json:"hostPorts"`
	// Privileged lets containers on hosts (cri) be privileged; default true. False
	// refuses what amounts to it, too: capabilities beyond those that Pod Security's
	// level Baseline lets containers add, and procMount Unmasked. The host's namespaces
	// have fields of their own.
	Privileged bool `json:"privileged"`
	// HostPaths are the paths of the host (cri) that pods may mount, with what is
	// below them, as hostPath or as a PersistentVolume of kind hostPath or local. Left
	// out: all. An empty list: none. Below a listed path, links cannot lead out of it,
	// and what the host mounts is not seen. It is a limit only where Privileged is
	// false.
	HostPaths []HostPath `json:"hostPaths"`
	// AllowedUnsafeSysctls are names and patterns, as in net.core.*, that pods may
	// set beyond the safe ones (the kubelet's allowedUnsafeSysctls).
	AllowedUnsafeSysctls []string `json:"allowedUnsafeSysctls"`
	// MaxParallelImagePulls is how many images are pulled at once; default 5.
	MaxParallelImagePulls int `json:"maxParallelImagePulls"`
	// StaticPodPath is a directory of manifests, one Pod a file, or such a file (the
	// kubelet's staticPodPath). The node runs these pods whatever the API server has,
	// and shows each there as a mirror pod. Files whose names begin with a dot are not
	// read. Empty: none.
	StaticPodPath string `json:"staticPodPath"`
	// StaticPodURL is an http or https address of a Pod or PodList that the node runs
	// like those of StaticPodPath, read every 20 seconds (staticPodURL). Empty: none.
	StaticPodURL string `json:"staticPodURL"`
	// StaticPodURLHeader is what is sent with each request for StaticPodURL
	// (staticPodURLHeader), as in Authorization: [Bearer …].
	StaticPodURLHeader map[string][]string `json:"staticPodURLHeader"`
}

// HostPath is a path of the host that pods may mount. The fields are those of
// allowedHostPaths in a PodSecurityPolicy.
type HostPath struct {
	// PathPrefix is an absolute path: /foo allows /foo and /foo/bar, not /foobar.
	// Required. Links in it are the host's own, and followed.
	PathPrefix string `json:"pathPrefix"`
	// ReadOnly lets containers mount it only with readOnly; default false. Nothing is
	// made there for a type such as DirectoryOrCreate.
	ReadOnly bool `json:"readOnly"`
}

// Eviction says when pods are evicted because their host runs short of something; the names
// and the syntax are the kubelet's. Signals are memory.available,
// allocatableMemory.available, nodefs.available, nodefs.inodesFree, imagefs.available,
// imagefs.inodesFree and pid.available.
type Eviction struct {
	// Hard holds thresholds by signal, as a quantity or a percentage of the capacity:
	// as soon as less is left, the pressure condition of the Node is True,
	// and pods are evicted one by one with next to no grace. Left out, with backend cri:
	// memory.available: 100Mi, nodefs.available: 10%, nodefs.inodesFree: 5%,
	// imagefs.available: 15%, imagefs.inodesFree: 5%. Given: those alone, "{}" none.
	Hard map[string]string `json:"evictionHard"`
	// Soft holds thresholds that are acted on once they were met for as long as
	// SoftGracePeriod says.
	Soft map[string]string `json:"evictionSoft"`
	// SoftGracePeriod holds a duration for each signal of Soft.
	SoftGracePeriod map[string]string `json:"evictionSoftGracePeriod"`
	// MaxPodGracePeriod is the most seconds that a pod gets to end for a soft threshold;
	// default 0, next to none.
	MaxPodGracePeriod int32 `json:"evictionMaxPodGracePeriod"`
	// MinimumReclaim is how much more than its threshold is to be had back once it is acted
	// on, by signal.
	MinimumReclaim map[string]string `json:"evictionMinimumReclaim"`
	// PressureTransitionPeriod is how long a pressure condition stays True after its last
	// threshold was met; default 5m, for 0 too.
	PressureTransitionPeriod Duration `json:"evictionPressureTransitionPeriod"`
}

// Client bounds the calls to the API server.
type Client struct {
	// QPS is the number of calls a second over time; default 50, the kubelet's
	// kubeAPIQPS.
	QPS float32 `json:"qps"`
	// Burst is how many calls may exceed QPS for a moment; default 100, the
	// kubelet's kubeAPIBurst.
	Burst int `json:"burst"`
}

// Backend says where pods run. Only the section that Type names may be given.
type Backend struct {
	// Type is "sim", "cri" or "ecs". Required in a file; "sim" without one.
	Type string `json:"type"`
	// Sim is the simulated remote, which runs no container.
	Sim *Sim `json:"sim"`
	// CRI is a container runtime on this host or on one over SSH.
	CRI *CRI `json:"cri"`
	// ECS is AWS ECS on Fargate.
	ECS *ECS `json:"ecs"`
}

// Sim is the simulated remote.
type Sim struct {
	// Socket is where a "burstlet sim" listens, as in
	// unix:///run/burstlet-sim.sock: its pods outlive this process. Empty: the
	// remote is in this process and ends with it.
	Socket string `json:"socket"`
	// Granularity is the unit of restart: "container", as on a host, or "pod",
	// as on ECS; default "container". It excludes Socket: there, burstlet sim
	// decides.
	Granularity string `json:"granularity"`
}

// CRI is a container runtime that speaks CRI v1, on this host or on one that is
// reached over SSH.
type CRI struct {
	// Endpoint is the runtime's socket on this host, as in
	// unix:///run/containerd/containerd.sock, the default, or the host where it is:
	// ssh://user@host or ssh://user@host:port.
	Endpoint string `json:"endpoint"`
	// SSH says how a host is reached; only with an ssh endpoint.
	SSH *SSH `json:"ssh"`
	// RuntimeSocket is the path of the runtime's socket on a host reached over SSH;
	// default /run/containerd/containerd.sock.
	RuntimeSocket string `json:"runtimeSocket"`
	// PodsDir holds what pods have on the host, their volumes above all; default
	// /var/lib/burstlet/pods.
	PodsDir string `json:"podsDir"`
	// SeccompProfileRoot holds the profiles that pods name as localhostProfile;
	// default /var/lib/kubelet/seccomp.
	SeccompProfileRoot string `json:"seccompProfileRoot"`
	// SeccompDefault gives containers for which the pod names no seccomp profile that of the
	// runtime (the kubelet's seccompDefault); default false: they are unconfined.
	SeccompDefault bool `json:"seccompDefault"`
	// ContainerLogMaxSize is the size at which a container's log is rotated; default
	// 10Mi.
	ContainerLogMaxSize *Quantity `json:"containerLogMaxSize"`
	// ContainerLogMaxFiles is how many files of a container's log are kept, at least
	// 2; default 5.
	ContainerLogMaxFiles int `json:"containerLogMaxFiles"`
	// SystemReserved is what of the host pods may not use (the kubelet's
	// systemReserved); default nothing. The node's allocatable resources are its
	// capacity less this, and the cgroup above all pods is limited to what the host has
	// less this, with the next pod that starts. Limits stay on the host when this is taken
	// back, until it reboots.
	SystemReserved SystemReserved `json:"systemReserved"`
	// PodPidsLimit is the most processes that a pod may have; 0, the default, is no
	// limit.
	PodPidsLimit int64 `json:"podPidsLimit"`
	// ShutdownGracePeriod is how long pods have to end when systemd shuts the host down (the
	// kubelet's); default 0s: nobody looks whether it does, and pods end with the host.
	// burstlet holds a lock that delays the shutdown, and raises InhibitDelayMaxSec of the
	// host's logind, until the next boot, where that is less.
	ShutdownGracePeriod Duration `json:"shutdownGracePeriod"`
	// ShutdownGracePeriodCriticalPods is the last part of it, in which pods of priority
	// 2000000000 and above end (the kubelet's); default 0s.
	ShutdownGracePeriodCriticalPods Duration `json:"shutdownGracePeriodCriticalPods"`
	// ShutdownGracePeriodByPodPriority gives each group of priorities its own time, in the
	// place of those two (the kubelet's). Lower priorities end first.
	ShutdownGracePeriodByPodPriority []ShutdownGroup `json:"shutdownGracePeriodByPodPriority"`
	// MemorySwap is what containers may use of the host's swap (the kubelet's memorySwap).
	MemorySwap MemorySwap `json:"memorySwap"`
	// PodLogsDir holds the containers' logs; default /var/log/pods. The nodes of a host should
	// have the same: there stands which ids pods with hostUsers: false have.
	PodLogsDir string `json:"podLogsDir"`
	// ContainerLogsDir holds the links that log collectors read; default
	// /var/log/containers.
	ContainerLogsDir string `json:"containerLogsDir"`
	// CgroupParent is the name of the cgroup above all pods; default "burstlet".
	CgroupParent string `json:"cgroupParent"`
	// CgroupDriver is "cgroupfs" or "systemd". Empty: as the runtime says.
	CgroupDriver string `json:"cgroupDriver"`
	// ResolvConf is the host's resolver configuration; default /etc/resolv.conf.
	ResolvConf string `json:"resolvConf"`
}

// SSH says how a pods' host is reached. The user is root, or a member of the group
// of the runtime's socket who may use sudo without a password.
type SSH struct {
	// KeyFiles hold private keys, tried in turn and read at every connect. A certificate
	// FILE-cert.pub beside one is tried before it, while it is valid.
	KeyFiles []string `json:"keyFiles"`
	// PassphraseFile holds the passphrase of those keys that have one. It is read at every
	// connect; a line break at its end is none of it.
	PassphraseFile string `json:"passphraseFile"`
	// Agent is the socket of an SSH agent, as in $SSH_AUTH_SOCK, that is asked for
	// keys.
	Agent string `json:"agent"`
	// KnownHostsFile holds the keys of the host and of the jump hosts, in the format
	// of OpenSSH's known_hosts. Required unless InsecureIgnoreHostKey is set.
	KnownHostsFile string `json:"knownHostsFile"`
	// InsecureIgnoreHostKey accepts any host that answers: whoever does gets the
	// pods with their secrets. It warns at every start; default false.
	InsecureIgnoreHostKey bool `json:"insecureIgnoreHostKey"`
	// JumpHosts are passed on the way to the host, in order: user@host or
	// user@host:port. They accept the same keys. There is no ProxyCommand: a host that only
	// a program reaches needs a jump host.
	JumpHosts []string `json:"jumpHosts"`
	// JumpKeyFiles are the private keys for jump hosts that take others than keyFiles and
	// agent, by their entry in jumpHosts.
	JumpKeyFiles map[string][]string `json:"jumpKeyFiles"`
	// Keepalive is the pause between signs of life; default 5s.
	Keepalive Duration `json:"keepalive"`
	// KeepaliveMax is how many of them may stay without an answer before a connection
	// is given up and made anew; default 3.
	KeepaliveMax int `json:"keepaliveMax"`
}

// ECS is AWS ECS on Fargate. Credentials are not part of the configuration: the
// AWS SDK finds them in its environment variables, files and roles.
type ECS struct {
	// Region is the AWS region, as in eu-central-1. Required.
	Region string `json:"region"`
	// Cluster is the name or ARN of the ECS cluster. Required.
	Cluster string `json:"cluster"`
	// Subnets are the ids of 1 to 16 subnets of one VPC for the tasks. Required.
	Subnets []string `json:"subnets"`
	// SecurityGroups are the ids of up to 5 groups; none: the VPC's default.
	SecurityGroups []string `json:"securityGroups"`
	// AssignPublicIP gives each task a public address; default false.
	AssignPublicIP bool `json:"assignPublicIP"`
	// ExecutionRoleARN is the role that pulls from private ECR and writes logs.
	ExecutionRoleARN string `json:"executionRoleARN"`
	// TaskRoleARN is the role that the containers have.
	TaskRoleARN string `json:"taskRoleARN"`
	// CPUArchitecture is X86_64 or ARM64; default X86_64.
	CPUArchitecture string `json:"cpuArchitecture"`
	// LogGroup is the CloudWatch group for the containers' output; empty: none.
	// It needs ExecutionRoleARN.
	LogGroup string `json:"logGroup"`
	// LogOptions are options of the awslogs log driver over burstlet's own, as in
	// mode: blocking.
	LogOptions map[string]string `json:"logOptions"`
	// TaskImage is the image with burstlet-task, which supervises the containers of
	// every pod. Without it pods are refused that have files in volumes (tokens too),
	// emptyDirs that others than root write to, several app containers, probes, hooks
	// or whatever else is done inside the task (docs/fields.md).
	TaskImage string `json:"taskImage"`
	// ExecEnabled is false where tasks run without ECS Exec, whose agent takes 40 MiB in each
	// container of a task, which is counted in its size: without it exec, cp, port-forward
	// and stats do not work. Pods choose by the annotation ecs.burstlet.dev/exec. Default
	// true; it needs taskImage and taskRoleARN.
	ExecEnabled *bool `json:"exec"`
	// RegistryMirrors are endpoints that are asked in the place of registries what
	// images say of themselves, by the registry's host as images name it: a URL such as
	// https://mirror.example:5000, http for one that speaks that alone. Pull secrets are
	// used for them too. Fargate pulls from the registries themselves.
	RegistryMirrors map[string]string `json:"registryMirrors"`
	// ClusterDNS is "routed" where tasks reach the addresses of clusterDNS: then pods
	// with dnsPolicy ClusterFirst ask them. Empty: they ask the VPC's resolver.
	ClusterDNS string `json:"clusterDNS"`
	// Refresh is how often a task looks for files of volumes that changed; default 5m,
	// at least 5s. Pods with tokens of short lives look more often.
	Refresh Duration `json:"refresh"`
	// Stats is "sessions" to measure what pods use (kubectl top, autoscalers) through a
	// session of ECS Exec in each task, which then stays open: it needs taskImage and a
	// task role with which ECS Exec works. Empty: nothing is measured.
	Stats string `json:"stats"`
	// CapacityTypes are on-demand, spot or both, in the order to try; default
	// on-demand. Spot needs the cluster to have the capacity provider FARGATE_SPOT.
	CapacityTypes []string `json:"capacityTypes"`
	// PlatformVersion is Fargate's, 1.4.0 or newer; default LATEST.
	PlatformVersion string `json:"platformVersion"`
	// EphemeralStorageGiB is each task's, at least: 21 to 200; default Fargate's 20.
	EphemeralStorageGiB int32 `json:"ephemeralStorageGiB"`
	// EBS is how the volumes are made that pods want for themselves
	// (spec.volumes[].ephemeral); default: such pods are refused.
	EBS *ECSVolumes `json:"ebs"`
	// Prices are what sizes are chosen by and costs are told in; default AWS's list of the
	// region, or that of us-east-1 where burstlet has none.
	Prices *ECSPrices `json:"prices"`
	// EventQueueURL is the SQS queue of this node with the state changes of its tasks
	// (deploy/aws/README.md); empty: tasks are only polled.
	EventQueueURL string `json:"eventQueueURL"`
	// PayloadBucket is the S3 bucket, in the node's region, for files of single pods, such
	// as tokens (deploy/aws/README.md); empty: each such pod has a secret of its own in
	// Secrets Manager, which costs some fifty times as much.
	PayloadBucket string `json:"payloadBucket"`
	// PayloadPrefix begins the keys of the objects in that bucket, as in clusters/one;
	// default: they begin with burstlet/.
	PayloadPrefix string `json:"payloadPrefix"`
	// Settle is how long a task may take to show in listings; default 5m, the
	// longest wait that AWS advises. So long does a launch without a reply keep its
	// pod from being gone.
	Settle Duration `json:"settle"`
	// UnusedAfter is how long task definitions and shared secrets that no task uses
	// are kept for the next pod of their kind; default 24h, at least 1h.
	UnusedAfter Duration `json:"unusedAfter"`
	// Endpoint is the URL of a test server instead of AWS; empty: AWS.
	Endpoint string `json:"endpoint"`
}

// StatsSessions is ECS.Stats where tasks are measured through sessions.
const StatsSessions = "sessions"

// DNSRouted is ECS.ClusterDNS where tasks reach the cluster's name servers.
const DNSRouted = "routed"

// ECSVolumes are volumes of Amazon EBS that are made for single pods.
type ECSVolumes struct {
	// RoleARN is the ECS infrastructure role, which makes and deletes the volumes.
	// Required.
	RoleARN string `json:"roleARN"`
	// VolumeType is gp3, gp2, io1, io2, st1 or sc1; default gp3. With io1 and io2
	// each pod needs the annotation ecs.burstlet.dev/ebs-iops.
	VolumeType string `json:"volumeType"`
	// Encrypted asks for it where the account does not encrypt anyway; default false.
	Encrypted bool `json:"encrypted"`
	// KMSKeyID is the key of encrypted volumes; default the account's.
	KMSKeyID string `json:"kmsKeyID"`
	// FilesystemType is ext3, ext4 or xfs; default xfs.
	FilesystemType string `json:"filesystemType"`
}

// ECSPrices are the prices of a region, in dollars an hour (AWS Fargate Pricing).
type ECSPrices struct {
	// VCPU is the price of one vCPU with x86.
	VCPU float64 `json:"vcpu"`
	// GB is the price of one GB of memory with x86.
	GB float64 `json:"gb"`
	// ARMVCPU is the price of one vCPU with ARM.
	ARMVCPU float64 `json:"armVCPU"`
	// ARMGB is the price of one GB of memory with ARM.
	ARMGB float64 `json:"armGB"`
	// StorageGB is of one GB of ephemeral storage beyond the first 20.
	StorageGB float64 `json:"storageGB"`
	// EBSGB is of one GiB of an EBS volume of type gp3; default that of us-east-1.
	EBSGB float64 `json:"ebsGB"`
	// SpotFactor is what Spot costs as a part of the price on demand, 0 to 1.
	SpotFactor float64 `json:"spotFactor"`
}

// KubeletAPI is the HTTPS server that the API server calls for kubectl logs.
// Without CertFile, SelfSigned and ServerTLSBootstrap it is not served.
type KubeletAPI struct {
	// Address is the IP address to listen on. Empty: all.
	Address string `json:"address"`
	// Port to listen on, published in the Node's status; default 10250. Entries of
	// nodes that give none count up from it: 10250, 10251, …
	Port int `json:"port"`
	// CertFile and KeyFile hold the serving certificate and its key in PEM. They
	// are read again when they change.
	CertFile string `json:"certFile"`
	// KeyFile: see CertFile.
	KeyFile string `json:"keyFile"`
	// SelfSigned serves with a self-signed certificate, made in memory, which clients
	// cannot verify; default false, true without a file.
	SelfSigned bool `json:"selfSigned"`
	// ServerTLSBootstrap requests the serving certificate from the cluster by a
	// CertificateSigningRequest, which somebody must approve, and rotates it (the
	// kubelet's serverTLSBootstrap); default false. It excludes CertFile and
	// SelfSigned.
	ServerTLSBootstrap bool `json:"serverTLSBootstrap"`
	// SignerName is the signer asked for that certificate; default
	// kubernetes.io/kubelet-serving. It needs ServerTLSBootstrap.
	SignerName string `json:"signerName"`
	// ClientCAFile holds the CAs of client certificates in PEM, read again when
	// it changes. Empty: those that the cluster publishes in ConfigMap
	// kube-system/extension-apiserver-authentication.
	ClientCAFile string `json:"clientCAFile"`
	// EnableSystemLogHandler serves /var/log of the pods' host at /logs/ to those with the
	// right nodes/log (the kubelet's enableSystemLogHandler); default true.
	EnableSystemLogHandler bool `json:"enableSystemLogHandler"`
	// EnableSystemLogQuery answers /logs/?query=SERVICE with what services of that host
	// logged, in its journal or in files (the kubelet's enableSystemLogQuery); default
	// false. It needs EnableSystemLogHandler.
	EnableSystemLogQuery bool `json:"enableSystemLogQuery"`
}

// Logging says what is logged and how.
type Logging struct {
	// Level is the least serious level that is logged: error, warn, info, debug
	// or trace; default info.
	Level string `json:"level"`
	// Format is "text" or "json"; default text.
	Format string `json:"format"`
}

// Compatibility is for those who come from other virtual kubelets.
type Compatibility struct {
	// VirtualKubeletEvents adds virtual-kubelet's own Events about ConfigMaps and
	// Secrets that a container's environment lacks to the kubelet's; default false.
	VirtualKubeletEvents bool `json:"virtualKubeletEvents"`
}

// LeaderElection lets several processes with the same nodes stand by for each
// other; only who holds a node's lease runs it. Each node has a lease of its own,
// or with name all nodes have one.
type LeaderElection struct {
	// Enabled turns it on; default false.
	Enabled bool `json:"enabled"`
	// Namespace of the Leases that are fought for. Not kube-node-lease, where a
	// node's credential may only write the node's own. Default: the namespace of
	// the pod that this process runs in; required elsewhere.
	Namespace string `json:"namespace"`
	// Name of the Lease; default burstlet-<node>. With nodes it is one Lease for all
	// of them, so that one process runs them all and asks the API server as often as
	// for one; without it each node's Lease is its own, and each node moves by itself
	// to another process when it fails. All processes with these nodes must have the
	// same name here.
	Name string `json:"name"`
	// Kubeconfig is the file with the access to that Lease (get, create, update),
	// which a node's credential does not give. Empty: $KUBECONFIG, else the pod's
	// own service account, else ~/.kube/config.
	Kubeconfig string `json:"kubeconfig"`
	// LeaseDuration is how long a lease that is not renewed keeps others out, in
	// whole seconds; default 8s. After a crash the next leader follows the last
	// renewal by LeaseDuration at the soonest and by LeaseDuration + 2.4 *
	// RetryPeriod (10.4s) and its calls' time at the latest; after a clean end at
	// once, within 1.8 * RetryPeriod.
	LeaseDuration Duration `json:"leaseDuration"`
	// RenewDeadline is how long a leader tries to renew before it gives up; default
	// 6s. One whose pods run on a host goes on with them, since the host refuses
	// changes of a leader that has a successor.
	RenewDeadline Duration `json:"renewDeadline"`
	// RetryPeriod is the pause between renewals; those who wait read the lease after
	// 1.25 to 1.8 times as long. Default 1s.
	RetryPeriod Duration `json:"retryPeriod"`
}
