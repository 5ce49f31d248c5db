package config_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// head makes a file that is valid with nothing more.
const head = `apiVersion: burstlet.dev/v1alpha1
kind: BurstletConfiguration
node: {name: one}
`

const sim = `backend: {type: sim}
kubeletAPI: {selfSigned: true}
`

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "burstlet.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, from config.Sources) config.Configuration {
	t.Helper()
	c, err := config.Load(from)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func environ(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := vars[name]
		return value, ok
	}
}

func span(seconds int) config.Duration {
	return config.Duration{Duration: time.Duration(seconds) * time.Second}
}

func quantity(text string) *config.Quantity {
	return &config.Quantity{Quantity: resource.MustParse(text)}
}

func TestLoadReadsEveryField(t *testing.T) {
	got := load(t, config.Sources{File: "testdata/full.yaml"})
	want := config.Configuration{
		TypeMeta: metav1.TypeMeta{APIVersion: config.APIVersion, Kind: config.Kind},
		Node: config.Node{
			Name: "edge-1", Identity: "edge/edge-1",
			Labels:      map[string]string{"topology.kubernetes.io/zone": "hall-3"},
			Annotations: map[string]string{"example.org/owner": "infra"},
			Taints:      []corev1.Taint{{Key: "example.org/remote", Value: "yes", Effect: corev1.TaintEffectNoExecute}},
			Capacity: config.Capacity{
				CPU: quantity("8"), Memory: quantity("16Gi"), Pods: quantity("20"), EphemeralStorage: quantity("100Gi"),
			},
			OnOtherProcess: "stop", InternalIP: "192.0.2.7",
		},
		Kubeconfig:    "/etc/burstlet/kubeconfig",
		CertDirectory: "/var/lib/burstlet/certs",
		Client:        config.Client{QPS: 20.5, Burst: 40},
		Backend: config.Backend{Type: config.BackendCRI, CRI: &config.CRI{
			Endpoint: "unix:///run/other.sock", CgroupDriver: "systemd",
			SystemReserved: config.SystemReserved{
				CPU: quantity("500m"), Memory: quantity("1Gi"), EphemeralStorage: quantity("10Gi"), PID: quantity("1000"),
			},
			PodLogsDir: "/var/log/pods", ContainerLogsDir: "/var/log/containers",
			CgroupParent: "burstlet", ResolvConf: "/etc/resolv.conf",
			RuntimeSocket: "/run/containerd/containerd.sock", PodsDir: "/var/lib/burstlet/pods",
			SeccompProfileRoot: "/var/lib/kubelet/seccomp", ContainerLogMaxSize: quantity("10Mi"), ContainerLogMaxFiles: 5,
		}},
		KubeletAPI: config.KubeletAPI{
			Address: "192.0.2.7", Port: 10251, CertFile: "/etc/burstlet/tls.crt",
			KeyFile: "/etc/burstlet/tls.key", ClientCAFile: "/etc/burstlet/ca.crt",
			EnableSystemLogHandler: true, EnableSystemLogQuery: true,
		},
		ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "example.internal",
		Pods: config.Pods{
			APIServer: "192.0.2.1:6443", HostNetwork: true, HostPorts: true,
			HostPaths:            []config.HostPath{{PathPrefix: "/var/log", ReadOnly: true}, {PathPrefix: "/srv"}},
			AllowedUnsafeSysctls: []string{"net.core.*"}, MaxParallelImagePulls: 3,
		},
		Images: config.Images{
			GCHighThresholdPercent: 70, GCLowThresholdPercent: 50, MinimumGCAge: span(40), MaximumGCAge: span(200),
			NodeStatusMaxImages: -1, CredentialProviderConfigFile: "/etc/burstlet/plugins.yaml",
			CredentialProviderBinDir: "/opt/plugins",
		},
		Eviction: config.Eviction{
			Hard: map[string]string{"memory.available": "5%", "imagefs.available": "1Gi"},
			Soft: map[string]string{"nodefs.available": "20%"}, SoftGracePeriod: map[string]string{"nodefs.available": "90s"},
			MaxPodGracePeriod: 30, MinimumReclaim: map[string]string{"nodefs.available": "500Mi"},
			PressureTransitionPeriod: config.Duration{Duration: 2 * time.Minute},
		},
		LeaderElection: config.LeaderElection{
			Namespace: "burst", Name: "edge", Kubeconfig: "/etc/burstlet/election",
			LeaseDuration: span(20), RenewDeadline: span(15), RetryPeriod: span(3),
		},
		HealthzBindAddress: "0.0.0.0", HealthzPort: 10248,
		Compatibility: config.Compatibility{VirtualKubeletEvents: true},
		Logging:       config.Logging{Level: "debug", Format: config.FormatJSON},
		Shutdown: config.Shutdown{
			FlushTimeout: span(90), Mode: config.ShutdownDrain, GracePeriod: span(60), GracePeriodCriticalPods: span(20),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	resources := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourcePods: resource.MustParse("20"), corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	}
	if diff := cmp.Diff(resources, got.Node.Capacity.ResourceList()); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
}

func TestLoadWithoutFile(t *testing.T) {
	got := load(t, config.Sources{})
	want := config.Default()
	want.Node.Name = "burstlet"
	want.Backend = config.Backend{Type: config.BackendSim, Sim: &config.Sim{Granularity: config.GranularityContainer}}
	want.KubeletAPI.SelfSigned = true
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

// A sim of its own process has its own granularity.
func TestSimSocket(t *testing.T) {
	got := load(t, config.Sources{Flags: map[string]string{"sim-socket": "unix:///run/s.sock"}})
	want := config.Backend{Type: config.BackendSim, Sim: &config.Sim{Socket: "unix:///run/s.sock"}}
	if diff := cmp.Diff(want, got.Backend); diff != "" {
		t.Errorf("backend (-want +got):\n%s", diff)
	}
}

// An empty list of taints is a choice, no list is none.
func TestTaintsLeftOutAndEmpty(t *testing.T) {
	if got := load(t, config.Sources{File: write(t, head+sim)}); got.Node.Taints != nil {
		t.Errorf("left out: %v, want nil", got.Node.Taints)
	}
	empty := strings.Replace(head, "name: one", "name: one, taints: []", 1)
	if got := load(t, config.Sources{File: write(t, empty+sim)}); got.Node.Taints == nil {
		t.Error("empty: nil, want an empty list")
	}
}

// A node's own taints replace the common ones, whatever fields they have.
func TestTaintsOfANode(t *testing.T) {
	several := strings.Replace(head, "name: one", "taints: [{key: a, value: v, effect: NoExecute}]", 1) + sim + `
nodes:
- node: {name: one, taints: [{key: b, effect: NoSchedule}]}
`
	got := load(t, config.Sources{File: write(t, several)})
	if diff := cmp.Diff(
		[]corev1.Taint{{Key: "b", Effect: corev1.TaintEffectNoSchedule}}, got.Nodes[0].Node.Taints,
	); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
}

// No list of paths of the host allows all, an empty one none; a node's own list
// replaces the common one, entry by entry too.
func TestHostPathsLeftOutAndEmpty(t *testing.T) {
	paths := func(pods string) *[]config.HostPath {
		got := load(t, config.Sources{File: write(t, head+sim+pods)})
		return &got.Pods.HostPaths
	}
	if got := *paths(""); got != nil {
		t.Errorf("left out: %v, want nil", got)
	}
	if got := *paths("pods: {hostPaths: []}\n"); got == nil || len(got) > 0 {
		t.Errorf("empty: %#v, want an empty list", got)
	}
	several := strings.Replace(head, "name: one", "", 1) + sim + `
pods: {privileged: false, hostPaths: [{pathPrefix: /a, readOnly: true}, {pathPrefix: /b, readOnly: true}]}
nodes:
- node: {name: one}
- node: {name: two}
  pods: {hostPaths: []}
- node: {name: three}
  pods: {hostPaths: [{pathPrefix: /c}]}
`
	got := load(t, config.Sources{File: write(t, several)})
	for i, want := range [][]config.HostPath{
		{{PathPrefix: "/a", ReadOnly: true}, {PathPrefix: "/b", ReadOnly: true}}, {}, {{PathPrefix: "/c"}},
	} {
		if diff := cmp.Diff(want, got.Nodes[i].Pods.HostPaths); diff != "" || got.Nodes[i].Pods.Privileged {
			t.Errorf("node %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestFlagsOverEnvironmentOverFile(t *testing.T) {
	file := write(t, head+sim+"clusterDNS: [10.0.0.1]\nlogging: {level: warn, format: json}\n")
	got := load(t, config.Sources{
		LookupEnv: environ(map[string]string{
			config.FileEnv:                    file,
			"BURSTLET_LOG_LEVEL":              "error",
			"BURSTLET_NODE_NAME":              "from-env",
			"BURSTLET_CLUSTER_DNS":            "10.0.0.2, 10.0.0.3",
			"BURSTLET_SHUTDOWN_FLUSH_TIMEOUT": "3s",
			"BURSTLET_KUBELET_API_PORT":       "", // set and empty is not set
		}),
		Flags: map[string]string{"log-level": "debug", "kubelet-api-port": "10444"},
	})
	want := config.Default()
	want.Node.Name = "from-env"
	want.Backend = config.Backend{Type: config.BackendSim, Sim: &config.Sim{Granularity: config.GranularityContainer}}
	want.KubeletAPI.SelfSigned, want.KubeletAPI.Port = true, 10444
	want.ClusterDNS = []string{"10.0.0.2", "10.0.0.3"}
	want.Logging = config.Logging{Level: "debug", Format: config.FormatJSON}
	want.Shutdown.FlushTimeout.Duration = 3 * time.Second
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

// The certificate that stands where no file is gives way to a requested one.
func TestServerTLSBootstrapWithoutFile(t *testing.T) {
	got := load(t, config.Sources{Flags: map[string]string{"kubelet-api-server-tls-bootstrap": "true"}})
	if got.KubeletAPI.SelfSigned || !got.KubeletAPI.ServerTLSBootstrap {
		t.Errorf("kubelet API %+v", got.KubeletAPI)
	}
}

func TestFlagFileOverEnvironmentFile(t *testing.T) {
	got := load(t, config.Sources{
		File:      write(t, strings.Replace(head, "name: one", "name: flag", 1)+sim),
		LookupEnv: environ(map[string]string{config.FileEnv: filepath.Join(t.TempDir(), "absent.yaml")}),
	})
	if got.Node.Name != "flag" {
		t.Errorf("node %q, want that of the flag's file", got.Node.Name)
	}
}

// Every setting can be given as a flag and shows in the field that its path
// names: a value that no field takes is refused under that path.
func TestSettingsReachTheirFields(t *testing.T) {
	refused := map[string]string{ // path: a value that Validate refuses
		"node.name": "-", "node.internalIP": "x", "backend.type": "x", "backend.sim.granularity": "x",
		"backend.sim.socket":   "x",
		"backend.cri.endpoint": "x", "kubeletAPI.address": "x", "kubeletAPI.port": "0",
		"kubeletAPI.selfSigned": "true", "clusterDNS": "x", "clusterDomain": "-",
		"logging.level": "x", "logging.format": "x", "shutdown.flushTimeout": "-1s",
		"backend.ecs.region": "", "backend.ecs.cluster": "", "backend.ecs.subnets": "",
		"kubeletAPI.certFile": "", "kubeletAPI.keyFile": "", "pods.apiServer": "host:6443",
		"bootstrapKubeconfig": "b", "certDirectory": "relative", "kubeletAPI.serverTLSBootstrap": "true",
		"kubeletAPI.signerName":    "x",
		"leaderElection.namespace": "-", "healthzBindAddress": "x", "healthzPort": "-1", "shutdown.mode": "x",
	}
	unchecked := map[string]bool{"kubeconfig": true, "kubeletAPI.clientCAFile": true, "leaderElection.enabled": true}
	with := map[string]map[string]string{ // what makes a field count
		"bootstrapKubeconfig":      {"kubeconfig": "k"},
		"certDirectory":            {"bootstrap-kubeconfig": "b"},
		"leaderElection.namespace": {"leader-elect": "true"},
		"healthzBindAddress":       {"healthz-port": "10248"},
	}
	seen := map[string]bool{}
	for _, s := range config.Settings() {
		if seen[s.Flag] || seen[s.Path] {
			t.Errorf("--%s or %s stands twice", s.Flag, s.Path)
		}
		seen[s.Flag], seen[s.Path] = true, true
		value, ok := refused[s.Path]
		if !ok {
			if !unchecked[s.Path] {
				t.Errorf("%s: the test knows no value that is refused", s.Path)
			}
			continue
		}
		flags := map[string]string{
			"kubelet-api-self-signed": "false", "kubelet-api-cert-file": "c", "kubelet-api-key-file": "k",
		}
		if parts := strings.Split(s.Path, "."); parts[0] == "backend" && len(parts) == 3 {
			flags["backend"] = parts[1]
		}
		maps.Copy(flags, with[s.Path])
		flags[s.Flag] = value
		if _, err := config.Load(config.Sources{Flags: flags}); err == nil || !strings.Contains(err.Error(), s.Path) {
			t.Errorf("--%s=%q: error %v, want one about %s", s.Flag, value, err, s.Path)
		}
	}
}

func TestSettingNamesAndCheck(t *testing.T) {
	for _, s := range config.Settings() {
		if s.Flag != "kubelet-api-port" {
			continue
		}
		if s.Env() != "BURSTLET_KUBELET_API_PORT" {
			t.Errorf("Env() = %s", s.Env())
		}
		if err := s.Check("10250"); err != nil {
			t.Errorf("Check(10250) = %v", err)
		}
		if err := s.Check("x"); err == nil || err.Error() != `"x" is not a whole number` {
			t.Errorf("Check(x) = %v", err)
		}
		return
	}
	t.Fatal("no flag kubelet-api-port")
}

// TestFlags are those that hold, wherever they were given, each as its flag takes it.
func TestFlags(t *testing.T) {
	c, err := config.Load(config.Sources{
		LookupEnv: func(name string) (string, bool) {
			value, ok := map[string]string{"BURSTLET_CLUSTER_DNS": "10.0.0.1,10.0.0.2"}[name]
			return value, ok
		},
		Flags: map[string]string{"log-level": "debug", "kubelet-api-port": "10444"},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := config.Flags(c)
	for flag, want := range map[string]string{
		"log-level": "debug", "kubelet-api-port": "10444", "cluster-dns": "10.0.0.1,10.0.0.2",
		"shutdown-flush-timeout": "10s", "leader-elect": "false", "ecs-region": "",
	} {
		if got[flag] != want {
			t.Errorf("--%s is %q, want %q", flag, got[flag], want)
		}
	}
	for _, s := range config.Settings() {
		if value := got[s.Flag]; value != "" && s.Check(value) != nil {
			t.Errorf("--%s does not take what is shown of it: %q", s.Flag, value)
		}
	}
	if c.Backend.ECS != nil {
		t.Error("a backend that is not used was made")
	}
}
