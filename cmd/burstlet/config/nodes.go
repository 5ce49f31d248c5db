package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NodeEntry is one of several nodes: what may differ between nodes of a process.
// Its fields mean what those of the same name outside nodes mean.
type NodeEntry struct {
	// Node must give a name; with an own identity where one is wanted.
	Node Node `json:"node"`
	// Kubeconfig as outside nodes.
	Kubeconfig string `json:"kubeconfig"`
	// BootstrapKubeconfig as outside nodes.
	BootstrapKubeconfig string `json:"bootstrapKubeconfig"`
	// ImpersonateNode as outside nodes; an entry with a credential of its own does not
	// take it over.
	ImpersonateNode bool `json:"impersonateNode"`
	// CertDirectory of this node alone. Left out: a directory with the node's name
	// in that outside nodes.
	CertDirectory string `json:"certDirectory"`
	// Backend as outside nodes. With another type than there, nothing of
	// that section is taken over.
	Backend Backend `json:"backend"`
	// KubeletAPI as outside nodes. A port that is left out is that
	// outside plus the entry's index.
	KubeletAPI KubeletAPI `json:"kubeletAPI"`
	// ClusterDNS as outside nodes.
	ClusterDNS []string `json:"clusterDNS"`
	// ClusterDomain as outside nodes.
	ClusterDomain string `json:"clusterDomain"`
	// Pods as outside nodes.
	Pods Pods `json:"pods"`
	// Images as outside nodes.
	Images Images `json:"images"`
	// Eviction as outside nodes.
	Eviction Eviction `json:"eviction"`
}

// Each returns the configuration of every node: c itself where it is of one
// node, else one for each entry of Nodes. All share what is the process's.
func (c Configuration) Each() []Configuration {
	if len(c.Nodes) == 0 {
		return []Configuration{c}
	}
	all := make([]Configuration, len(c.Nodes))
	for i, e := range c.Nodes {
		one := c
		one.Nodes = nil
		one.Node, one.Kubeconfig = e.Node, e.Kubeconfig
		one.BootstrapKubeconfig, one.CertDirectory = e.BootstrapKubeconfig, e.CertDirectory
		one.ImpersonateNode = e.ImpersonateNode
		one.Backend, one.KubeletAPI, one.Pods = e.Backend, e.KubeletAPI, e.Pods
		one.Images, one.Eviction = e.Images, e.Eviction
		one.ClusterDNS, one.ClusterDomain = e.ClusterDNS, e.ClusterDomain
		all[i] = one
	}
	return all
}

// own is what the file says outside nodes.
func (c *Configuration) own() NodeEntry {
	return NodeEntry{
		Node: c.Node, Kubeconfig: c.Kubeconfig, BootstrapKubeconfig: c.BootstrapKubeconfig, CertDirectory: c.CertDirectory,
		ImpersonateNode: c.ImpersonateNode, Backend: c.Backend, KubeletAPI: c.KubeletAPI, ClusterDNS: c.ClusterDNS,
		ClusterDomain: c.ClusterDomain, Pods: c.Pods,
		Images: c.Images, Eviction: c.Eviction,
	}
}

// expand lays the entries as they stand in the file over what they have in
// common. They were decoded strictly before.
func (c *Configuration) expand(entries []json.RawMessage) error {
	c.Nodes = nil
	for i, raw := range entries {
		e, err := c.entry(i, raw)
		if err != nil {
			return fmt.Errorf("nodes[%d]: %w", i, err)
		}
		c.Nodes = append(c.Nodes, e)
	}
	return nil
}

