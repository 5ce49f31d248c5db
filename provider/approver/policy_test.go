package approver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wish is a request before it is made.
type wish struct {
	template x509.CertificateRequest
	csr      certificatesv1.CertificateSigningRequest
	// forge changes the request as it is made, DER.
	forge func(der []byte) []byte
	trail string // after the PEM block
}

// own is what burstlet's node edge-1 asks for.
func own() wish {
	return wish{
		template: x509.CertificateRequest{
			Subject:     pkix.Name{CommonName: "system:node:edge-1", Organization: []string{"system:nodes"}},
			DNSNames:    []string{"edge-1"},
			IPAddresses: []net.IP{net.ParseIP("10.1.2.3")},
		},
		csr: certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "csr-1", UID: "1"},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				SignerName: certificatesv1.KubeletServingSignerName,
				Username:   "system:node:edge-1", Groups: []string{"system:nodes", "system:authenticated"},
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
			},
		},
	}
}

func (w wish) make(t *testing.T) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &w.template, key)
	if err != nil {
		t.Fatal(err)
	}
	if w.forge != nil {
		der = w.forge(der)
	}
	csr := w.csr.DeepCopy()
	csr.Spec.Request = append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), w.trail...)
	return csr
}

func edge(addresses ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-1", Labels: map[string]string{LabelKey: LabelValue}}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "edge-1"}}
	for _, a := range addresses {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return node
}

func TestDecide(t *testing.T) {
	const deployment = "system:serviceaccount:burstlet:burstlet"
	type world struct {
		policy Policy
		node   *corev1.Node
		pods   []string
	}
	network := Policy{Nodes: []string{"edge-1"}, AllowedIPs: []netip.Prefix{
		netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/64"),
	}}
	listed := Policy{Nodes: network.Nodes}
	ordinary := world{policy: network, node: edge("10.1.2.3", "10.9.9.9", "fd00:1::3")}
	asUser := network
	asUser.Users = []string{deployment}
	byUser := world{policy: asUser, node: ordinary.node}
	for name, tc := range map[string]struct {
		change func(*wish)
		world  *world // nil: ordinary
		want   Reason
	}{
		"a node's own": {},
		"key encipherment too, for an RSA key": {change: func(w *wish) {
			w.csr.Spec.Usages = append(w.csr.Spec.Usages, certificatesv1.UsageKeyEncipherment)
		}},
		"no name": {change: func(w *wish) { w.template.DNSNames = nil }},
		"both families": {change: func(w *wish) {
			w.template.IPAddresses = append(w.template.IPAddresses, net.ParseIP("fd00:1::3"))
		}},
		"the address of a pod of burstlet's": {world: &world{
			policy: listed, node: edge("10.1.2.3"), pods: []string{"10.1.2.3"},
		}},
		"by a user who may ask for the node": {world: &byUser, change: func(w *wish) {
			w.csr.Spec.Username, w.csr.Spec.Groups = deployment, []string{"system:serviceaccounts"}
		}},

		"another node's subject": {
			change: func(w *wish) { w.template.Subject.CommonName = "system:node:edge-2" }, want: ForeignSubject,
		},
		"a subject that is no node": {
			change: func(w *wish) { w.template.Subject.CommonName = "kubernetes" }, want: ForeignSubject,
		},
		"an administrator's group": {
			change: func(w *wish) { w.template.Subject.Organization = []string{"system:masters"} }, want: BadRequest,
		},
		"an administrator's group beside the node's": {
			change: func(w *wish) { w.template.Subject.Organization = []string{"system:nodes", "system:masters"} },
			want:   BadRequest,
		},
		"a subject with more than it needs": {
			change: func(w *wish) { w.template.Subject.OrganizationalUnit = []string{"x"} }, want: BadRequest,
		},
		"no subject": {change: func(w *wish) { w.template.Subject = pkix.Name{} }, want: BadRequest},
		"by an administrator": {
			change: func(w *wish) { w.csr.Spec.Username = "kubernetes-admin" }, want: NotANode,
		},
		"by a user who calls itself a node": {
			change: func(w *wish) { w.csr.Spec.Groups = []string{"system:authenticated"} }, want: NotANode,
		},
		"by a ServiceAccount that may not": {change: func(w *wish) { w.csr.Spec.Username = deployment }, want: NotANode},
		"by a bootstrap token": {change: func(w *wish) {
			w.csr.Spec.Username, w.csr.Spec.Groups = "system:bootstrap:abcdef", []string{"system:bootstrappers"}
		}, want: NotANode},
		"by such a user for a node that is not listed": {world: &byUser, change: func(w *wish) {
			w.csr.Spec.Username, w.template.Subject.CommonName = deployment, "system:node:edge-2"
		}, want: OtherNode},
		"by such a user for no node": {world: &byUser, change: func(w *wish) {
			w.csr.Spec.Username, w.template.Subject.CommonName = deployment, "kubernetes"
		}, want: ForeignSubject},
		"by such a user, unreadable": {
			world: &byUser, change: func(w *wish) { w.csr.Spec.Username, w.trail = deployment, "x" }, want: BadRequest,
		},
		"a node without a Node": {world: &world{policy: network}, want: OtherNode},
		"a node that is not listed": {
			world: &world{policy: Policy{Nodes: []string{"edge-2"}, AllowedIPs: network.AllowedIPs}, node: ordinary.node},
			want:  OtherNode,
		},

		"client auth": {change: func(w *wish) {
			w.csr.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
		}, want: BadUsages},
		"client auth beside": {
			change: func(w *wish) { w.csr.Spec.Usages = append(w.csr.Spec.Usages, certificatesv1.UsageClientAuth) },
			want:   BadUsages,
		},
		"signing of certificates": {
			change: func(w *wish) { w.csr.Spec.Usages = append(w.csr.Spec.Usages, certificatesv1.UsageCertSign) },
			want:   BadUsages,
		},
		"too few usages": {
			change: func(w *wish) { w.csr.Spec.Usages = w.csr.Spec.Usages[1:] }, want: BadUsages,
		},
		"the API server's name": {
			change: func(w *wish) { w.template.DNSNames = append(w.template.DNSNames, "kubernetes.default.svc") },
			want:   ForeignName,
		},
		"any name": {
			change: func(w *wish) { w.template.DNSNames = []string{"*"} }, want: ForeignName,
		},
		"another node's name": {
			change: func(w *wish) { w.template.DNSNames = []string{"edge-2"} }, want: ForeignName,
		},
		"an address that is not its": {
			change: func(w *wish) { w.template.IPAddresses = append(w.template.IPAddresses, net.ParseIP("10.1.2.4")) },
			want:   ForeignAddress,
		},
		"its word for an address is not enough": {
			change: func(w *wish) { w.template.IPAddresses = []net.IP{net.ParseIP("10.9.9.9")} }, want: AddressNotAllowed,
		},
		"the address of somebody else's pod": {
			world: &world{policy: listed, node: edge("10.1.2.3"), pods: []string{"10.1.2.4"}}, want: AddressNotAllowed,
		},
		"nothing is allowed": {world: &world{policy: listed, node: edge("10.1.2.3")}, want: AddressNotAllowed},

		"no node is listed": {
			world: &world{policy: Policy{AllowedIPs: network.AllowedIPs}, node: ordinary.node}, want: OtherNode,
		},
		"its name alone, for which nobody else vouches": {
			change: func(w *wish) { w.template.IPAddresses = nil }, want: BadRequest,
		},
		"no name and no address": {
			change: func(w *wish) { w.template.DNSNames, w.template.IPAddresses = nil, nil }, want: BadRequest,
		},
		"an e-mail address": {
			change: func(w *wish) { w.template.EmailAddresses = []string{"a@example.org"} }, want: BadRequest,
		},
		"a URI": {change: func(w *wish) { w.template.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}} }, want: BadRequest},
		"to be a CA": {change: func(w *wish) {
			w.template.ExtraExtensions = []pkix.Extension{{
				Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{0x30, 3, 1, 1, 0xff},
			}}
		}, want: BadRequest},
		"a signature of another key": {change: func(w *wish) {
			w.forge = func(der []byte) []byte { der[len(der)-1] ^= 1; return der }
		}, want: BadRequest},
		"not a request":   {change: func(w *wish) { w.forge = func([]byte) []byte { return []byte("x") } }, want: BadRequest},
		"two in one text": {change: func(w *wish) { w.trail = "-----BEGIN CERTIFICATE REQUEST-----" }, want: BadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			w, at := own(), ordinary
			if tc.change != nil {
				tc.change(&w)
			}
			if tc.world != nil {
				at = *tc.world
			}
			got := at.policy.Decide(w.make(t), Facts{
				Node: func(name string) *corev1.Node {
					if at.node == nil || at.node.Name != name {
						return nil
					}
					return at.node
				},
				PodIP: func(ip netip.Addr) bool {
					for _, pod := range at.pods {
						if pod == ip.String() {
							return true
						}
					}
					return false
				},
			})
			if got.Reason != tc.want || got.Approve != (tc.want == "") || (got.Message == "") != got.Approve {
				t.Errorf("verdict %+v, want reason %q", got, tc.want)
			}
			if strings.Contains(got.Message, "\n") {
				t.Errorf("message of several lines: %q", got.Message)
			}
		})
	}
}

