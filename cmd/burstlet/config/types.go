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

// Configuration is the whole configuration of one node.
type Configuration struct {
	// TypeMeta must be apiVersion burstlet.dev/v1alpha1, kind
	// BurstletConfiguration.
	metav1.TypeMeta `json:",inline"`

	// Node says how the node appears in the cluster.
	Node Node `json:"node"`
	// Kubeconfig is the file with the node's access to the API server. Empty:
	// $KUBECONFIG, else the pod's own service account, else ~/.kube/config.
	Kubeconfig string `json:"kubeconfig"`
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
// Without CertFile and without SelfSigned it is not served.
type KubeletAPI struct {
	// Address is the IP address to listen on. Empty: all.
	Address string `json:"address"`
	// Port to listen on, published in the Node's status; default 10250.
	Port int `json:"port"`
	// CertFile and KeyFile hold the serving certificate and its key in PEM. They
	// are read again when they change.
	CertFile string `json:"certFile"`
	// KeyFile: see CertFile.
	KeyFile string `json:"keyFile"`
	// SelfSigned makes a certificate in memory, which nobody can verify; default
	// false, true without a file.
	SelfSigned bool `json:"selfSigned"`
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

// Shutdown says how the process ends. Pods stay on the remote in any case.
type Shutdown struct {
	// FlushTimeout bounds the writing of the last statuses; default 10s.
	FlushTimeout Duration `json:"flushTimeout"`
}
