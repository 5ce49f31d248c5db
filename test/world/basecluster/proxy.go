package basecluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/kubelet"
)

// Where kube-proxy stands on the host, and where it answers there.
const (
	proxyProgram    = "/opt/kube-proxy"
	proxyDir        = "/etc/kube-proxy"
	proxyConfig     = proxyDir + "/config.json"
	proxyKubeconfig = proxyDir + "/kubeconfig"
	proxyHealth     = "127.0.0.1:10256"
	// proxyUser has by default what kube-proxy needs.
	proxyUser = "system:kube-proxy"
)

// proxyConfiguration is kube-proxy's configuration file: JSON is YAML.
func proxyConfiguration(podCIDR string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"apiVersion":         "kubeproxy.config.k8s.io/v1alpha1",
		"kind":               "KubeProxyConfiguration",
		"mode":               "iptables",
		"hostnameOverride":   Node,
		"clientConnection":   map[string]any{"kubeconfig": proxyKubeconfig},
		"clusterCIDR":        podCIDR,
		"healthzBindAddress": proxyHealth,
		"metricsBindAddress": "127.0.0.1:10249",
		// Pods share a bridge. Their answers pass the node's tables only where a
		// kernel module (br_netfilter) sees to it, or where the node asked.
		"iptables": map[string]any{"masqueradeAll": true, "minSyncPeriod": "100ms"},
		// The kernel's settings are the machine's: 0 leaves them.
		"conntrack": map[string]any{
			"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
		},
	})
}

// startProxy starts kube-proxy on the host and returns when it has written its
// rules.
func (c *Cluster) startProxy(t testing.TB, program string) {
	t.Helper()
	if err := c.installProxy(program); err != nil {
		t.Fatalf("install kube-proxy: %v", err)
	}
	log := &logs.Buffer{Keep: logTail}
	log.ShowAtFailure(t, "kube-proxy")
	ctx, cancel := context.WithCancel(context.Background())
	cmd := c.Host.Command(ctx, proxyProgram, "--config="+proxyConfig, "--v=2")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatalf("start kube-proxy: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		select {
		case err := <-ended:
			t.Errorf("kube-proxy ended by itself: %v", err)
		default:
			// Killed: what it leaves goes with the host.
			cancel()
			t.Logf("kube-proxy was ended: %v", <-ended)
		}
	})
	Await(t, "kube-proxy's health", func(ctx context.Context) error {
		return kubelet.Healthz(ctx, c.Host.DialContext, proxyHealth)
	})
}

// installProxy puts the program, its configuration and its credential onto the
// host's disk.
func (c *Cluster) installProxy(program string) error {
	if err := os.MkdirAll(c.Host.Path(proxyDir), 0o755); err != nil {
		return fmt.Errorf("make directory of host: %w", err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read program: %w", err)
	}
	if err := os.WriteFile(c.Host.Path(proxyProgram), content, 0o755); err != nil {
		return fmt.Errorf("write program: %w", err)
	}
	settings, err := proxyConfiguration(c.Host.Subnet().String())
	if err != nil {
		return fmt.Errorf("render configuration: %w", err)
	}
	if err := os.WriteFile(c.Host.Path(proxyConfig), settings, 0o644); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	credential, err := c.Credential(proxyUser)
	if err != nil {
		return err
	}
	if credential, err = c.Inside(credential); err != nil {
		return err
	}
	return controlplane.WriteKubeconfig(c.Host.Path(proxyKubeconfig), credential)
}
