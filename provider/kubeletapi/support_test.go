package kubeletapi

import (
	"bytes"
	"context"
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
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/test/kit/background"
)

// TestMain finds goroutines that are left. A look takes half a second, and there are
// several: spdystream keeps a goroutine for a second after a close that failed
// (Connection.shutdown).
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		err := goleak.Find()
		for range 15 { // a websocket of client-go notices after 5 s that it is closed
			if err != nil {
				err = goleak.Find()
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// fakeEngine answers from functions.
type fakeEngine struct {
	fakeStreams
	fakeMeasurer
	mu     sync.Mutex
	logs   func(ctx context.Context, path string, previous bool, opts backend.LogOptions) (io.ReadCloser, error)
	await  func(ctx context.Context, pod backend.Ref) error
	pods   []*corev1.Pod
	relist time.Time
}

func (e *fakeEngine) ContainerLogs(
	ctx context.Context, ns, pod, container string, previous bool, opts backend.LogOptions,
) (io.ReadCloser, error) {
	return e.logs(ctx, ns+"/"+pod+"/"+container, previous, opts)
}

func (e *fakeEngine) Pods(wanted func(*corev1.Pod) bool) []*corev1.Pod {
	if wanted == nil {
		return e.pods
	}
	return slices.DeleteFunc(slices.Clone(e.pods), func(p *corev1.Pod) bool { return !wanted(p) })
}

// AwaitPod is of an engine that begins when await returns.
func (e *fakeEngine) AwaitPod(ctx context.Context, pod backend.Ref) error {
	if e.await == nil {
		return nil
	}
	return e.await(ctx, pod)
}

func (e *fakeEngine) LastRelist() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.relist
}

// fakeStreams answers from functions; refused is why nothing can begin.
type fakeStreams struct {
	refusal   sync.Mutex // guards refused
	refused   error
	exec      func(ctx context.Context, pod backend.Ref, container string, spec backend.ExecSpec) (int32, error)
	attach    func(ctx context.Context, pod backend.Ref, container string, spec backend.AttachSpec) error
	forward   func(ctx context.Context, pod backend.Ref, port uint16) (net.Conn, error)
	systemLog func(ctx context.Context, q backend.SystemLogQuery) (io.ReadCloser, error)
	archive   func(pod backend.Ref, container string, timeout time.Duration) (string, error)
}

func (e *fakeStreams) Checkpoint(
	_ context.Context, pod backend.Ref, container string, timeout time.Duration,
) (string, error) {
	return e.archive(pod, container, timeout)
}

func (e *fakeStreams) SystemLog(ctx context.Context, q backend.SystemLogQuery) (io.ReadCloser, error) {
	return e.systemLog(ctx, q)
}

func (e *fakeStreams) Exec(
	ctx context.Context, pod backend.Ref, container string, spec backend.ExecSpec,
) (int32, error) {
	if err := e.CanExec(pod, container); err != nil {
		return 0, err
	}
	return e.exec(ctx, pod, container, spec)
}

func (e *fakeStreams) Attach(ctx context.Context, pod backend.Ref, container string, spec backend.AttachSpec) error {
	return e.attach(ctx, pod, container, spec)
}

func (e *fakeStreams) Forward(ctx context.Context, pod backend.Ref, port uint16) (net.Conn, error) {
	return e.forward(ctx, pod, port)
}

func (e *fakeStreams) refuse(err error) {
	e.refusal.Lock()
	defer e.refusal.Unlock()
	e.refused = err
}

func (e *fakeStreams) CanForward(backend.Ref) error {
	e.refusal.Lock()
	defer e.refusal.Unlock()
	return e.refused
}
func (e *fakeStreams) PodUID(backend.Ref) types.UID              { return "uid-p" }
func (e *fakeStreams) CanExec(pod backend.Ref, _ string) error   { return e.CanForward(pod) }
func (e *fakeStreams) CanAttach(pod backend.Ref, _ string) error { return e.CanForward(pod) }

// ca is a certificate authority for clients.
type ca struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newCA(t *testing.T) *ca {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &ca{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (c *ca) issue(t *testing.T, cn string, usage x509.ExtKeyUsage) (tls.Certificate, []byte, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: cn},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{usage}, DNSNames: []string{cn},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, c.cert, key.Public(), c.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return pair, certPEM, keyPEM
}

func writeFile(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// reviews is a fake API server: tokens and what users may do.
type reviews struct {
	tokens map[string]string          // token -> user
	rights map[string]map[string]bool // user -> subresource
	// hold, where there is one, keeps the reviews of tokens that are not in tokens back
	// until it is closed.
	hold  chan struct{}
	mu    sync.Mutex // guards what follows
	asked []authorizationv1.ResourceAttributes
	seen  []string // tokens, in the order of their reviews
	held  int      // reviews of tokens that are kept back
}

func (r *reviews) waits(d int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held += d
}

// client is a client of an HTTP server that reviews: the delegating parts use
// REST clients, which fake clientsets do not have.
func (r *reviews) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, req *http.Request) {
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.seen = append(r.seen, review.Spec.Token)
		r.mu.Unlock()
		user, ok := r.tokens[review.Spec.Token]
		if !ok && r.hold != nil {
			r.waits(1)
			<-r.hold
			r.waits(-1)
		}
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok, User: authenticationv1.UserInfo{Username: user}}
		answer(t, w, &review)
	})
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", func(
		w http.ResponseWriter, req *http.Request,
	) {
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.asked = append(r.asked, *review.Spec.ResourceAttributes)
		r.mu.Unlock()
		review.Status.Allowed = r.rights[review.Spec.User][review.Spec.ResourceAttributes.Subresource]
		answer(t, w, &review)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := kubernetes.NewForConfigAndClient(
		&rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
		&http.Client{Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func answer(t *testing.T, w http.ResponseWriter, review any) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(review); err != nil {
		t.Error(err)
	}
}

// served is a running server and a way to reach it.
type served struct {
	server *Server
	url    string
	ca     *ca
	stop   func() // ends the server and waits for it
	logged *journal
}

// journal is all that a server logs, in JSON.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// serve runs a server on loopback until the test ends.
func serve(t *testing.T, engine Engine, r *reviews, change func(*Config)) *served {
	t.Helper()
	clients := newCA(t)
	reg := prometheus.NewRegistry()
	cfg := Config{
		Options:  Options{Address: "127.0.0.1:0", SelfSigned: true, ClientCAFile: writeFile(t, "ca.crt", clients.pem)},
		NodeName: "n1", Client: r.client(t), Engine: engine, Gatherer: reg, Registerer: reg,
	}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	logged := &journal{}
	logger := logrus.New()
	logger.SetOutput(logged)
	logger.SetLevel(logrus.TraceLevel)
	logger.SetFormatter(&logrus.JSONFormatter{})
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(logged)
		}
	})
	stop := background.Run(
		t, func(ctx context.Context) error { return s.Run(log.WithLogger(ctx, logrus.NewEntry(logger))) },
	)
	return &served{s, "https://" + s.listener.Addr().String(), clients, stop, logged}
}

// caller makes requests with a client certificate, a token or nothing. A path may have a
// method before it, and then what is accepted behind it.
func (s *served) caller(t *testing.T, cert *tls.Certificate, token string) func(path string) *http.Response {
	t.Helper()
	cfg := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // self-signed here
	if cert != nil {
		cfg.Certificates = []tls.Certificate{*cert}
	}
	transport := s.transport(t)
	transport.TLSClientConfig = cfg
	return func(path string) *http.Response {
		t.Helper()
		method, path, found := strings.Cut(path, " ")
		if !found {
			method, path = http.MethodGet, method
		}
		path, accept, _ := strings.Cut(path, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if accept != "" {
			req.Header.Set("Accept", accept)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
}

// transport trusts any server.
func (s *served) transport(t *testing.T) *http.Transport {
	t.Helper()
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // self-signed here
		ForceAttemptHTTP2: true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

func body(t *testing.T, resp *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// all are rights to everything.
func all(user string) map[string]map[string]bool {
	return map[string]map[string]bool{user: {"proxy": true, "metrics": true}}
}
