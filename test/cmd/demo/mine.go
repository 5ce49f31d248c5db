package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/burstlet/burstlet/test/parts/binaries"
	"github.com/burstlet/burstlet/test/parts/controlplane"
)

// mine is a cluster that the user already has: that of kubectl's current context.
type mine struct {
	raw clientcmdapi.Config
	// context is the current one.
	context clientcmdapi.Context
	access  *rest.Config
	// files are those of the kubeconfig, as in $KUBECONFIG.
	files string
	// address is where the API server is told to call the node, and bind where
	// burstlet listens for it.
	address, bind string
}

// findMine finds the cluster as kubectl does with this --kubeconfig, or without. It asks
// nobody.
func findMine(kubeconfig string) (*mine, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	var files []string
	for _, file := range rules.GetLoadingPrecedence() {
		absolute, err := filepath.Abs(file) // kubectl is run in another directory
		if err != nil {
			return nil, fmt.Errorf("find your cluster: %w", err)
		}
		files = append(files, absolute)
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("find your cluster: read kubeconfig: %w", err)
	}
	current := raw.Contexts[raw.CurrentContext]
	if current == nil || raw.Clusters[current.Cluster] == nil {
		return nil, fmt.Errorf("find your cluster: there is no current context in %s: "+
			"set $KUBECONFIG, or choose one with kubectl config use-context", strings.Join(files, " or "))
	}
	m := &mine{raw: raw, context: *current, files: strings.Join(files, string(filepath.ListSeparator))}
	if m.access, err = loader.ClientConfig(); err != nil {
		return nil, fmt.Errorf("find your cluster: read kubeconfig: %w", err)
	}
	m.access.QPS, m.access.Burst = 50, 100 // the demo looks often
	return m, nil
}

// findKubectl finds a kubectl of this machine; none is built for a cluster of the
// user's.
func findKubectl() (string, error) {
	if path := os.Getenv(controlplane.KubectlEnv); path != "" {
		return path, nil
	}
	if path, err := exec.LookPath("kubectl"); err == nil {
		return path, nil
	}
	cache, err := binaries.NewCache(binaries.CacheConfig{})
	if err != nil {
		return "", err
	}
	path, err := cache.Lookup(binaries.Kubectl)
	if errors.Is(err, binaries.ErrNotBuilt) {
		return "", fmt.Errorf(
			"find kubectl: there is none in PATH; install it, or name one with $%s", controlplane.KubectlEnv,
		)
	}
	return path, err
}

// findAddress finds where the API server may reach this machine: at the address
// given, else at the one from which this machine reaches the API server.
func (m *mine) findAddress(ctx context.Context, given string) error {
	if m.address = given; given == "" {
		server, _, err := rest.DefaultServerUrlFor(m.access)
		if err != nil {
			return fmt.Errorf("read the address of the API server: %w", err)
		}
		port := server.Port()
		if port == "" {
			port = server.Scheme
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(server.Hostname(), port))
		if err != nil {
			return fmt.Errorf("find this machine's address towards the API server (or give one with ADDRESS=): %w", err)
		}
		m.address, _, err = net.SplitHostPort(conn.LocalAddr().String())
		if err = errors.Join(err, conn.Close()); err != nil {
			return fmt.Errorf("find this machine's address towards the API server: %w", err)
		}
	}
	ip := net.ParseIP(m.address)
	if ip == nil {
		return fmt.Errorf("address %q is not an IP address", m.address)
	}
	m.bind = m.address
	listener, err := net.Listen("tcp", net.JoinHostPort(m.address, "0"))
	if err != nil { // another's, who forwards
		if m.bind = "0.0.0.0"; ip.To4() == nil {
			m.bind = "::"
		}
		return nil
	}
	return listener.Close()
}

// writeContext writes a kubeconfig that holds nothing but a context in the demo's
// namespace, and returns the list of files in which it goes before the user's: no
// credential is copied.
func (m *mine) writeContext(file string) (kubeconfig string, err error) {
	own := clientcmdapi.NewConfig()
	own.Contexts[demoName] = &clientcmdapi.Context{
		Cluster: m.context.Cluster, AuthInfo: m.context.AuthInfo, Namespace: demoName,
	}
	own.CurrentContext = demoName
	if err := clientcmd.WriteToFile(*own, file); err != nil {
		return "", fmt.Errorf("write a kubeconfig: %w", err)
	}
	return file + string(filepath.ListSeparator) + m.files, nil
}

// writeNodeKubeconfig writes the node's way to the API server: the user's cluster,
// with a token of its own.
func (m *mine) writeNodeKubeconfig(file, tokenFile string) error {
	own := clientcmdapi.NewConfig()
	own.Clusters[demoName] = m.raw.Clusters[m.context.Cluster].DeepCopy()
	if err := clientcmdapi.FlattenConfig(own); err != nil {
		return fmt.Errorf("read the CA of the cluster: %w", err)
	}
	own.AuthInfos[demoName] = &clientcmdapi.AuthInfo{TokenFile: tokenFile}
	own.Contexts[demoName] = &clientcmdapi.Context{Cluster: demoName, AuthInfo: demoName}
	own.CurrentContext = demoName
	if err := clientcmd.WriteToFile(*own, file); err != nil {
		return fmt.Errorf("write the node's kubeconfig: %w", err)
	}
	return nil
}
