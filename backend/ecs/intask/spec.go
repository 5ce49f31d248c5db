package intask

import (
	"encoding/json"
	"fmt"
)

// Spec is what the supervisor of one container is told, as JSON in EnvSupervise.
// It is of the shape: nothing of a Secret and nothing of one pod alone stands in it.
type Spec struct {
	// Container is the container's name, for messages.
	Container string   `json:"container"`
	Identity  Identity `json:"identity"`
	// Kept names variables that the container's spec or its image sets, of those
	// that a runtime sets where nobody does: HOME, HOSTNAME.
	Kept []string `json:"kept,omitempty"`
	// Grace in seconds from the request to end to SIGKILL (pod:
	// terminationGracePeriodSeconds); preStop counts in. As at the kubelet at least
	// 2 s remain after preStop. ECS's own stopTimeout should be longer by those and
	// a second, or the last words are lost.
	Grace int64 `json:"grace"`
	// StopSignal is sent to the container ("SIGQUIT", "SIGRTMIN+3"):
	// lifecycle.stopSignal; empty is ImageStopSignal.
	StopSignal string `json:"stopSignal,omitempty"`
	// ImageStopSignal is the image's STOPSIGNAL, which ECS sends to the supervisor to
	// end it; empty is SIGTERM.
	ImageStopSignal string `json:"imageStopSignal,omitempty"`

	Startup   *Probe   `json:"startup,omitempty"`
	Liveness  *Probe   `json:"liveness,omitempty"`
	Readiness *Probe   `json:"readiness,omitempty"`
	PostStart *Handler `json:"postStart,omitempty"`
	PreStop   *Handler `json:"preStop,omitempty"`

	// Hosts is nil where /etc/hosts stays ECS's.
	Hosts *Hosts `json:"hosts,omitempty"`
	// DNS is nil where /etc/resolv.conf stays ECS's.
	DNS      *DNS      `json:"dns,omitempty"`
	SubPaths []SubPath `json:"subPaths,omitempty"`
	// InMemory are emptyDirs in memory, which only this container sees.
	InMemory *InMemory `json:"inMemory,omitempty"`

	// MessagePath is terminationMessagePath; empty is the default.
	MessagePath string `json:"messagePath,omitempty"`
	// MessageFromLogs is terminationMessagePolicy FallbackToLogsOnError: of a
	// container that fails without a message its log is the message.
	MessageFromLogs bool `json:"messageFromLogs,omitempty"`
}

// InMemory are the mount paths of emptyDirs in memory that get the pod's fsGroup.
type InMemory struct {
	Group int64    `json:"group"`
	Paths []string `json:"paths"`
}

// Identity is who the container's processes are.
type Identity struct {
	// UID is runAsUser; nil: ImageUser.
	UID *int64 `json:"uid,omitempty"`
	// GID is runAsGroup; nil: the user's of /etc/passwd, or 0.
	GID *int64 `json:"gid,omitempty"`
	// ImageUser is USER of the image, "name" or "uid", as it stands there: a group
	// after a colon is dropped, as the kubelet does. Empty is root.
	ImageUser string `json:"imageUser,omitempty"`
	// Groups are supplementalGroups and fsGroup.
	Groups []int64 `json:"groups,omitempty"`
	// StrictGroups leaves out the user's groups of the image's /etc/group
	// (supplementalGroupsPolicy Strict).
	StrictGroups bool `json:"strictGroups,omitempty"`
	// NonRoot is runAsNonRoot: the container is not started as root.
	NonRoot bool `json:"nonRoot,omitempty"`
	// Drop and Add are capabilities as the pod names them ("NET_RAW", "ALL"). One that
	// both name is dropped. What is added must be among those that the container has.
	Drop []string `json:"drop,omitempty"`
	Add  []string `json:"add,omitempty"`
	// NoNewPrivileges is allowPrivilegeEscalation: false.
	NoNewPrivileges bool `json:"noNewPrivileges,omitempty"`
}

