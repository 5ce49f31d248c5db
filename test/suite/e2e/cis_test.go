package e2e

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// recommendation is one of the CIS Kubernetes Benchmark, section 4.2 (Kubelet).
type recommendation struct {
	id, title string
	// check looks at a running node.
	check func(*hardened)
}

// recommendations are all of section 4.2 of CIS Kubernetes Benchmark 1.11; 1.9
// ends with 4.2.13 and 1.10 with 4.2.14.
var recommendations = []recommendation{
	{id: "4.2.1", title: "Ensure that the --anonymous-auth argument is set to false", check: noAnonymous},
	{id: "4.2.2", title: "Ensure that the --authorization-mode argument is not set to AlwaysAllow", check: asksForRights},
	{id: "4.2.3", title: "Ensure that the --client-ca-file argument is set as appropriate", check: knowsItsClients},
	{id: "4.2.4", title: "Verify that the --read-only-port argument is set to 0", check: onePort},
	{
		id: "4.2.5", title: "Ensure that the --streaming-connection-idle-timeout argument is not set to 0",
		check: idleStreamsEnd,
	},
	{
		id: "4.2.6", title: "Ensure that the --make-iptables-util-chains argument is set to true",
		check: leavesPacketsAlone,
	},
	// A virtual node is no host whose name could be overridden.
	{id: "4.2.7", title: "Ensure that the --hostname-override argument is not set", check: hasItsCredentialsName},
	{
		id:    "4.2.8",
		title: "Ensure that the eventRecordQPS argument is set to a level which ensures appropriate event capture",
		check: losesNoEvents,
	},
	{
		id: "4.2.9", title: "Ensure that the --tls-cert-file and --tls-private-key-file arguments are set as appropriate",
		check: servesItsCertificate,
	},
	{
		id: "4.2.10", title: "Ensure that the --rotate-certificates argument is not set to false",
		check: rotatesClientCertificate,
	},
	{
		id: "4.2.11", title: "Verify that the RotateKubeletServerCertificate argument is set to true",
		check: rotatesServingCertificate,
	},
	{id: "4.2.12", title: "Ensure that the Kubelet only makes use of Strong Cryptographic Ciphers", check: strongCiphers},
	{id: "4.2.13", title: "Ensure that a limit is set on pod PIDs", check: limitsProcesses},
	{id: "4.2.14", title: "Ensure that the --seccomp-default parameter is set to true", check: confinesByDefault},
	{id: "4.2.15", title: "Ensure that the --IPAddressDeny is set to any", check: deniesAddresses},
}

// hardened is a running node that is looked at.
type hardened struct {
	*life
	pid int
	// says is what it tells of its configuration at /configz.
	says kubeletconfig.KubeletConfiguration
	// renewed is a node whose certificates are the cluster's.
	renewed *node
	// host is a node whose pods run on a host; those of the others are simulated.
	host *hardenedHost
}

// TestCISBenchmark looks at a node as the CIS Kubernetes Benchmark does, by what
// it does and by what it says of itself.
func TestCISBenchmark(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 20*time.Second)
	c := theCluster(t)
	host := newHardenedHost(t, c)
	n := newNode(t, c, "cis", "  type: sim\n")
	certFile, keyFile := n.servingFiles()
	n.edit("selfSigned: true", "certFile: "+certFile+", keyFile: "+keyFile)
	n.start()
	h := &hardened{
		life: &life{T: t, c: c, n: n, namespace: c.namespace(t, "cis")}, pid: n.ran.Pid(), renewed: outdatedNode(t, c),
		host: host,
	}
	n.ready()
	h.says = h.configz()
	host.n.ready()
	host.says = (&life{T: t, c: c, n: host.n}).configz()
	for _, r := range recommendations {
		t.Run(r.id+" "+r.title, func(t *testing.T) {
			row, life := *h, *h.life
			row.life, life.T = &life, t
			r.check(&row)
		})
	}
}

// configz is what the node says of its configuration.
func (l *life) configz() kubeletconfig.KubeletConfiguration {
	l.Helper()
	var reply struct {
		Config kubeletconfig.KubeletConfiguration `json:"kubeletconfig"`
	}
	l.must(json.Unmarshal([]byte(l.get("/configz")), &reply))
	return reply.Config
}

