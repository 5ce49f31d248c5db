package ecs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// Config of a server. The zero value is a region us-east-1 with one cluster
// named default in which everything happens at once.
type Config struct {
	// Region and Account stand in ARNs; us-east-1 and 123456789012 if empty.
	Region, Account string
	// Cluster is the one cluster that exists; "default" if empty.
	Cluster string
	// AccessKey is the only access key id accepted; empty accepts any.
	AccessKey string
	Delays    Delays
}

// Delays are how long the steps of a task's life take.
type Delays struct {
	// Provision is the time in PROVISIONING, until the network interface is there.
	Provision time.Duration
	// Pull is the time from PENDING until the first container starts.
	Pull time.Duration
	// Deactivate is the time in DEACTIVATING before containers get SIGTERM.
	Deactivate time.Duration
	// Deprovision is the time in DEPROVISIONING, after the last container ended.
	Deprovision time.Duration
	// Visible is how long a new task is missing from DescribeTasks and ListTasks
	// (ECS API, RunTask: "The Amazon ECS API follows an eventual consistency model").
	Visible time.Duration
}

// Server is one region of ECS. It is safe for concurrent use.
type Server struct {
	cfg Config

	mu       sync.Mutex
	serial   int
	families map[string][]*definition
	tasks    map[string]*task // by ARN
	order    []string         // ARNs, oldest first
	tokens   map[string]*tokenUse
	faults   []*Fault
	calls    map[string]int
}

// New makes a server with nothing in it.
func New(cfg Config) *Server {
	if cfg.Region == "" {
		cfg.Region = "us-east-1"
	}
	if cfg.Account == "" {
		cfg.Account = "123456789012"
	}
	if cfg.Cluster == "" {
		cfg.Cluster = "default"
	}
	return &Server{
		cfg:      cfg,
		families: map[string][]*definition{},
		tasks:    map[string]*task{},
		tokens:   map[string]*tokenUse{},
		calls:    map[string]int{},
	}
}

// Start serves on a free loopback port until stop is called, which waits for
// the server's goroutine.
func (s *Server) Start() (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen on loopback: %w", err)
	}
	srv := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It always returns an error; after Shutdown or Close that is ErrServerClosed.
		_ = srv.Serve(l)
	}()
	stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close()
		}
		<-done
	}
	return "http://" + l.Addr().String(), stop, nil
}

// Endpoint is a URL to use with Client.
const Endpoint = "http://ecs.invalid"

// Client calls the server directly, without a socket. The host is ignored.
func (s *Server) Client() *http.Client { return &http.Client{Transport: direct{s}} }

type direct struct{ s *Server }

var errDropped = errors.New("connection reset by peer")

// RoundTrip serves the request in the caller's goroutine.
func (d direct) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	defer func() {
		if v := recover(); v == http.ErrAbortHandler { //nolint:errorlint // a panic value, not an error chain
			resp, err = nil, errDropped
		} else if v != nil {
			panic(v)
		}
	}()
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	d.s.ServeHTTP(w, in)
	resp = w.Result()
	resp.Request = r
	return resp, nil
}

const targetPrefix = "AmazonEC2ContainerServiceV20141113."

// maxBody bounds a request; a definition may have 64 KiB.
const maxBody = 1 << 20

// ServeHTTP answers one call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	action, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), targetPrefix)
	handle := s.actions()[action]
	if r.Method != http.MethodPost || !ok || handle == nil {
		writeError(w, failf("UnknownOperationException", "%s", ""))
		return
	}
	if ct := r.Header.Get("Content-Type"); ct != contentType {
		writeError(w, failf("SerializationException", "unexpected content type %q", ct))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, failf("SerializationException", "read body: %v", err))
		return
	}
	fault := s.enter(action)
	if e := s.authenticate(r); e != nil {
		writeError(w, e)
		return
	}
	if fault != nil && fault.Code != "" {
		writeError(w, &apiError{Code: fault.Code, Message: fault.Message, Status: fault.Status})
		return
	}
	out, e := s.call(handle, body, fault)
	switch {
	case fault != nil && fault.LoseReply:
		panic(http.ErrAbortHandler)
	case e != nil:
		writeError(w, e)
	case fault != nil && fault.Garble:
		writeJSON(w, http.StatusOK, map[string]any{"tasks": "garbled", "task": "garbled", "taskArns": 1, "taskDefinition": 1})
	default:
		writeJSON(w, http.StatusOK, out)
	}
}

