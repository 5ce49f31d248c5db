package e2e

import (
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"testing"
	"time"

	vke2e "github.com/virtual-kubelet/virtual-kubelet/test/e2e"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/need"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// upstreamTests is how many tests virtual-kubelet's suite has: fewer would mean
// that some were not run.
const upstreamTests = 9

// TestUpstreamVirtualKubelet runs virtual-kubelet's own end-to-end suite. The
// suite keeps its state in its package: this is the only test that may use it.
func TestUpstreamVirtualKubelet(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 10*time.Second)
	c := theCluster(t)
	namespace := c.namespace(t, "upstream-vk")
	n := newNode(t, c, "upstream-vk", newSimProcess(t).section())
	n.edit("logging:", "compatibility: {virtualKubeletEvents: true}\nlogging:")
	host := hostIP(t) // API servers do not proxy to loopback
	n.edit("internalIP: 127.0.0.1", "internalIP: "+host)
	n.edit("address: 127.0.0.1", "address: "+host)
	n.frontDoor(namespace, host)
	n.run()
	ran := 0
	vke2e.NewEndToEndTestSuite(vke2e.EndToEndTestSuiteConfig{
		Kubeconfig: c.KubeconfigPath(), Namespace: namespace, NodeName: n.name, WatchTimeout: patience,
		ShouldSkipTest: func(string) bool {
			ran++
			return false
		},
	}).Run(t)
	if ran != upstreamTests {
		t.Errorf("%d tests ran, want %d", ran, upstreamTests)
	}
}

// frontDoor makes what the suite takes the virtual kubelet for: a pod that has
// the node's name and serves the kubelet API on port 10250. The API server gives
// no credential to a pod that it proxies to and burstlet admits nobody without
// one, so the door has its own, as kube-rbac-proxy has.
func (n *node) frontDoor(namespace, host string) {
	n.t.Helper()
	target, err := url.Parse("https://" + net.JoinHostPort(host, strconv.Itoa(n.port)))
	if err != nil {
		n.t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = n.c.kubeletTransport(n.t)
	server := httptest.NewUnstartedServer(proxy)
	if err := server.Listener.Close(); err != nil {
		n.t.Fatal(err)
	}
	// Another test of this machine may have the port for a while.
	wait.For(n.t, patience, "port 10250 of "+host, func() (err error) {
		server.Listener, err = net.Listen("tcp", net.JoinHostPort(host, "10250"))
		return err
	})
	server.StartTLS()
	n.t.Cleanup(server.Close)
	n.c.podAt(n.t, namespace, n.name, host)
}

// podAt makes a pod that nobody runs and that has an address.
func (c *cluster) podAt(t *testing.T, namespace, name, ip string) {
	t.Helper()
	pods := c.client.CoreV1().Pods(namespace)
	if _, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: "nobody", Containers: []corev1.Container{{Name: "door", Image: imageOf}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"podIP": ip, "podIPs": []corev1.PodIP{{IP: ip}}, "phase": corev1.PodRunning,
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pods.Patch(
		t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status",
	); err != nil {
		t.Fatal(err)
	}
}

// kubeletTransport calls kubelets as the API server does.
func (c *cluster) kubeletTransport(t *testing.T) *http.Transport {
	t.Helper()
	return c.transportOf(t, "kube-apiserver-kubelet-client")
}

// transportOf calls kubelets with a client certificate of the cluster's CA.
func (c *cluster) transportOf(t *testing.T, user string, groups ...string) *http.Transport {
	t.Helper()
	certPEM, keyPEM, err := c.ClientCert(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return insecureTransport(t, cert)
}

// insecureTransport does not verify the kubelet: these nodes sign their own
// certificates.
func insecureTransport(t *testing.T, certs ...tls.Certificate) *http.Transport {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certs}}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// hostIP is an address of this machine that is not on loopback.
func hostIP(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range addrs {
		if n, ok := addr.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	need.Missing(t, "this machine has no IPv4 address but loopback, and API servers do not proxy there")
	return ""
}
