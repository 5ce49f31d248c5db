package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Config says which kubelet [Start] starts.
type Config struct {
	// Binary is the program, on the machine; it must be static.
	Binary string
	// Node is the name of the node.
	Node string
	// Credential is the node's. The API server must listen on all addresses, for
	// its host is replaced by the machine's end of the link.
	Credential *rest.Config
	// ClientCAFile is the CA, on the machine, of those who may use the kubelet's
	// own API.
	ClientCAFile string
	// QPS bounds what it asks of the API server in a second, Events apart; 0 is a
	// kubelet's default, 50.
	QPS int
	// Verbosity is of its log; 2 tells what a user would want to know.
	Verbosity int
	// Log gets what the kubelet logs; nil discards it.
	Log io.Writer
}

func (c Config) validate() error {
	switch {
	case c.Binary == "":
		return errors.New("no program is given")
	case c.Node == "":
		return errors.New("no node is named")
	case c.Credential == nil:
		return errors.New("no credential is given")
	}
	return nil
}

// Where things stand inside the host, and where the kubelet answers there.
const (
	programPath    = "/opt/kubelet"
	etcDir         = "/etc/kubernetes"
	kubeconfigPath = etcDir + "/kubelet.conf"
	clientCAPath   = etcDir + "/ca.crt"
	configPath     = etcDir + "/kubelet.yaml"
	criEndpoint    = "unix:///run/containerd/containerd.sock"
	healthAddress  = "127.0.0.1:10248"
	apiPort        = 10250
)

// configuration is the kubelet's configuration file: JSON is YAML.
func (c Config) configuration() ([]byte, error) {
	settings := map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"containerRuntimeEndpoint": criEndpoint,
		"authentication":           map[string]any{"x509": map[string]any{"clientCAFile": clientCAPath}},
		// Without one every pod has a warning about it. Nothing answers there.
		"clusterDNS": []string{"10.96.0.10"}, "clusterDomain": "cluster.local",
		// There is no systemd, and the hierarchies may be of version 1.
		"cgroupDriver": "cgroupfs",
		"failCgroupV1": false,
		// The kernel's settings are the machine's: see wants.sh.
		"protectKernelDefaults": true,
		// The host's disk is the machine's, which may be as full as it likes.
		"imageGCHighThresholdPercent": 100,
		"evictionHard": map[string]string{
			"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%",
		},
	}
	if c.QPS != 0 {
		settings["kubeAPIQPS"], settings["kubeAPIBurst"] = c.QPS, 2*c.QPS
	}
	return json.Marshal(settings)
}

// writeKubeconfig writes the node's credential for an API server at another
// address than the credential names, whose certificate does not know it.
func (c Config) writeKubeconfig(path, address string) error {
	server, err := url.Parse(c.Credential.Host)
	if err != nil {
		return fmt.Errorf("parse address of the API server: %w", err)
	}
	known := server.Hostname()
	server.Host = net.JoinHostPort(address, server.Port())
	const name = "host"
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[name] = &clientcmdapi.Cluster{
		Server: server.String(), TLSServerName: known, CertificateAuthorityData: c.Credential.CAData,
	}
	cfg.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: c.Credential.CertData, ClientKeyData: c.Credential.KeyData, Token: c.Credential.BearerToken,
	}
	cfg.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	cfg.CurrentContext = name
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// arguments are the kubelet's flags: what its configuration cannot say.
func (c Config) arguments(nodeIP string) []string {
	return []string{
		"--config=" + configPath, "--kubeconfig=" + kubeconfigPath,
		"--hostname-override=" + c.Node, "--node-ip=" + nodeIP, fmt.Sprintf("--v=%d", c.Verbosity),
	}
}

// copyFile copies a file of the machine to a path of the host.
func copyFile(from, to string, mode os.FileMode) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("open %s: %w", from, err)
	}
	defer source.Close() //nolint:errcheck // only read
	target, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return fmt.Errorf("make file of host: %w", err)
	}
	_, err = io.Copy(target, source)
	if err = errors.Join(err, target.Close()); err != nil {
		return fmt.Errorf("copy %s to host: %w", from, err)
	}
	return nil
}

const (
	// startTimeout bounds how long a kubelet may take to be healthy.
	startTimeout = 3 * time.Minute
	// stopGrace is how long one may take to end by itself.
	stopGrace = time.Minute
)