// first is what burstlet asks for with a bootstrap token, before there is a Node.
func first() wish {
	w := own()
	w.template.DNSNames, w.template.IPAddresses = nil, nil
	w.csr.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
	w.csr.Spec.Username = "system:bootstrap:abcdef"
	w.csr.Spec.Groups = []string{"system:bootstrappers", "system:bootstrappers:burstlet", "system:authenticated"}
	w.csr.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	return w
}

// TestDecideClient: the token of a release is good for that release's nodes alone.
func TestDecideClient(t *testing.T) {
	policy := Policy{Nodes: []string{"edge-1"}, BootstrapGroups: []string{"system:bootstrappers:burstlet"}}
	without := policy
	without.BootstrapGroups = nil
	for name, tc := range map[string]struct {
		change func(*wish)
		policy *Policy // nil: the one above
		want   Reason
	}{
		"a node's first": {},
		"key encipherment too, for an RSA key": {change: func(w *wish) {
			w.csr.Spec.Usages = append(w.csr.Spec.Usages, certificatesv1.UsageKeyEncipherment)
		}},
		"a node that is not listed": {
			change: func(w *wish) { w.template.Subject.CommonName = "system:node:control-plane" }, want: OtherNode,
		},
		"an administrator": {
			change: func(w *wish) { w.template.Subject.CommonName = "kubernetes-admin" }, want: ForeignSubject,
		},
		"an administrator's group": {
			change: func(w *wish) { w.template.Subject.Organization = []string{"system:masters"} }, want: BadRequest,
		},
		"another group of tokens": {
			change: func(w *wish) { w.csr.Spec.Groups = []string{"system:bootstrappers"} }, want: NotBootstrapping,
		},
		"a node renews its own": {
			change: func(w *wish) { w.csr.Spec.Username, w.csr.Spec.Groups = "system:node:edge-1", []string{"system:nodes"} },
			want:   NotBootstrapping,
		},
		"no group is allowed": {policy: &without, want: NotBootstrapping},
		"a name":              {change: func(w *wish) { w.template.DNSNames = []string{"edge-1"} }, want: BadRequest},
		"an address": {
			change: func(w *wish) { w.template.IPAddresses = []net.IP{net.ParseIP("10.1.2.3")} }, want: BadRequest,
		},
		"server auth": {
			change: func(w *wish) { w.csr.Spec.Usages[1] = certificatesv1.UsageServerAuth }, want: BadUsages,
		},
		"server auth beside": {
			change: func(w *wish) { w.csr.Spec.Usages = append(w.csr.Spec.Usages, certificatesv1.UsageServerAuth) },
			want:   BadUsages,
		},
		"unreadable": {change: func(w *wish) { w.trail = "x" }, want: BadRequest},
		"a token for a serving one": {
			change: func(w *wish) { w.csr.Spec.SignerName = certificatesv1.KubeletServingSignerName }, want: NotANode,
		},
		"a serving one of a listed node, by a token that says it is the node's": {change: func(w *wish) {
			w.csr.Spec.SignerName = certificatesv1.KubeletServingSignerName
			w.template.IPAddresses = []net.IP{net.ParseIP("10.1.2.3")}
		}, want: NotANode},
	} {
		w := first()
		if tc.change != nil {
			tc.change(&w)
		}
		p := policy
		if tc.policy != nil {
			p = *tc.policy
		}
		got := p.Decide(w.make(t), Facts{Node: func(string) *corev1.Node { return nil }})
		if got.Reason != tc.want || got.Approve != (tc.want == "") || (got.Message == "") != got.Approve {
			t.Errorf("%s: verdict %+v, want reason %q", name, got, tc.want)
		}
	}
}

