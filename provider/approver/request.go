package approver

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/burstlet/burstlet/provider/nodeuser"
)

// asked is what a request asks for.
type asked struct {
	// user is the subject's common name.
	user  string
	names []string
	ips   []netip.Addr
}

// parseServing reads a request for what the signer of serving certificates gives nodes, and
// for nothing else.
func parseServing(text []byte) (asked, error) {
	a, err := parse(text)
	if err == nil && len(a.ips) == 0 { // nobody but the node would vouch for it
		err = errors.New("it asks for no address")
	}
	return a, err
}

// parseClient reads a request for what the signer of nodes' client certificates gives, and
// for nothing else.
func parseClient(text []byte) (asked, error) {
	a, err := parse(text)
	if err == nil && len(a.names)+len(a.ips) > 0 {
		err = errors.New("it asks for names or addresses, which a client has none of")
	}
	return a, err
}

// parse reads a request in PEM for a node's certificate.
func parse(text []byte) (asked, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(rest) > 0 {
		return asked{}, errors.New("it is not one certificate request in PEM")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return asked{}, fmt.Errorf("it cannot be read: %w", err)
	}
	if err := request.CheckSignature(); err != nil {
		return asked{}, fmt.Errorf("who made it does not hold its key: %w", err)
	}
	subject := request.Subject
	if len(subject.Names) != 2 || subject.CommonName == "" ||
		!slices.Equal(subject.Organization, []string{nodeuser.Group}) {
		return asked{}, fmt.Errorf("its subject %q is not a common name and the organization %s", subject, nodeuser.Group)
	}
	if len(request.EmailAddresses) > 0 || len(request.URIs) > 0 {
		return asked{}, errors.New("it asks for e-mail addresses or URIs")
	}
	for _, e := range request.Extensions {
		if !e.Id.Equal(alternativeNames) {
			return asked{}, fmt.Errorf("it asks for the extension %v", e.Id)
		}
	}
	a := asked{user: subject.CommonName, names: request.DNSNames}
	if a.ips, err = addresses(request.IPAddresses); err != nil {
		return asked{}, err
	}
	return a, nil
}

// alternativeNames is the extension of names and addresses (RFC 5280, 4.2.1.6).
var alternativeNames = asn1.ObjectIdentifier{2, 5, 29, 17}

func addresses(ips []net.IP) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, ip := range ips {
		a, ok := netip.AddrFromSlice(ip)
		if !ok {
			return nil, fmt.Errorf("it asks for the address %v", ip)
		}
		out = append(out, a.Unmap())
	}
	return out, nil
}

// usagesFit is true for the usages of a certificate for auth, which is server or client
// auth: key encipherment goes with RSA keys alone.
func usagesFit(usages []certificatesv1.KeyUsage, auth certificatesv1.KeyUsage) bool {
	demanded := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, auth}
	for _, u := range demanded {
		if !slices.Contains(usages, u) {
			return false
		}
	}
	return !slices.ContainsFunc(usages, func(u certificatesv1.KeyUsage) bool {
		return !slices.Contains(demanded, u) && u != certificatesv1.UsageKeyEncipherment
	})
}

// requester is the name of the node that a request says it comes from: by its own
// credential, or by that of a user who may ask for nodes.
func requester(
	spec certificatesv1.CertificateSigningRequestSpec, users []string, subject string,
) (node string, ok bool) {
	if slices.Contains(users, spec.Username) {
		return strings.CutPrefix(subject, nodeuser.Prefix)
	}
	if !slices.Contains(spec.Groups, nodeuser.Group) {
		return "", false
	}
	return strings.CutPrefix(spec.Username, nodeuser.Prefix)
}
