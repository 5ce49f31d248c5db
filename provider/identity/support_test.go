package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// patience bounds what ought to happen at once, on a machine with other work.
const patience = 3 * time.Minute

// authority issues certificates for tests.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	return &authority{t, must(x509.ParseCertificate(der))(t), key}
}

func (a *authority) pem() []byte { return certPEM(a.cert.Raw) }

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// sign issues what a request asks for, until a time.
func (a *authority) sign(request *x509.CertificateRequest, until time.Time) []byte {
	a.t.Helper()
	return certPEM(must(x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: request.Subject,
		DNSNames: request.DNSNames, IPAddresses: request.IPAddresses,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
	}, a.cert, request.PublicKey, a.key))(a.t))
}

// pair is a certificate for a subject with its key, in PEM.
func (a *authority) pair(name pkix.Name, until time.Time, hosts ...string) (cert, key []byte) {
	a.t.Helper()
	private := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(a.t)
	cert = a.sign(&x509.CertificateRequest{Subject: name, PublicKey: private.Public(), DNSNames: hosts}, until)
	der := must(x509.MarshalECPrivateKey(private))(a.t)
	return cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

func (a *authority) tls(name pkix.Name, until time.Time, hosts ...string) *tls.Certificate {
	a.t.Helper()
	pair := must(tls.X509KeyPair(a.pair(name, until, hosts...)))(a.t)
	return &pair
}

var requestType = metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"}

// requestAPI is an API server that knows certificate requests alone.
type requestAPI struct {
	*authority
	server *httptest.Server

	mu       sync.Mutex
	version  int
	requests map[string]*certificatesv1.CertificateSigningRequest
	events   []event
	news     chan struct{} // closed at the next event
	users    []string      // of all calls: a common name or a token
}

type event struct {
	Type   string `json:"type"`
	Object any    `json:"object"`
}

func newRequestAPI(t *testing.T) *requestAPI {
	t.Helper()
	a := &requestAPI{
		authority: newAuthority(t), news: make(chan struct{}),
		requests: map[string]*certificatesv1.CertificateSigningRequest{},
	}
	mux := http.NewServeMux()
	const path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	mux.HandleFunc("POST "+path, a.create)
	mux.HandleFunc("GET "+path, a.read)
	a.server = httptest.NewUnstartedServer(a.known(mux))
	a.server.EnableHTTP2 = true
	a.server.TLS = &tls.Config{
		Certificates: []tls.Certificate{*a.authority.tls(
			pkix.Name{CommonName: "api"}, time.Now().Add(time.Hour), "api.test",
		)},
		ClientAuth: tls.RequestClientCert,
	}
	a.server.StartTLS()
	t.Cleanup(func() {
		a.server.CloseClientConnections()
		a.server.Close()
	})
	return a
}

func (a *requestAPI) known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if certs := r.TLS.PeerCertificates; len(certs) > 0 {
			user = certs[0].Subject.CommonName
			if time.Now().After(certs[0].NotAfter) {
				http.Error(w, "expired", http.StatusUnauthorized)
				return
			}
		}
		a.mu.Lock()
		a.users = append(a.users, user)
		a.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

func (a *requestAPI) callers() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(a.users)))
}

// publish makes an event. The caller holds the lock.
func (a *requestAPI) publish(kind string, csr *certificatesv1.CertificateSigningRequest) {
	a.version++
	csr.ResourceVersion = fmt.Sprint(a.version)
	a.events = append(a.events, event{kind, csr.DeepCopy()})
	close(a.news)
	a.news = make(chan struct{})
}

func (a *requestAPI) create(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		a.t.Error(err)
		return
	}
	csr := &certificatesv1.CertificateSigningRequest{}
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, csr); err != nil {
		a.t.Error(err)
	}
	csr.TypeMeta = requestType
	a.mu.Lock()
	defer a.mu.Unlock()
	csr.Name = fmt.Sprintf("%s%d", csr.GenerateName, len(a.requests)+1)
	csr.UID = types.UID(csr.Name)
	a.requests[csr.Name] = csr
	a.publish("ADDED", csr)
	reply(a.t, w, http.StatusCreated, csr)
}

