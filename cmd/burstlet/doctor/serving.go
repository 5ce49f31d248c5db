package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/provider"
	"github.com/burstlet/burstlet/provider/identity"
	"github.com/burstlet/burstlet/provider/nodeuser"
)

const servingCertificate = "serving certificate"

// served looks at the kubelet API: its certificate, its port, its address.
func (e *clusterExam) served(ctx context.Context) {
	if e.cfg.BootstrapKubeconfig != "" || e.cfg.KubeletAPI.ServerTLSBootstrap {
		e.add(directoryFinding(e.cfg.CertDirectory))
	}
	if !e.cfg.KubeletAPI.Served() {
		e.add(backend.Doubtful(servingCertificate, "none: the kubelet API is off, and kubectl logs, exec and top do not work",
			"set kubeletAPI.certFile and keyFile, serverTLSBootstrap or selfSigned"))
		return
	}
	address := e.address()
	switch api := e.cfg.KubeletAPI; {
	case api.ServerTLSBootstrap:
		e.requested(ctx, address)
	case api.SelfSigned:
		e.add(backend.Doubtful(servingCertificate, "self-signed: clients cannot verify it",
			"good enough unless the API server has --kubelet-certificate-authority; prefer kubeletAPI.serverTLSBootstrap"))
	default:
		e.add(filesFinding(api.CertFile, api.KeyFile, address, time.Now()))
	}
	e.add(portFinding(ctx, e.cfg.KubeletAPI.Address, e.cfg.KubeletAPI.Port, e.running))
}

// address is where the API server is to reach the node; empty where it cannot be
// known.
func (e *clusterExam) address() string {
	const what = "address"
	ip, from := e.cfg.Node.InternalIP, "node.internalIP"
	if ip == "" {
		if e.cred.rest == nil {
			return ""
		}
		found, err := provider.OutboundIP(e.cred.rest.Host)
		if err != nil {
			e.add(backend.Bad(what, err.Error(), "set node.internalIP"))
			return ""
		}
		ip, from = found, "from which the API server is reached"
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		e.add(backend.Bad(what, "list the addresses of this machine: "+err.Error(), ""))
		return ip
	}
	server := ""
	if e.cred.rest != nil {
		server = e.cred.rest.Host
	}
	e.add(addressFinding(ip, from, server, own))
	return ip
}

