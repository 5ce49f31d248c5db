package approver

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/provider/nodeuser"
)

// Policy says whose requests are approved.
type Policy struct {
	// Nodes are the names of the nodes. Without them whoever can register a Node could be
	// certified for any name that a Node may have.
	Nodes []string
	// Users may ask for Nodes beside the nodes themselves: ServiceAccounts that
	// burstlet runs as, by their user names (system:serviceaccount:NAMESPACE:NAME).
	Users []string
	// BootstrapGroups may ask for client certificates of Nodes: the groups of bootstrap
	// tokens. Without any, no client certificate is approved.
	BootstrapGroups []string
	// AllowedIPs are the networks of the addresses that are certified, beside those
	// of pods.
	AllowedIPs []netip.Prefix
}

// Facts are what the cluster says now.
type Facts struct {
	// Node returns a virtual Node by its name; nil: there is none.
	Node func(name string) *corev1.Node
	// PodIP is true for an address of a pod of burstlet's that no virtual node runs.
	// Nil: none is.
	PodIP func(netip.Addr) bool
}

// Reason is why a request was left alone.
type Reason string

// The reasons, which are values of a metric's label too.
const (
	// NotANode: neither a node nor one of Policy.Users asks.
	NotANode Reason = "NotANode"
	// NotBootstrapping: who asks for a client certificate is in none of
	// Policy.BootstrapGroups. Nodes that renew their own are among them: Kubernetes
	// approves those.
	NotBootstrapping Reason = "NotBootstrapping"
	// OtherNode: the node is none of Policy.Nodes, or there is no such virtual Node
	// (yet).
	OtherNode Reason = "OtherNode"
	// BadRequest: it cannot be read, or asks for what no such certificate of a node has.
	BadRequest Reason = "BadRequest"
	// BadUsages: they are not those of such a certificate.
	BadUsages Reason = "BadUsages"
	// ForeignSubject: the certificate would be another's than the requester's.
	ForeignSubject Reason = "ForeignSubject"
	// ForeignName: a DNS name is not the Node's.
	ForeignName Reason = "ForeignName"
	// ReservedName: by that name others are known in a cluster, whatever the Node is called.
	ReservedName Reason = "ReservedName"
	// ForeignAddress: an address is not in the Node's status (yet).
	ForeignAddress Reason = "ForeignAddress"
	// AddressNotAllowed: nobody but the node says that the address is its own.
	AddressNotAllowed Reason = "AddressNotAllowed"
)

// Verdict is what becomes of a request.
type Verdict struct {
	// Approve is true for a request to approve; Reason and Message are empty then.
	Approve bool
	Reason  Reason
	// Message tells people why it was left alone.
	Message string
	// Node is the node that asks, as far as that is known.
	Node string
}

// signers are those whose requests are decided: of a node's serving certificate and of its
// client certificate.
var signers = []string{certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName}

// open is true for a request to one of our signers that nobody decided.
func open(csr *certificatesv1.CertificateSigningRequest) bool {
	return slices.Contains(signers, csr.Spec.SignerName) && len(csr.Status.Certificate) == 0 &&
		!slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == certificatesv1.CertificateApproved || c.Type == certificatesv1.CertificateDenied ||
				c.Type == certificatesv1.CertificateFailed
		})
}

