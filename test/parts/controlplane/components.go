package controlplane

import (
	"path/filepath"
	"strconv"
	"time"
)

// Names of the components, of their logs (<name>.log) and of the programs.
const (
	etcdName              = "etcd"
	apiServerName         = "kube-apiserver"
	controllerManagerName = "kube-controller-manager"
	schedulerName         = "kube-scheduler"
)

const (
	serviceRange   = "10.96.0.0/16"
	firstServiceIP = "10.96.0.1" // Service default/kubernetes
	issuer         = "https://kubernetes.default.svc.cluster.local"
	// kubeletClient is the user the API server is to kubelets.
	kubeletClient = "kube-apiserver-kubelet-client"
	frontProxy    = "front-proxy-client"
)

// component is a program and how to run it on a port.
type component struct {
	name, path string
	host       string // where it listens; "" for none
	socket     string // where it listens instead
	readyPath  string
	args       func(port int) []string
}

func (c *ControlPlane) pkiFile(name string) string { return filepath.Join(c.dir, "pki", name) }

func (c *ControlPlane) userKubeconfig(name string) string {
	return filepath.Join(c.dir, name+".kubeconfig")
}

func (c *ControlPlane) apiServer() component {
	args := func(port int) []string {
		a := []string{
			"--bind-address=" + c.cfg.BindAddress,
			"--advertise-address=" + c.cfg.AdvertiseAddress,
			"--secure-port=" + strconv.Itoa(port),
			"--etcd-servers=" + c.etcdServers(),
			"--tls-cert-file=" + c.pkiFile("apiserver.crt"),
			"--tls-private-key-file=" + c.pkiFile("apiserver.key"),
			"--client-ca-file=" + c.pkiFile("ca.crt"),
			"--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction",
			"--allow-privileged=true",
			"--profiling=false",
			"--service-cluster-ip-range=" + serviceRange,
			"--service-account-issuer=" + issuer,
			"--service-account-key-file=" + c.pkiFile("sa.crt"),
			"--service-account-signing-key-file=" + c.pkiFile("sa.key"),
			"--kubelet-client-certificate=" + c.pkiFile(kubeletClient+".crt"),
			"--kubelet-client-key=" + c.pkiFile(kubeletClient+".key"),
			"--kubelet-preferred-address-types=InternalIP,Hostname",
			"--requestheader-client-ca-file=" + c.pkiFile("front-proxy-ca.crt"),
			"--requestheader-allowed-names=" + frontProxy,
			"--requestheader-username-headers=X-Remote-User",
			"--requestheader-group-headers=X-Remote-Group",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--proxy-client-cert-file=" + c.pkiFile(frontProxy+".crt"),
			"--proxy-client-key-file=" + c.pkiFile(frontProxy+".key"),
		}
		if c.cfg.VerifyKubelets {
			a = append(a, "--kubelet-certificate-authority="+c.pkiFile("ca.crt"))
		}
		return append(a, c.cfg.APIServerArgs...)
	}
	return component{
		name: apiServerName, path: c.cfg.Binaries.APIServer,
		host: c.cfg.BindAddress, readyPath: "/readyz", args: args,
	}
}

// servingArgs are the flags that the controller manager and the scheduler share.
func (c *ControlPlane) servingArgs(user string, port int) []string {
	kubeconfig := c.userKubeconfig(user)
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=" + loopback,
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + c.pkiFile("components.crt"),
		"--tls-private-key-file=" + c.pkiFile("components.key"),
		"--client-ca-file=" + c.pkiFile("ca.crt"),
		"--requestheader-client-ca-file=" + c.pkiFile("front-proxy-ca.crt"),
		"--leader-elect=false",
		"--profiling=false",
	}
}

func (c *ControlPlane) controllerManager() component {
	args := func(port int) []string {
		a := append(c.servingArgs("controller-manager", port),
			"--use-service-account-credentials=true",
			"--root-ca-file="+c.pkiFile("ca.crt"),
			"--service-account-private-key-file="+c.pkiFile("sa.key"),
			"--service-cluster-ip-range="+serviceRange,
			"--cluster-signing-cert-file="+c.pkiFile("ca.crt"),
			"--cluster-signing-key-file="+c.pkiFile("ca.key"),
			// It makes its plugin directory, which must not be the machine's.
			"--flex-volume-plugin-dir="+filepath.Join(c.dir, "flexvolume"),
			// At the default of 20 its own ServiceAccounts alone take 5 s.
			"--kube-api-qps=200",
			"--kube-api-burst=400",
		)
		for flag, d := range map[string]time.Duration{
			"--node-monitor-period=":       c.cfg.NodeMonitorPeriod,
			"--node-monitor-grace-period=": c.cfg.NodeMonitorGracePeriod,
			"--cluster-signing-duration=":  c.cfg.ClusterSigningDuration,
		} {
			if d != 0 {
				a = append(a, flag+d.String())
			}
		}
		return append(a, c.cfg.ControllerManagerArgs...)
	}
	return component{
		name: controllerManagerName, path: c.cfg.Binaries.ControllerManager,
		host: loopback, readyPath: "/healthz", args: args,
	}
}

func (c *ControlPlane) scheduler() component {
	return component{
		name: schedulerName, path: c.cfg.Binaries.Scheduler,
		host: loopback, readyPath: "/readyz",
		args: func(port int) []string {
			return append(c.servingArgs("scheduler", port), c.cfg.SchedulerArgs...)
		},
	}
}