// servingFiles makes a serving certificate as an administrator does.
func (n *node) servingFiles() (certFile, keyFile string) {
	n.t.Helper()
	cert, key, err := n.c.ServingCert("system:node:"+n.name, n.name, "127.0.0.1")
	if err != nil {
		n.t.Fatal(err)
	}
	dir := filepath.Dir(n.config)
	certFile, keyFile = filepath.Join(dir, "serving.crt"), filepath.Join(dir, "serving.key")
	for file, data := range map[string][]byte{certFile: cert, keyFile: key} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			n.t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// apiServer is the caller that kubelets know best.
func (l *life) apiServer() caller {
	return caller{name: "the API server", known: true, send: l.c.kubeletTransport(l.T).RoundTrip}
}

// get asks as the API server.
func (l *life) get(path string) string {
	l.Helper()
	code, body := l.n.ask(l.T, l.apiServer(), endpoint{method: http.MethodGet, path: path})
	if code != http.StatusOK {
		l.Fatalf("GET %s: %d: %.200s", path, code, body)
	}
	return body
}

// answers wants one answer of every endpoint.
func (h *hardened) answers(who caller, code int) {
	h.Helper()
	for _, e := range endpoints(h.namespace, "none") {
		if got, body := h.n.ask(h.T, who, e); got != code {
			h.Errorf("%s %s by %s: %d, want %d: %.200s", e.method, e.path, who.name, got, code, body)
		}
	}
}

func noAnonymous(h *hardened) {
	h.answers(caller{name: "no credential", send: insecureTransport(h.T).RoundTrip}, http.StatusUnauthorized)
	if on := h.says.Authentication.Anonymous.Enabled; on == nil || *on {
		h.Error("configz: authentication.anonymous.enabled is not false")
	}
}

func asksForRights(h *hardened) {
	h.answers(h.c.account(h.T, h.namespace, "nobody", h.n.name, "", ""), http.StatusForbidden)
	if mode := h.says.Authorization.Mode; mode != kubeletconfig.KubeletAuthorizationModeWebhook {
		h.Errorf("configz: authorization.mode is %q", mode)
	}
}

func knowsItsClients(h *hardened) {
	h.get("/healthz") // by a certificate of the cluster's CA
	h.answers(
		caller{name: "a certificate of another CA", send: insecureTransport(h.T, foreignCertificate(h.T)).RoundTrip},
		http.StatusUnauthorized,
	)
	if h.says.Authentication.X509.ClientCAFile == "" {
		h.Error("configz: authentication.x509.clientCAFile is empty")
	}
}

// onePort: the process listens on the port of its API and on no other.
func onePort(h *hardened) {
	if ports := listening(h.T, h.pid); !slices.Equal(ports, []int{h.n.port}) {
		h.Errorf("the process listens on %v, want only %d", ports, h.n.port)
	}
	if conn, err := net.DialTimeout("tcp", "127.0.0.1:10255", time.Second); err == nil {
		_ = conn.Close() // it should not be there at all
		h.Error("something listens on the read-only port 10255")
	}
	if h.says.ReadOnlyPort != 0 {
		h.Errorf("configz: readOnlyPort is %d", h.says.ReadOnlyPort)
	}
}

// listening are the TCP ports of a process, in order.
func listening(t *testing.T, pid int) []int {
	t.Helper()
	own := map[string]bool{}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(links) == 0 {
		t.Fatalf("files of process %d: %d, %v", pid, len(links), err)
	}
	for _, link := range links {
		// One that was closed meanwhile is no listener.
		if target, err := os.Readlink(link); err == nil {
			own[target] = true
		}
	}
	var ports []int
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			const local, state, inode, listen = 1, 3, 9, "0A"
			fields := strings.Fields(lines.Text())
			if len(fields) <= inode || fields[state] != listen || !own["socket:["+fields[inode]+"]"] {
				continue
			}
			_, hex, _ := strings.Cut(fields[local], ":")
			port, err := strconv.ParseUint(hex, 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			ports = append(ports, int(port))
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// hasItsCredentialsName: another name is refused (TestBadInput, another node's
// credential); this is under which the node is known.
func hasItsCredentialsName(h *hardened) {
	cred, err := h.c.NodeCredential(h.n.name)
	h.must(err)
	block, _ := pem.Decode(cred.CertData)
	cert, err := x509.ParseCertificate(block.Bytes)
	h.must(err)
	node, err := h.c.client.CoreV1().Nodes().Get(h.Context(), h.n.name, metav1.GetOptions{})
	h.must(err)
	if name := node.Labels[corev1.LabelHostname]; "system:node:"+name != cert.Subject.CommonName {
		h.Errorf("the node says that its host is %q, its credential is that of %q", name, cert.Subject.CommonName)
	}
}

func idleStreamsEnd(h *hardened) {
	if h.says.StreamingConnectionIdleTimeout.Duration <= 0 {
		h.Error("configz: streamingConnectionIdleTimeout is 0")
	}
}

// losesNoEvents: many pods at once, and each has its Events; so has the node.
func losesNoEvents(h *hardened) {
	const pods = 20
	created := map[string]bool{}
	for i := range pods {
		pod := h.create(h.pod(forever, func(pod *corev1.Pod) { pod.Name = fmt.Sprintf("told-%d", i) }))
		created[string(pod.UID)] = true
	}
	wait.For(h.T, patience, "an Event Started of each pod", func() error {
		events, err := h.c.client.CoreV1().Events(h.namespace).List(
			h.Context(), metav1.ListOptions{FieldSelector: "reason=Started"},
		)
		if err != nil {
			return err
		}
		told := map[string]bool{}
		for _, e := range events.Items {
			if uid := string(e.InvolvedObject.UID); created[uid] {
				told[uid] = true
			}
		}
		if len(told) < pods {
			return fmt.Errorf("%d of %d", len(told), pods)
		}
		return nil
	})
	wait.For(h.T, patience, "Events of the node", func() error {
		// As kubectl describe node asks.
		events, err := h.c.client.CoreV1().Events(metav1.NamespaceDefault).List(h.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Node,involvedObject.uid=" + h.n.name,
		})
		if err != nil {
			return err
		}
		told := map[string]bool{}
		for _, e := range events.Items {
			told[e.Reason] = true
		}
		for _, reason := range []string{
			"Starting", "NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady",
		} {
			if !told[reason] {
				return fmt.Errorf("no %s among %v", reason, told)
			}
		}
		return nil
	})
	if h.says.EventRecordQPS != nil && *h.says.EventRecordQPS < 0 {
		h.Errorf("configz: eventRecordQPS is %d", *h.says.EventRecordQPS)
	}
}

// servesItsCertificate: the one of its files, which the cluster's CA verifies,
// for the node's name and address.
func servesItsCertificate(h *hardened) {
	for _, name := range []string{h.n.name, "127.0.0.1"} {
		if _, err := h.n.served(&tls.Config{RootCAs: h.c.caPool(h.T), ServerName: name}); err != nil {
			h.Errorf("as %s: %v", name, err)
		}
	}
	if h.says.TLSCertFile == "" || h.says.TLSPrivateKeyFile == "" {
		h.Errorf("configz: tlsCertFile is %q, tlsPrivateKeyFile %q", h.says.TLSCertFile, h.says.TLSPrivateKeyFile)
	}
}

func (c *cluster) caPool(t *testing.T) *x509.CertPool {
	t.Helper()
	ca, err := os.ReadFile(c.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("no certificate in the CA file")
	}
	return pool
}

// served is the certificate of the node's API.
func (n *node) served(cfg *tls.Config) (*x509.Certificate, error) {
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", n.port), cfg)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0], nil
}

// strongCiphers tries each that Go knows.
func strongCiphers(h *hardened) {
	strong := []uint16{ // of the recommendation, with this certificate's kind of key
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	}
	try := func(version uint16, suite uint16) error {
		cfg := &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version}
		if suite != 0 {
			cfg.CipherSuites = []uint16{suite}
		}
		conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", h.n.port), cfg)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		if !slices.Contains(suite.SupportedVersions, tls.VersionTLS12) {
			continue
		}
		err := try(tls.VersionTLS12, suite.ID)
		if want := slices.Contains(strong, suite.ID); (err == nil) != want {
			h.Errorf("%s: %v, want it accepted: %t", suite.Name, err, want)
		}
	}
	for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS13: true} {
		if err := try(version, 0); (err == nil) != want {
			h.Errorf("%s: %v, want it accepted: %t", tls.VersionName(version), err, want)
		}
	}
	if len(h.says.TLSCipherSuites) == 0 {
		h.Error("configz: tlsCipherSuites is empty")
	}
	for _, name := range h.says.TLSCipherSuites {
		if slices.ContainsFunc(tls.InsecureCipherSuites(), func(s *tls.CipherSuite) bool { return s.Name == name }) ||
			!strings.Contains(name, "ECDHE") {
			h.Errorf("configz: tlsCipherSuites has %s", name)
		}
	}
}

// foreignCertificate is a client certificate of nobody's CA, with the best of
// names.
func foreignCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "kubernetes-admin", Organization: []string{"system:masters"}},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