// Probe is one of a container's probes. Numbers are the API's, in seconds and
// times; 0 is the API's default.
type Probe struct {
	Handler
	InitialDelay     int32 `json:"initialDelay,omitempty"`
	Period           int32 `json:"period,omitempty"`
	Timeout          int32 `json:"timeout,omitempty"`
	SuccessThreshold int32 `json:"successThreshold,omitempty"`
	FailureThreshold int32 `json:"failureThreshold,omitempty"`
	// Grace is the probe's own terminationGracePeriodSeconds.
	Grace *int64 `json:"grace,omitempty"`
}

// Handler is what a probe or hook does: exactly one of its members.
type Handler struct {
	// Exec is the command: $(VAR) in that of a probe is expanded already, with the
	// literal variables of the pod alone (kubelet: ExpandContainerCommandOnlyStatic).
	Exec []string   `json:"exec,omitempty"`
	HTTP *HTTPGet   `json:"http,omitempty"`
	TCP  *TCPSocket `json:"tcp,omitempty"`
	GRPC *GRPC      `json:"grpc,omitempty"`
	// Sleep in seconds, of hooks.
	Sleep *int64 `json:"sleep,omitempty"`
}

// HTTPGet is an httpGet handler.
type HTTPGet struct {
	// Scheme is "HTTP" or "HTTPS"; empty is HTTP.
	Scheme string `json:"scheme,omitempty"`
	// Host is asked; empty is the task.
	Host string `json:"host,omitempty"`
	// Port is a number: names were looked up.
	Port    int32    `json:"port"`
	Path    string   `json:"path,omitempty"`
	Headers []Header `json:"headers,omitempty"`
}

// Header is one header of a request.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// TCPSocket is a tcpSocket handler.
type TCPSocket struct {
	Host string `json:"host,omitempty"`
	Port int32  `json:"port"`
}

// GRPC is a grpc handler.
type GRPC struct {
	Port    int32  `json:"port"`
	Service string `json:"service,omitempty"`
}

// Hosts is what stands in /etc/hosts beside the loopback names and the pod's own
// (EnvHostname).
type Hosts struct {
	Aliases []HostAlias `json:"aliases,omitempty"`
}

// HostAlias is one of a pod's hostAliases.
type HostAlias struct {
	IP        string   `json:"ip"`
	Hostnames []string `json:"hostnames"`
}

// DNSPolicy is where /etc/resolv.conf begins.
type DNSPolicy string

// The policies: that of ECS, the cluster's, or nothing.
const (
	DNSDefault DNSPolicy = "Default"
	DNSCluster DNSPolicy = "ClusterFirst"
	DNSNone    DNSPolicy = "None"
)

// DNS is what becomes of /etc/resolv.conf.
type DNS struct {
	Policy DNSPolicy `json:"policy"`
	// ClusterServers are the cluster's name servers, ClusterSearches its search
	// domains for the pod ("ns.svc.cluster.local", …), of DNSCluster.
	ClusterServers  []string `json:"clusterServers,omitempty"`
	ClusterSearches []string `json:"clusterSearches,omitempty"`
	// Servers, Searches and Options are the pod's dnsConfig; an option is "name" or
	// "name:value".
	Servers  []string `json:"servers,omitempty"`
	Searches []string `json:"searches,omitempty"`
	Options  []string `json:"options,omitempty"`
}

// SubPath is a mount of a part of a volume.
type SubPath struct {
	// MountPath becomes a link to Path in Volume, where the whole volume is mounted
	// (SubDir).
	MountPath string `json:"mountPath"`
	Volume    string `json:"volume"`
	Path      string `json:"path"`
	// Expand is true for subPathExpr: $(VAR) is expanded with the container's
	// environment.
	Expand bool `json:"expand,omitempty"`
	// ReadOnly is true where nothing can be made in the volume.
	ReadOnly bool `json:"readOnly,omitempty"`
}

// Encode is the spec as EnvSupervise has it, the same for the same spec.
func (s Spec) Encode() (string, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encode the supervisor's orders: %w", err)
	}
	return string(b), nil
}

// decodeSpec reads what Encode made.
func decodeSpec(text string) (Spec, error) {
	var s Spec
	if text == "" {
		return s, fmt.Errorf("there is no %s", EnvSupervise)
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("read %s: %w", EnvSupervise, err)
	}
	return s, nil
}