type handler func(body []byte, f *Fault) (any, *apiError)

func (s *Server) actions() map[string]handler {
	return map[string]handler{
		"RegisterTaskDefinition":   s.registerTaskDefinition,
		"DeregisterTaskDefinition": s.deregisterTaskDefinition,
		"DescribeTaskDefinition":   s.describeTaskDefinition,
		"RunTask":                  s.runTask,
		"DescribeTasks":            s.describeTasks,
		"ListTasks":                s.listTasks,
		"StopTask":                 s.stopTask,
		"DescribeClusters":         s.describeClusters,
	}
}

func (s *Server) call(h handler, body []byte, f *Fault) (any, *apiError) {
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(time.Now())
	return h(body, f)
}

// enter counts the call and takes the fault that is due for it.
func (s *Server) enter(action string) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[action]++
	return s.takeFault(action)
}

// Calls returns how often each action was called.
func (s *Server) Calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]int, len(s.calls))
	for k, v := range s.calls {
		out[k] = v
	}
	return out
}

// authenticate wants a SigV4 header for ecs and, if one is configured, the
// right access key (AWS, "Common error types"). Signatures are not verified.
func (s *Server) authenticate(r *http.Request) *apiError {
	auth := r.Header.Get("Authorization")
	cred, ok := strings.CutPrefix(auth, "AWS4-HMAC-SHA256 Credential=")
	if !ok {
		return failf("MissingAuthenticationTokenException", "Missing Authentication Token")
	}
	cred, _, _ = strings.Cut(cred, ",")
	scope := strings.Split(cred, "/") // key/date/region/service/aws4_request
	if len(scope) != 5 || scope[3] != "ecs" || scope[2] != s.cfg.Region {
		return failf("InvalidSignatureException", "Credential should be scoped to a valid region and to service 'ecs'.")
	}
	if s.cfg.AccessKey != "" && scope[0] != s.cfg.AccessKey {
		return failf("UnrecognizedClientException", "The security token included in the request is invalid.")
	}
	return nil
}

// checkCluster accepts the name or the ARN of the one cluster; empty is
// "default" (ECS API, RunTask: cluster).
func (s *Server) checkCluster(c *string) *apiError {
	name := "default"
	if c != nil && *c != "" {
		name = *c
	}
	if name != s.cfg.Cluster && name != s.arn("cluster/"+s.cfg.Cluster) {
		return failf("ClusterNotFoundException", "Cluster not found.")
	}
	return nil
}

func (s *Server) arn(resource string) string {
	return fmt.Sprintf("arn:aws:ecs:%s:%s:%s", s.cfg.Region, s.cfg.Account, resource)
}

// newID makes the next id: 32 hex digits, as AWS's, but the same in every run.
func (s *Server) newID() string {
	s.serial++
	sum := sha256.Sum256(fmt.Appendf(nil, "task %d", s.serial))
	return hex.EncodeToString(sum[:16])
}

func (s *Server) describeClusters(body []byte, _ *Fault) (any, *apiError) {
	var in struct {
		Clusters []string `json:"clusters"`
		Include  []string `json:"include"`
	}
	if e := decode(body, &in); e != nil {
		return nil, e
	}
	if len(in.Clusters) == 0 {
		in.Clusters = []string{"default"}
	}
	clusters, failures := []any{}, []failure{}
	for _, c := range in.Clusters {
		if s.checkCluster(&c) != nil {
			failures = append(failures, failure{Arn: s.arn("cluster/" + c), Reason: "MISSING"})
			continue
		}
		clusters = append(clusters, map[string]any{
			"clusterArn": s.arn("cluster/" + s.cfg.Cluster), "clusterName": s.cfg.Cluster, "status": "ACTIVE",
		})
	}
	return map[string]any{"clusters": clusters, "failures": failures}, nil
}