func (c *Configuration) entry(index int, raw json.RawMessage) (NodeEntry, error) {
	var given NodeEntry // alone, to see what it leaves out
	if err := json.Unmarshal(raw, &given); err != nil {
		return NodeEntry{}, err
	}
	common, err := json.Marshal(c.own())
	if err != nil {
		return NodeEntry{}, err
	}
	var e NodeEntry // a deep copy: nodes share no map and no list
	if err := json.Unmarshal(common, &e); err != nil {
		return NodeEntry{}, err
	}
	if given.Backend.Type != "" && given.Backend.Type != e.Backend.Type {
		e.Backend = Backend{}
	}
	switch { // a credential of its own replaces the common one, of either kind
	case given.Kubeconfig != "":
		e.BootstrapKubeconfig, e.ImpersonateNode = "", false
	case given.BootstrapKubeconfig != "":
		e.Kubeconfig, e.ImpersonateNode = "", false
	}
	if given.KubeletAPI.Served() {
		e.KubeletAPI.dropCertificate()
	}
	// A decoder lays a mapping in a list over the one at its place.
	if given.Node.Taints != nil {
		e.Node.Taints = nil
	}
	if given.Pods.HostPaths != nil {
		e.Pods.HostPaths = nil
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return NodeEntry{}, err
	}
	if given.KubeletAPI.Port == 0 {
		e.KubeletAPI.Port += index
	}
	if given.CertDirectory == "" && e.CertDirectory != "" {
		e.CertDirectory = filepath.Join(e.CertDirectory, e.Node.Name)
	}
	e.Backend.fill()
	e.Eviction.fill(e.Backend.Type)
	return e, nil
}

// Served is true where there is a way to a serving certificate: without one the kubelet
// API is not served.
func (k *KubeletAPI) Served() bool {
	return k.CertFile != "" || k.KeyFile != "" || k.SelfSigned || k.ServerTLSBootstrap
}

func (k *KubeletAPI) dropCertificate() {
	k.CertFile, k.KeyFile, k.SelfSigned, k.ServerTLSBootstrap, k.SignerName = "", "", false, false, ""
}

// validateNodes returns what is wrong with the entries, each by its own path,
// and where two of them would be in each other's way.
func (c *Configuration) validateNodes() field.ErrorList {
	var errs field.ErrorList
	const why = "nodes is set: every entry has its own"
	if c.Node.Name != "" {
		errs = append(errs, field.Forbidden(field.NewPath("node", "name"), why))
	}
	if c.Node.Identity != "" {
		errs = append(errs, field.Forbidden(field.NewPath("node", "identity"), why))
	}
	for i := range c.Nodes {
		at := field.NewPath("nodes").Index(i)
		errs = append(errs, c.Nodes[i].validate(at)...)
		for j := range i {
			errs = append(errs, c.Nodes[i].collisions(c.Nodes[j], at, fmt.Sprintf("nodes[%d]", j))...)
		}
	}
	return errs
}

// collisions are the fields in which two nodes must differ and do not.
func (e *NodeEntry) collisions(other NodeEntry, at *field.Path, name string) field.ErrorList {
	var errs field.ErrorList
	taken := func(path *field.Path, value any) {
		errs = append(errs, field.Invalid(path, value, name+" has it too"))
	}
	if e.Node.Name != "" && e.Node.Name == other.Node.Name {
		taken(at.Child("node", "name"), e.Node.Name)
	}
	if e.Node.Identity != "" && e.Node.Identity == other.Node.Identity {
		taken(at.Child("node", "identity"), e.Node.Identity)
	}
	if a, b := e.KubeletAPI, other.KubeletAPI; a.Served() && b.Served() &&
		a.Port == b.Port && (a.Address == b.Address || everywhere(a.Address) || everywhere(b.Address)) {
		taken(at.Child("kubeletAPI", "port"), a.Port)
	}
	if (e.BootstrapKubeconfig != "" || e.KubeletAPI.ServerTLSBootstrap) && e.CertDirectory == other.CertDirectory {
		taken(at.Child("certDirectory"), e.CertDirectory)
	}
	return errs
}

// everywhere is true for an address that stands for all of the machine's.
func everywhere(address string) bool {
	return address == "" || strings.Trim(address, "0.:") == ""
}