// Decide says what becomes of a request for a node's certificate that nobody decided. It is
// a pure function.
func (p Policy) Decide(csr *certificatesv1.CertificateSigningRequest, facts Facts) Verdict {
	if csr.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName {
		return p.decideClient(csr)
	}
	request, err := parseServing(csr.Spec.Request)
	name, ok := requester(csr.Spec, p.Users, request.user)
	leave := func(why Reason, format string, args ...any) Verdict {
		return Verdict{Reason: why, Message: fmt.Sprintf(format, args...), Node: name}
	}
	switch {
	case !ok && !slices.Contains(p.Users, csr.Spec.Username):
		return leave(
			NotANode, "user %q is neither a node (%sNAME in group %s) nor one that may ask for nodes", csr.Spec.Username,
			nodeuser.Prefix, nodeuser.Group,
		)
	case err != nil:
		return leave(BadRequest, "%v", err)
	case request.user != nodeuser.Name(name):
		return leave(ForeignSubject, "its common name is %q, it is made by user %q", request.user, csr.Spec.Username)
	case !slices.Contains(p.Nodes, name):
		return leave(OtherNode, "node %q is none that is approved here", name)
	case !usagesFit(csr.Spec.Usages, certificatesv1.UsageServerAuth):
		return leave(BadUsages, "its usages %q are not those of a node's serving certificate", csr.Spec.Usages)
	}
	node := facts.Node(name)
	if node == nil {
		return leave(OtherNode, "there is no Node %q with label %s=%s", name, LabelKey, LabelValue)
	}
	for _, dns := range request.names {
		if dns != node.Name {
			return leave(ForeignName, "%q is not the name of Node %q", dns, node.Name)
		}
		if reserved(dns) {
			return leave(ReservedName, "%q is a name of this machine, of the API server or of a Service", dns)
		}
	}
	return p.judgeAddresses(request.ips, node, facts, leave)
}

// decideClient says what becomes of a request for a node's client certificate. There need
// be no Node: its holder makes it.
func (p Policy) decideClient(csr *certificatesv1.CertificateSigningRequest) Verdict {
	request, err := parseClient(csr.Spec.Request)
	name, ok := strings.CutPrefix(request.user, nodeuser.Prefix)
	leave := func(why Reason, format string, args ...any) Verdict {
		return Verdict{Reason: why, Message: fmt.Sprintf(format, args...), Node: name}
	}
	switch {
	case !slices.ContainsFunc(
		p.BootstrapGroups, func(group string) bool { return slices.Contains(csr.Spec.Groups, group) },
	):
		return leave(NotBootstrapping, "user %q is in none of the groups that may bootstrap nodes", csr.Spec.Username)
	case err != nil:
		return leave(BadRequest, "%v", err)
	case !ok:
		return leave(ForeignSubject, "its common name %q is no node's", request.user)
	case !slices.Contains(p.Nodes, name):
		return leave(OtherNode, "node %q is none that is approved here", name)
	case !usagesFit(csr.Spec.Usages, certificatesv1.UsageClientAuth):
		return leave(BadUsages, "its usages %q are not those of a node's client certificate", csr.Spec.Usages)
	}
	return Verdict{Approve: true, Node: name}
}

// reserved is true for names by which a client in a cluster reaches what is no node:
// itself, the API server (kubernetes, kubernetes.default), and Services (NAME.NAMESPACE.svc,
// with any cluster domain).
func reserved(dns string) bool {
	parts := strings.Split(strings.ToLower(dns), ".")
	return parts[0] == "localhost" || parts[len(parts)-1] == "localhost" || parts[0] == "kubernetes" ||
		slices.Contains(parts[1:], "svc")
}

func (p Policy) judgeAddresses(
	ips []netip.Addr, node *corev1.Node, facts Facts, leave func(Reason, string, ...any) Verdict,
) Verdict {
	for _, ip := range ips {
		if !has(node, ip) {
			return leave(ForeignAddress, "%v is no address in the status of Node %q", ip, node.Name)
		}
		if !p.allows(ip) && (facts.PodIP == nil || !facts.PodIP(ip)) {
			return leave(
				AddressNotAllowed,
				"%v is in none of the allowed networks (--allowed-ips) and no address of a pod of burstlet's (--pod-selector)", ip,
			)
		}
	}
	return Verdict{Approve: true, Node: node.Name}
}

func (p Policy) allows(ip netip.Addr) bool {
	return slices.ContainsFunc(p.AllowedIPs, func(network netip.Prefix) bool { return network.Contains(ip) })
}

// has is true for an address that the Node shows, whatever it calls it.
func has(node *corev1.Node, ip netip.Addr) bool {
	return slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool {
		shown, err := netip.ParseAddr(a.Address)
		return err == nil && shown.Unmap() == ip
	})
}