func (a *requestAPI) read(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	if r.URL.Query().Get("watch") == "" {
		a.mu.Lock()
		defer a.mu.Unlock()
		list := &certificatesv1.CertificateSigningRequestList{
			TypeMeta: metav1.TypeMeta{APIVersion: requestType.APIVersion, Kind: "CertificateSigningRequestList"},
			ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(a.version)},
		}
		if csr := a.requests[name]; csr != nil {
			list.Items = append(list.Items, *csr)
		}
		reply(a.t, w, http.StatusOK, list)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	sent := 0
	for first := true; ; first = false {
		a.mu.Lock()
		news, events, version := a.news, a.events[sent:], a.version
		sent = len(a.events)
		a.mu.Unlock()
		for _, e := range events {
			if e.Object.(*certificatesv1.CertificateSigningRequest).Name == name {
				_ = encoder.Encode(e) // the client may have left
			}
		}
		if first && r.URL.Query().Get("sendInitialEvents") == "true" {
			_ = encoder.Encode(
				event{"BOOKMARK", &certificatesv1.CertificateSigningRequest{TypeMeta: requestType, ObjectMeta: metav1.ObjectMeta{
					ResourceVersion: fmt.Sprint(version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
				}}},
			)
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-news:
		case <-r.Context().Done():
			return
		}
	}
}

func reply(t *testing.T, w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		t.Error(err)
	}
}

// await returns the nth request when it is there.
func (a *requestAPI) await(n int) *certificatesv1.CertificateSigningRequest {
	a.t.Helper()
	for deadline := time.After(patience); ; {
		a.mu.Lock()
		names, news := slices.Sorted(maps.Keys(a.requests)), a.news
		var csr *certificatesv1.CertificateSigningRequest
		if len(names) >= n {
			csr = a.requests[names[n-1]].DeepCopy()
		}
		a.mu.Unlock()
		if csr != nil {
			return csr
		}
		select {
		case <-news:
		case <-deadline:
			a.t.Fatalf("there is no request number %d", n)
		}
	}
}

func parsed(t *testing.T, csr *certificatesv1.CertificateSigningRequest) *x509.CertificateRequest {
	t.Helper()
	block, _ := pem.Decode(csr.Spec.Request)
	return must(x509.ParseCertificateRequest(block.Bytes))(t)
}

// asked is all that a request asks for.
func asked(t *testing.T, csr *certificatesv1.CertificateSigningRequest) string {
	t.Helper()
	request := parsed(t, csr)
	return fmt.Sprint(
		csr.Spec.SignerName, " ", csr.Spec.Usages, " ", request.Subject, " ", request.DNSNames, " ", request.IPAddresses,
	)
}

// decide gives a request a condition, and signs it if that is an approval.
func (a *requestAPI) decide(name string, as certificatesv1.RequestConditionType, until time.Time) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	csr := a.requests[name]
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: as, Status: "True", Reason: "Test", Message: "because",
	})
	if as == certificatesv1.CertificateApproved {
		csr.Status.Certificate = a.sign(parsed(a.t, csr), until)
	}
	a.publish("MODIFIED", csr)
}

// kubeconfig writes a file with a token.
func (a *requestAPI) kubeconfig(token string) string {
	a.t.Helper()
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["c"] = &clientcmdapi.Cluster{
		Server: a.server.URL, CertificateAuthorityData: a.pem(), TLSServerName: "api.test",
	}
	cfg.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	cfg.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	cfg.CurrentContext = "x"
	path := filepath.Join(a.t.TempDir(), "bootstrap.kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// recorded is a log and what was written to it.
func recorded() (*log.Entry, *logtest.Hook) {
	logger, hook := logtest.NewNullLogger()
	logger.SetLevel(logrus.DebugLevel)
	return logrus.NewEntry(logger), hook
}

// lines are the messages of a level and above, with their csr and command.
func lines(hook *logtest.Hook, level logrus.Level) []string {
	var out []string
	for _, e := range hook.AllEntries() {
		if e.Level <= level {
			out = append(out, fmt.Sprint(e.Message, " csr=", e.Data["csr"], " command=", e.Data["command"]))
		}
	}
	return out
}