// addressFinding judges the address that the Node publishes, on a machine with some
// addresses of its own.
func addressFinding(address, from, server string, own []net.Addr) backend.Finding {
	const what = "address"
	ip := net.ParseIP(address)
	local := slices.ContainsFunc(own, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
	detail := address + ", " + from
	const unknown = "; whether the API server reaches it cannot be known from here"
	switch {
	case ip == nil:
		return backend.Bad(what, fmt.Sprintf("%q is no IP address", address), "set node.internalIP to one")
	case ip.IsLoopback() && isLoopback(server):
		return backend.Good(what, detail+": the API server is on this machine too")
	case ip.IsLoopback():
		return backend.Bad(what, detail+": on another machine that is itself",
			"set node.internalIP to an address of this machine that the API server reaches")
	case !local:
		return backend.Doubtful(what, detail+", which this machine does not have"+unknown,
			"right where something forwards it to here (NAT, a load balancer); else set node.internalIP")
	default:
		return backend.Good(what, detail+unknown+" (kubectl logs tells once a pod runs)")
	}
}

// isLoopback is true of a server on this machine.
func isLoopback(server string) bool {
	host := server
	if _, rest, ok := strings.Cut(server, "://"); ok {
		host = rest
	}
	host, _, _ = strings.Cut(host, "/")
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// filesFinding judges a serving certificate in files.
func filesFinding(certFile, keyFile, address string, now time.Time) backend.Finding {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return backend.Bad(servingCertificate, err.Error(),
			"kubeletAPI.certFile and keyFile must be a certificate and its key in PEM that this user may read")
	}
	return leafFinding(certFile, cert.Leaf, address, now)
}

// leafFinding judges a serving certificate for an address.
func leafFinding(where string, leaf *x509.Certificate, address string, now time.Time) backend.Finding {
	detail := fmt.Sprintf("%s is valid until %s", where, stamp(leaf.NotAfter))
	switch {
	case now.After(leaf.NotAfter):
		return backend.Bad(servingCertificate, fmt.Sprintf("%s expired on %s", where, stamp(leaf.NotAfter)),
			"replace it: it is read again when it changes")
	case now.Before(leaf.NotBefore):
		return backend.Bad(servingCertificate, fmt.Sprintf("%s is not valid before %s", where, stamp(leaf.NotBefore)),
			"look at the clocks")
	case address != "" && leaf.VerifyHostname(address) != nil:
		return backend.Doubtful(servingCertificate, detail+", but not for "+address,
			"an API server with --kubelet-certificate-authority refuses it: issue one with that IP address")
	default:
		return backend.Good(servingCertificate, detail)
	}
}

// requested looks at a serving certificate that the cluster issues.
func (e *clusterExam) requested(ctx context.Context, address string) {
	cert, file, err := identity.KeptServing(e.cfg.CertDirectory, e.cfg.Node.Name)
	if err != nil {
		e.add(backend.Bad(servingCertificate, err.Error(),
			"give each node a directory of its own (certDirectory), or remove the file"))
		return
	}
	if cert != nil && time.Now().Before(cert.Leaf.NotAfter) {
		e.add(leafFinding(file, cert.Leaf, address, time.Now()))
		return
	}
	signer := e.cfg.KubeletAPI.SignerName
	if signer == "" {
		signer = certificatesv1.KubeletServingSignerName
	}
	const approve = "run burstlet approve-certificates, or kubectl certificate approve"
	if name := e.pending(ctx, signer); name != "" {
		e.add(backend.Bad(servingCertificate, "request "+name+" waits for somebody to approve it", approve))
		return
	}
	who := "Kubernetes issues it when somebody approves"
	if signer != certificatesv1.KubeletServingSignerName {
		who = "whoever signs for " + signer + " must run in the cluster, and somebody must approve"
	}
	e.add(backend.Doubtful(servingCertificate, "burstlet requests one of "+signer+" when it starts; "+who, approve))
}

// pending is the name of a request of this node's that nobody decided on; empty for
// none, and where the cluster cannot be asked.
func (e *clusterExam) pending(ctx context.Context, signer string) string {
	if e.client == nil || e.cred.bootstrap {
		return ""
	}
	list, err := e.client.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.signerName", signer).String(),
	})
	if err != nil {
		return ""
	}
	for i := range list.Items {
		csr := &list.Items[i]
		if csr.Spec.SignerName == signer && len(csr.Status.Conditions) == 0 &&
			requestedFor(csr.Spec.Request) == nodeuser.Name(e.cfg.Node.Name) {
			return csr.Name
		}
	}
	return ""
}

// requestedFor is the common name that a request asks for; empty for one that cannot
// be read.
func requestedFor(request []byte) string {
	block, _ := pem.Decode(request)
	if block == nil {
		return ""
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return ""
	}
	return parsed.Subject.CommonName
}

// directoryFinding says whether certificates can be kept.
func directoryFinding(dir string) backend.Finding {
	const what = "certificate directory"
	if dir == "" {
		return backend.Good(what, "none: certificates are kept in memory, and requested at each start")
	}
	existing := dir
	for {
		if _, err := os.Stat(existing); err == nil || !errors.Is(err, os.ErrNotExist) || existing == filepath.Dir(existing) {
			break
		}
		existing = filepath.Dir(existing)
	}
	if err := unix.Access(existing, unix.W_OK|unix.X_OK); err != nil {
		return backend.Bad(what, fmt.Sprintf("%s: this user may not write to %s: %v", dir, existing, err),
			"set certDirectory to one that it may write to")
	}
	return backend.Good(what, dir)
}

// portFinding says whether the port of the kubelet API is free. running is true while
// some burstlet runs the node.
func portFinding(ctx context.Context, address string, port int, running bool) backend.Finding {
	const what = "port"
	at := net.JoinHostPort(address, strconv.Itoa(port))
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", at)
	switch {
	case err == nil:
		if err := l.Close(); err != nil {
			return backend.Bad(what, err.Error(), "")
		}
		return backend.Good(what, at+" is free")
	case errors.Is(err, syscall.EADDRINUSE) && running:
		return backend.Doubtful(what, at+" is in use",
			"right if that is the burstlet that runs the node now; else set kubeletAPI.port to another")
	case errors.Is(err, syscall.EADDRINUSE):
		return backend.Bad(what, at+" is in use by another program", "a kubelet has 10250: set kubeletAPI.port to another")
	case errors.Is(err, syscall.EACCES):
		return backend.Bad(what, at+": "+syscall.EACCES.Error(), "set kubeletAPI.port to one above 1023")
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return backend.Bad(what, at+": this machine does not have the address",
			"set kubeletAPI.address to one of this machine's, or leave it out")
	default:
		return backend.Bad(what, err.Error(), "set kubeletAPI.port and kubeletAPI.address")
	}
}
