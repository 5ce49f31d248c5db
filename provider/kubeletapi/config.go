package kubeletapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/burstlet/burstlet/backend"
)

// The names that the settings of this server have in the configuration file, for
// messages that say what to change.
const (
	SettingAddress      = "kubeletAPI.address"
	SettingPort         = "kubeletAPI.port"
	SettingCertFile     = "kubeletAPI.certFile"
	SettingKeyFile      = "kubeletAPI.keyFile"
	SettingSelfSigned   = "kubeletAPI.selfSigned"
	SettingClientCAFile = "kubeletAPI.clientCAFile"
)

// DefaultAddress is where a kubelet serves its API.
const DefaultAddress = ":10250"

// Engine is what the server asks of the pods' engine. Its methods are called
// from many goroutines.
type Engine interface {
	// ContainerLogs streams a container's log; with previous that of the attempt
	// before the present one. The reader ends with the context. Errors carry the
	// classes of package backend: NotFound for an unknown pod or container,
	// Invalid for a container without a log yet, Unsupported where the backend
	// has no logs.
	ContainerLogs(
		ctx context.Context, namespace, pod, container string, previous bool, opts backend.LogOptions,
	) (io.ReadCloser, error)
	// AwaitPod waits until the engine knows what it is to know of a pod, which a process
	// that has just begun does not. Errors: Unavailable, when ctx ends before.
	AwaitPod(ctx context.Context, pod backend.Ref) error
	Streams
	Measurer
	SystemLogs
	// Pods returns the pods that the node runs, each with its latest status. They are
	// read-only. Where wanted is not nil, it chooses by their metadata and spec.
	Pods(wanted func(*corev1.Pod) bool) []*corev1.Pod
	// LastRelist is when the last complete listing of the remote ended; zero
	// before the first.
	LastRelist() time.Time
}

// Options are the operator's choices. The zero value is safe but incomplete: a
// serving certificate must be chosen.
type Options struct {
	// Address is host:port to listen on; DefaultAddress when empty.
	Address string
	// CertFile and KeyFile hold the serving certificate and its key in PEM. They
	// are read again when they change.
	CertFile, KeyFile string
	// SelfSigned makes a certificate in memory for the node's name and
	// addresses, which the API server then must not verify.
	SelfSigned bool
	// Certificate returns the serving certificate of the moment, from whoever
	// keeps it valid. Before there is one it waits, until the context ends: then it
	// returns nil, and the client is turned away. It is called for each connection.
	Certificate func(context.Context) *tls.Certificate
	// ClientCAFile holds the CAs of client certificates in PEM, read again when
	// it changes. Empty: the cluster's own, from ConfigMap
	// kube-system/extension-apiserver-authentication.
	ClientCAFile string
	// ClientCAReader reads that ConfigMap. Nil, or where it may not: Config.Client does,
	// which a node's own credential may not.
	ClientCAReader kubernetes.Interface
	// Reviews is the access to the API server that reviews tokens and access; its limits
	// are this package's. Nil: Config.Client reviews, with its limit.
	Reviews *rest.Config
	// DisableTokenReview leaves client certificates as the only credential.
	DisableTokenReview bool
	// StreamIdleTimeout ends exec, attach and port-forward connections on which
	// nothing moved for so long (kubelet: streamingConnectionIdleTimeout); 0 is the
	// kubelet's 4 hours.
	StreamIdleTimeout time.Duration
	// SystemLogHandler serves the logs of the pods' host at /logs/, and SystemLogQuery what
	// services there logged, too (kubelet: enableSystemLogHandler, enableSystemLogQuery).
	SystemLogHandler, SystemLogQuery bool
	// AlwaysAllow lets every authenticated caller do everything, as the
	// kubelet's authorization mode AlwaysAllow. Anonymous callers stay refused.
	AlwaysAllow bool
}

// Config is what a Server is made of.
type Config struct {
	Options
	// NodeName is the name in SubjectAccessReviews and in the self-signed
	// certificate.
	NodeName string
	// IPs are further names of the self-signed certificate.
	IPs []net.IP
	// Client reads the client CA.
	Client kubernetes.Interface
	Engine Engine
	// Gatherer is what /metrics shows; Registerer takes this server's own
	// metrics. Nil: none.
	Gatherer   prometheus.Gatherer
	Registerer prometheus.Registerer
	// Probes is what /metrics/probes shows: metrics with series of each pod, which
	// a kubelet keeps apart. Nil: the path is not served.
	Probes prometheus.Gatherer
	// Machine is what the node's remote said of itself, for the metrics machine_*; nil
	// while it has not. Nil: nobody knows.
	Machine func() *backend.NodeFacts
	// ConfigZ is what /configz shows of the node's configuration; the server itself
	// fills in what is its own (address, certificates, authentication). Nil: only
	// that.
	ConfigZ *kubeletv1beta1.KubeletConfiguration
	// FlagZ is what /flagz shows: the process's flags with the values that hold, none of
	// them secret. Nil: the path is not served, as a kubelet's without flags.
	FlagZ map[string]string

	bounds *bounds // of a test; nil: newBounds
}

func (c *Config) check() error {
	var errs []error
	if c.NodeName == "" || c.Client == nil || c.Engine == nil {
		errs = append(errs, errors.New("node name, client and engine are required"))
	}
	c.Address = cmp.Or(c.Address, DefaultAddress)
	c.StreamIdleTimeout = cmp.Or(c.StreamIdleTimeout, streamIdleTimeout)
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		errs = append(errs, fmt.Errorf("%s: %q is not host:port", SettingAddress, c.Address))
	}
	errs = append(errs, c.checkCertificate())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("configure kubelet API: %w", err)
	}
	return nil
}

// checkCertificate makes sure that exactly one serving certificate is chosen.
func (c *Config) checkCertificate() error {
	files := c.CertFile != "" || c.KeyFile != ""
	switch {
	case c.Certificate != nil && (files || c.SelfSigned):
		return fmt.Errorf("a certificate from the cluster excludes %s and %s", SettingCertFile, SettingSelfSigned)
	case c.Certificate != nil:
	case files && c.SelfSigned:
		return fmt.Errorf("%s and %s exclude each other", SettingSelfSigned, SettingCertFile)
	case files && (c.CertFile == "" || c.KeyFile == ""):
		return fmt.Errorf("%s and %s belong together", SettingCertFile, SettingKeyFile)
	case !files && !c.SelfSigned:
		return fmt.Errorf("no serving certificate: set %s and %s, or %s to true",
			SettingCertFile, SettingKeyFile, SettingSelfSigned)
	}
	return nil
}

// caReaders are who may be able to read the cluster's client CA.
func (c Config) caReaders() []kubernetes.Interface {
	if c.ClientCAReader == nil {
		return []kubernetes.Interface{c.Client}
	}
	return []kubernetes.Interface{c.ClientCAReader, c.Client}
}
