package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// adminUser is in system:masters, which RBAC allows everything.
const (
	adminUser    = "kubernetes-admin"
	adminGroup   = "system:masters"
	nodePrefix   = "system:node:"
	nodesGroup   = "system:nodes"
	kubeconfigID = "burstlet-test" // name of cluster and context in kubeconfigs
)

// writePKI makes every key and certificate of the control plane.
func (c *ControlPlane) writePKI() error {
	dir := filepath.Join(c.dir, "pki")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make directory for keys: %w", err)
	}
	var err error
	if c.ca, err = newAuthority("kubernetes"); err != nil {
		return err
	}
	frontProxyCA, err := newAuthority("front-proxy-ca")
	if err != nil {
		return err
	}
	// The key signs ServiceAccount tokens; the certificate carries its public half.
	tokens, err := newAuthority("service-accounts")
	if err != nil {
		return err
	}
	for name, pair := range map[string]keyPair{
		"ca": c.ca.keyPair, "front-proxy-ca": frontProxyCA.keyPair, "sa": tokens.keyPair,
	} {
		if err := writePair(dir, name, pair); err != nil {
			return err
		}
	}
	apiHosts := append([]string{
		"localhost", loopback, "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", firstServiceIP, c.cfg.BindAddress, c.cfg.AdvertiseAddress,
	}, c.cfg.APIServerHosts...)
	for name, l := range map[string]leaf{
		"apiserver":   {cn: apiServerName, hosts: slices.Compact(apiHosts)},
		"components":  {cn: "components", hosts: []string{"localhost", loopback}},
		kubeletClient: {cn: kubeletClient},
	} {
		if err := issueFile(c.ca, dir, name, l); err != nil {
			return err
		}
	}
	return issueFile(frontProxyCA, dir, frontProxy, leaf{cn: frontProxy})
}

func issueFile(ca *authority, dir, name string, l leaf) error {
	pair, err := ca.issue(l)
	if err != nil {
		return err
	}
	return writePair(dir, name, pair)
}

// writeKubeconfigs makes the credentials of the administrator and of the
// components. The API server's port must be known.
func (c *ControlPlane) writeKubeconfigs() error {
	var err error
	if c.admin, err = c.Credential(adminUser, adminGroup); err != nil {
		return err
	}
	if err := WriteKubeconfig(c.KubeconfigPath(), c.admin); err != nil {
		return err
	}
	for name, user := range map[string]string{
		"controller-manager": "system:kube-controller-manager",
		"scheduler":          "system:kube-scheduler",
	} {
		cred, err := c.Credential(user)
		if err != nil {
			return err
		}
		if err := WriteKubeconfig(c.userKubeconfig(name), cred); err != nil {
			return err
		}
	}
	return nil
}

// ClientCert returns a client certificate and its key in PEM, signed by the
// cluster's CA: cn is the user name and orgs are the groups.
func (c *ControlPlane) ClientCert(cn string, orgs ...string) (certPEM, keyPEM []byte, err error) {
	pair, err := c.ca.issue(leaf{cn: cn, orgs: orgs})
	return pair.cert, pair.key, err
}

// ServingCert returns a serving certificate and its key in PEM for names and
// IPs, signed by the cluster's CA, as a kubelet has it.
func (c *ControlPlane) ServingCert(hosts ...string) (certPEM, keyPEM []byte, err error) {
	if len(hosts) == 0 {
		return nil, nil, errors.New("issue serving certificate: no host given")
	}
	pair, err := c.ca.issue(leaf{cn: hosts[0], hosts: hosts})
	return pair.cert, pair.key, err
}

// Credential returns a way to reach the API server as a user. Like all
// credentials of this package it has no client-side rate limit.
func (c *ControlPlane) Credential(user string, groups ...string) (*rest.Config, error) {
	cert, key, err := c.ClientCert(user, groups...)
	if err != nil {
		return nil, fmt.Errorf("make credential of %s: %w", user, err)
	}
	return &rest.Config{
		Host:            c.URL(),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.keyPair.cert, CertData: cert, KeyData: key},
		QPS:             -1,
	}, nil
}

// NodeCredential returns the credential of a node: user system:node:<name>,
// group system:nodes. The Node authorizer and NodeRestriction hold it to that
// node and to what is bound to it.
func (c *ControlPlane) NodeCredential(node string) (*rest.Config, error) {
	return c.Credential(nodePrefix+node, nodesGroup)
}

// AdminConfig returns a credential that may do everything.
func (c *ControlPlane) AdminConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// KubeconfigPath returns the path of the administrator's kubeconfig.
func (c *ControlPlane) KubeconfigPath() string { return c.userKubeconfig("admin") }

// CAFile returns the path of the certificate of the cluster's CA, which signs
// clients and servers.
func (c *ControlPlane) CAFile() string { return c.pkiFile("ca.crt") }

// WriteKubeconfig writes a credential that holds its certificates as a
// kubeconfig file that only its owner may read.
func WriteKubeconfig(path string, cred *rest.Config) error {
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[kubeconfigID] = &clientcmdapi.Cluster{Server: cred.Host, CertificateAuthorityData: cred.CAData}
	cfg.AuthInfos[kubeconfigID] = &clientcmdapi.AuthInfo{
		ClientCertificateData: cred.CertData, ClientKeyData: cred.KeyData, Token: cred.BearerToken,
	}
	cfg.Contexts[kubeconfigID] = &clientcmdapi.Context{Cluster: kubeconfigID, AuthInfo: kubeconfigID}
	cfg.CurrentContext = kubeconfigID
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
