package provider

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/provider/kubeletapi"
)

// Engine is what this package asks of the pods' engine.
type Engine = kubeletapi.Engine

// The defaults of NodeOptions and Config.
const (
	defaultMaxPods      = 110 // the kubelet's
	defaultStartTimeout = 20 * time.Second
)

// DefaultTaint keeps pods away that do not ask for this kind of node.
func DefaultTaint() corev1.Taint {
	return corev1.Taint{Key: "virtual-kubelet.io/provider", Value: "burstlet", Effect: corev1.TaintEffectNoSchedule}
}

// Config is what a Node is made of. All fields are required but those that say
// otherwise.
type Config struct {
	NodeName string
	// Client has the node's credential.
	Client kubernetes.Interface
	// Heartbeats is a client with the same credential and without a limit of its own, for
	// the node's registration, lease and status. Nil: Client.
	Heartbeats kubernetes.Interface
	// Server is the URL of the API server, for messages and to find the node's
	// address.
	Server string
	// Pods is what NewPodInformer returned, not started.
	Pods cache.SharedIndexInformer
	// Enqueue is told that the pod under namespace/name may have changed. It must
	// not block. It may be called before the informer has synced.
	Enqueue func(key string)
	// Synced is called once, after the informer has synced and every pod of that
	// first listing was enqueued. May be nil.
	Synced func()
	Engine Engine
	// Pressure returns the pressure conditions of the node that are true; false while they
	// are not known. Nil: there is never any.
	Pressure func() ([]corev1.NodeConditionType, bool)
	// Backend is what runs the pods; of it Name, Node and Store are used.
	Backend backend.Backend
	Node    NodeOptions
	// API are the choices for the kubelet's HTTP API. Nil: it is not served, and
	// kubectl logs does not work.
	API *kubeletapi.Options
	// Event tells users about the Node, as record.EventRecorder does. May be nil.
	Event func(object *corev1.ObjectReference, kind, reason, message string)
	// Registerer takes metrics, Gatherer is what /metrics shows. May be nil.
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
	// Probes is what /metrics/probes shows, ConfigZ what /configz does beside the
	// kubelet API's own settings, FlagZ what /flagz does. May be nil.
	Probes  prometheus.Gatherer
	ConfigZ *kubeletv1beta1.KubeletConfiguration
	FlagZ   map[string]string
	// Holder is this process and the election by which it leads the node; without a Process
	// neither Node nor lease say who has them. Since is filled in.
	Holder Holder
	// YieldToOther ends Run where another process has the node, and had it before or does not
	// end for others itself.
	YieldToOther bool
	// StartTimeout is how long Run tries to reach the API server before it
	// gives up at its start; 20 s when zero.
	StartTimeout time.Duration
}

// NodeOptions are the operator's choices for the Node object.
type NodeOptions struct {
	// Labels and Annotations are set beside those that every node has.
	Labels, Annotations map[string]string
	// Identity is what the node's pods are told by on the remote. It stands on the Node,
	// as IdentityAnnotation; empty: none does.
	Identity string
	// Taints the Node is created with. Nil: DefaultTaint alone; empty: none.
	Taints []corev1.Taint
	// Capacity overrides what the backend says of itself, resource by resource.
	Capacity corev1.ResourceList
	// MaxPods is the number of pods that fit; 110 when zero.
	MaxPods int64
	// MaxImages is how many images the Node's status names, the largest ones; -1 is
	// all, nil is 50 (the kubelet's nodeStatusMaxImages).
	MaxImages *int
	// InternalIP is where this process is reached by the API server. Empty: the
	// address from which this machine reaches the API server.
	InternalIP string
	// Version is shown as the kubelet's version: see KubeletVersion.
	Version string
}

func (c *Config) check() error {
	var missing []error
	for name, absent := range map[string]bool{
		"node name": c.NodeName == "", "client": c.Client == nil, "pod informer": c.Pods == nil,
		"Enqueue": c.Enqueue == nil, "engine": c.Engine == nil, "backend": c.Backend.Node == nil,
	} {
		if absent {
			missing = append(missing, errors.New(name+" is missing"))
		}
	}
	if err := errors.Join(missing...); err != nil {
		return fmt.Errorf("configure node %s: %w", c.NodeName, err)
	}
	if c.Heartbeats == nil {
		c.Heartbeats = c.Client
	}
	if c.Node.Taints == nil {
		c.Node.Taints = []corev1.Taint{DefaultTaint()}
	}
	if c.Node.MaxPods == 0 {
		c.Node.MaxPods = defaultMaxPods
	}
	if c.Node.MaxImages == nil {
		c.Node.MaxImages = new(defaultMaxImages)
	}
	if c.Node.Version == "" {
		c.Node.Version = KubeletVersion("")
	}
	if c.Pressure == nil {
		c.Pressure = func() ([]corev1.NodeConditionType, bool) { return nil, true }
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = defaultStartTimeout
	}
	if c.Node.InternalIP == "" {
		ip, err := OutboundIP(c.Server)
		if err != nil {
			return fmt.Errorf("find the address of this node; set it in the configuration: %w", err)
		}
		c.Node.InternalIP = ip
	}
	if net.ParseIP(c.Node.InternalIP) == nil {
		return fmt.Errorf("configure node %s: internal address %q is not an IP address", c.NodeName, c.Node.InternalIP)
	}
	return nil
}

// OutboundIP is the local address from which a server is reached: a node's where
// none is configured. Connecting a UDP socket asks the routing table and sends
// nothing.
func OutboundIP(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("parse API server URL: %w", err)
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	conn, err := net.Dial("udp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return "", fmt.Errorf("look up the route to %s: %w", u.Host, err)
	}
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, errors.Join(err, conn.Close())
}