// A node of such a name, listed or not, could serve as somebody else in the cluster.
func TestNamesOfOthers(t *testing.T) {
	for name, want := range map[string]Reason{
		"edge-1": "", "edge-1.example.org": "", "kubernetes-edge": "", "svc.example.org": "",
		"localhost": ReservedName, "edge.localhost": ReservedName, "localhost.localdomain": ReservedName,
		"kubernetes": ReservedName, "kubernetes.default": ReservedName, "kubernetes.default.svc": ReservedName,
		"db.default.svc": ReservedName, "db.default.svc.cluster.local": ReservedName,
		"db.default.svc.corp.example":    ReservedName,
		"p.db.default.svc.cluster.local": ReservedName,
	} {
		w := own()
		w.template.Subject.CommonName, w.template.DNSNames = "system:node:"+name, []string{name}
		w.csr.Spec.Username = "system:node:" + name
		node := edge("10.1.2.3")
		node.Name = name
		p := Policy{Nodes: []string{name}, AllowedIPs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
		if got := p.Decide(w.make(t), Facts{Node: func(string) *corev1.Node { return node }}); got.Reason != want ||
			got.Approve != (want == "") {
			t.Errorf("%s: %+v, want reason %q", name, got, want)
		}
	}
}

func TestOpen(t *testing.T) {
	condition := func(kind certificatesv1.RequestConditionType) func(*certificatesv1.CertificateSigningRequest) {
		return func(c *certificatesv1.CertificateSigningRequest) {
			c.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: kind, Status: corev1.ConditionTrue}}
		}
	}
	for name, tc := range map[string]struct {
		change func(*certificatesv1.CertificateSigningRequest)
		want   bool
	}{
		"new":      {func(*certificatesv1.CertificateSigningRequest) {}, true},
		"approved": {condition(certificatesv1.CertificateApproved), false},
		"denied":   {condition(certificatesv1.CertificateDenied), false},
		"failed":   {condition(certificatesv1.CertificateFailed), false},
		"signed":   {func(c *certificatesv1.CertificateSigningRequest) { c.Status.Certificate = []byte("x") }, false},
		"to the signer of clients that are nodes": {func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
		}, true},
		"to the signer of any client": {func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec.SignerName = certificatesv1.KubeAPIServerClientSignerName
		}, false},
	} {
		w := own()
		csr := &w.csr
		tc.change(csr)
		if got := open(csr); got != tc.want {
			t.Errorf("%s: open is %v", name, got)
		}
	}
}
