package kubeletapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/backend"
)

// The names that the settings of this server have in the configuration file, for
// messages that tell what to change.
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
	ContainerLogs(ctx context.Context, namespace, pod, container string, previous bool, opts backend.LogOptions) (io.ReadCloser, error)
	// Pods returns all pods that the node runs, each with its latest status. They
	// are read-only.
	Pods() []*corev1.Pod
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
	// ClientCAFile holds the CAs of client certificates in PEM, read again when
	// it changes. Empty: the cluster's own, from ConfigMap
	// kube-system/extension-apiserver-authentication.
	ClientCAFile string
	// DisableTokenReview leaves client certificates as the only credential.
	DisableTokenReview bool
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
	// Client reviews tokens and access, and reads the client CA.
	Client kubernetes.Interface
	Engine Engine
	// Gatherer is what /metrics shows; Registerer takes this server's own
	// metrics. Nil: none.
	Gatherer   prometheus.Gatherer
	Registerer prometheus.Registerer
}

func (c *Config) check() error {
	var errs []error
	if c.NodeName == "" || c.Client == nil || c.Engine == nil {
		errs = append(errs, errors.New("node name, client and engine are required"))
	}
	if c.Address == "" {
		c.Address = DefaultAddress
	}
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		errs = append(errs, fmt.Errorf("%s: %q is not host:port", SettingAddress, c.Address))
	}
	files := c.CertFile != "" || c.KeyFile != ""
	switch {
	case files && c.SelfSigned:
		errs = append(errs, fmt.Errorf("%s and %s exclude each other", SettingSelfSigned, SettingCertFile))
	case files && (c.CertFile == "" || c.KeyFile == ""):
		errs = append(errs, fmt.Errorf("%s and %s belong together", SettingCertFile, SettingKeyFile))
	case !files && !c.SelfSigned:
		errs = append(errs, fmt.Errorf("no serving certificate: set %s and %s, or %s to true",
			SettingCertFile, SettingKeyFile, SettingSelfSigned))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("configure kubelet API: %w", err)
	}
	return nil
}
