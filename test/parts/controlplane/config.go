package controlplane

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Defaults of Config.
const (
	// DefaultStartTimeout is generous: on a quiet machine a start takes seconds.
	DefaultStartTimeout = 5 * time.Minute
	// unreachableAddress (RFC 5737) is advertised while the API server listens on
	// loopback only: an endpoint may not be a loopback address.
	unreachableAddress = "192.0.2.1"
	loopback           = "127.0.0.1"
	// maxStateDir bounds the length of the state directory's path, because a
	// unix socket's path holds 107 bytes.
	maxStateDir = 90
)

// Config says what to start. The zero value, but for Binaries, is a control
// plane as a cluster has it by default.
type Config struct {
	// Binaries are the programs to run; see FindBinaries and BuildBinaries.
	Binaries Binaries
	// StateDir holds data, keys and logs. It must be empty or missing. Empty: a
	// directory is made and Stop removes it.
	StateDir string
	// Log receives progress lines. Nil: nothing is written.
	Log io.Writer
	// StartTimeout bounds Start, StartAPIServer and others that start. 0: DefaultStartTimeout.
	StartTimeout time.Duration

	// BindAddress is the IP the API server listens on; 0.0.0.0 for all.
	// Empty: 127.0.0.1.
	BindAddress string
	// AdvertiseAddress is the IP of the endpoint of Service default/kubernetes;
	// not a loopback address. Empty: BindAddress when that is one address other
	// than loopback, else an address that nothing answers on.
	AdvertiseAddress string
	// APIServerHosts are further names and IPs for the API server's certificate.
	APIServerHosts []string

	// EtcdMembers is how many members etcd has. 0: one.
	EtcdMembers int
	// VerifyKubelets makes the API server verify kubelets' serving certificates
	// against the cluster's CA, which ControlPlane.ServingCert signs with. Off, as
	// in most clusters: any certificate will do.
	VerifyKubelets bool
	// NodeMonitorPeriod and NodeMonitorGracePeriod are how often nodes are looked
	// at and after what silence a node is unhealthy. 0: the controller manager's
	// defaults, 5 s and 50 s.
	NodeMonitorPeriod, NodeMonitorGracePeriod time.Duration
	// ClusterSigningDuration is the life of certificates that are issued for
	// CertificateSigningRequests. They begin 5 minutes in the past. 0: the
	// controller manager's default, a year.
	ClusterSigningDuration time.Duration
	// WithoutControllerManager and WithoutScheduler leave these out. Without the
	// controller manager there are no ServiceAccounts.
	WithoutControllerManager, WithoutScheduler bool

	// APIServerArgs and the others are added after our own flags, and win.
	APIServerArgs, ControllerManagerArgs, SchedulerArgs []string
}

// withDefaults fills in and checks what does not need the file system.
func (c Config) withDefaults() (Config, error) {
	if c.Log == nil {
		c.Log = io.Discard
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = DefaultStartTimeout
	}
	c.EtcdMembers = max(c.EtcdMembers, 1)
	if c.BindAddress == "" {
		c.BindAddress = loopback
	}
	bind := net.ParseIP(c.BindAddress)
	if bind == nil {
		return c, fmt.Errorf("bind address %q is not an IP address", c.BindAddress)
	}
	if c.AdvertiseAddress == "" {
		c.AdvertiseAddress = unreachableAddress
		if !bind.IsLoopback() && !bind.IsUnspecified() {
			c.AdvertiseAddress = c.BindAddress
		}
	}
	advertise := net.ParseIP(c.AdvertiseAddress)
	if advertise == nil || advertise.IsLoopback() || advertise.IsUnspecified() {
		return c, fmt.Errorf("advertise address %q is not an IP address other than loopback", c.AdvertiseAddress)
	}
	return c, nil
}

// prepareStateDir makes the state directory, or checks that it is empty. It
// says whether the directory is ours to remove.
func prepareStateDir(dir string) (path string, ours bool, err error) {
	if dir == "" {
		path, err = makeTempState()
		return path, true, err
	}
	if path, err = filepath.Abs(dir); err != nil {
		return "", false, err
	}
	if len(path) > maxStateDir {
		return "", false, fmt.Errorf(
			"path of state directory has %d bytes, the sockets in it allow %d: %s", len(path), maxStateDir, path,
		)
	}
	entries, err := os.ReadDir(path)
	if os.IsNotExist(err) {
		return path, true, os.MkdirAll(path, 0o700)
	}
	if err != nil {
		return "", false, err
	}
	if len(entries) > 0 {
		return "", false, fmt.Errorf("state directory %s is not empty", path)
	}
	return path, false, os.Chmod(path, 0o700)
}
