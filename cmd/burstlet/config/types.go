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
	// host. Only the cri backend uses it.
	ClusterDNS []string `json:"clusterDNS"`
	// ClusterDomain is the DNS domain of the cluster; default "cluster.local".
	// It is used together with ClusterDNS.
	ClusterDomain string `json:"clusterDomain"`
	// Pods says what pods may ask of the node, and what they are told.
	Pods Pods `json:"pods"`
	// LeaderElection lets several processes stand by for the same nodes.
	LeaderElection LeaderElection `json:"leaderElection"`
	// HealthzBindAddress is the IP address of the process's health port; default
	// 127.0.0.1, as the kubelet's. Probes of a pod need 0.0.0.0 or "::".
	HealthzBindAddress string `json:"healthzBindAddress"`
	// HealthzPort is the port of /healthz (the process lives) and /readyz (every
	// node runs, or stands by), plain HTTP as the kubelet's 10248. 0, the default:
	// not served.
	HealthzPort int `json:"healthzPort"`
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
	// remote: printable ASCII, at most 512 bytes. It must never change while pods
	// run, or they are not found again. Empty: the UID of Service
	// default/kubernetes and the node's name.
	Identity string `json:"identity"`
	// Labels are set beside those that every node has. Those that the API server
	// does not let a node set are reported with the command an administrator
	// needs.
	Labels map[string]string `json:"labels"`
	// Annotations are set on the Node.
	Annotations map[string]string `json:"annotations"`
	// Taints the Node is created with. Left out:
	// virtual-kubelet.io/provider=burstlet:NoSchedule. An empty list: none.
	Taints []corev1.Taint `json:"taints"`
	// Capacity replaces what the backend says of itself, resource by resource.
	Capacity Capacity `json:"capacity"`
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
	// AllowedUnsafeSysctls are names and patterns, as in net.core.*, that pods may
	// set beyond the safe ones (the kubelet's allowedUnsafeSysctls).
	AllowedUnsafeSysctls []string `json:"allowedUnsafeSysctls"`
	// MaxParallelImagePulls is how many images are pulled at once; default 5.
	MaxParallelImagePulls int `json:"maxParallelImagePulls"`
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
	// CRI is a container runtime on this host.
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

// CRI is a container runtime on this host that speaks CRI v1.
type CRI struct {
	// Endpoint is the runtime's socket; default
	// unix:///run/containerd/containerd.sock.
	Endpoint string `json:"endpoint"`
	// PodLogsDir holds the containers' logs; default /var/log/pods.
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
	// Endpoint is the URL of a test server instead of AWS; empty: AWS.
	Endpoint string `json:"endpoint"`
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
	// SelfSigned makes a certificate in memory, which nobody can verify; default
	// false, true without a file.
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
// other. There is one election per node; only who holds a node's lease runs it.
type LeaderElection struct {
	// Enabled turns it on; default false.
	Enabled bool `json:"enabled"`
	// Namespace of the Leases that are fought for. Not kube-node-lease, where a
	// node's credential may only write the node's own. Default: the namespace of
	// the pod that this process runs in; required elsewhere.
	Namespace string `json:"namespace"`
	// Name of the Lease; default burstlet-<node>. Not with nodes, whose elections
	// differ by that name.
	Name string `json:"name"`
	// Kubeconfig is the file with the access to that Lease (get, create, update),
	// which a node's credential does not give. Empty: $KUBECONFIG, else the pod's
	// own service account, else ~/.kube/config.
	Kubeconfig string `json:"kubeconfig"`
	// LeaseDuration is how long a lease that is not renewed keeps others out, in
	// whole seconds; default 8s. After a crash the next leader follows the last
	// renewal by LeaseDuration at the soonest and by LeaseDuration + 4.4 *
	// RetryPeriod (12.4s) and its calls' time at the latest; after a clean end at
	// once, within 2.2 * RetryPeriod.
	LeaseDuration Duration `json:"leaseDuration"`
	// RenewDeadline is how long a leader tries to renew before it gives up; default
	// 6s.
	RenewDeadline Duration `json:"renewDeadline"`
	// RetryPeriod is the pause between renewals; those who wait look after 1 to 2.2
	// times as long. Default 1s.
	RetryPeriod Duration `json:"retryPeriod"`
}

// Shutdown says how the process ends on SIGTERM.
type Shutdown struct {
	// FlushTimeout bounds the writing of the last statuses; default 10s.
	FlushTimeout Duration `json:"flushTimeout"`
	// Mode is "leave", so that pods stay on the remote and are found again, or
	// "drain", so that they are ended as on a machine that is shut down; default
	// leave. It must be leave with leaderElection, where the next leader takes the
	// pods over.
	Mode string `json:"mode"`
	// GracePeriod is how long draining may take, the kubelet's shutdownGracePeriod;
	// default 30s. The process needs GracePeriod + FlushTimeout before it is killed.
	GracePeriod Duration `json:"gracePeriod"`
	// GracePeriodCriticalPods is the last part of it, in which pods of priority
	// 2000000000 and above are ended (shutdownGracePeriodCriticalPods); default 10s.
	GracePeriodCriticalPods Duration `json:"gracePeriodCriticalPods"`
}
