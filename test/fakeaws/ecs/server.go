package ecs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/burstlet/burstlet/test/fakeaws/s3"
)

// Server is one region of ECS, CloudWatch Logs, Secrets Manager, S3 and SQS. It is
// safe for concurrent use.
type Server struct {
	cfg  Config
	apis []*service

	mu       sync.Mutex
	serial   int // of ids
	launches int // RunTask calls that came as far as choosing a subnet
	made     int // tasks
	reads    int // DescribeTasks and ListTasks
	families map[string][]*definition
	tasks    map[string]*task // by ARN
	order    []string         // ARNs, oldest first
	tokens   map[string]*tokenUse
	forgetAt time.Time // before it no task or token is due to be forgotten
	past     Cost      // of forgotten tasks
	s3       *s3.Room

	groups  map[string]*logGroup
	secrets map[string]*secret // by name
	erased  []*secret          // gone, but listed for a while
	queues  map[string]*queue
	events  agenda
	reports agenda // of what agents tell

	faults    []*Fault
	denials   []Denial
	asked     map[string]bool // permissions
	shortages map[shortage]bool
	buckets   map[string]*bucket
	calls     counter
	billed    map[billedCall]int
	// secretHours are those of secrets that are gone.
	secretHours float64
	throttled   map[string]int
	before      func(Call) error
	after       func(Call) error
	waiters     []chan struct{}
	sessions    sessions
	acting      Principal        // whose call is being answered
	byKey       map[string]*task // driven tasks with a role, by their role's access key
	closing     chan struct{}
	driving     sync.WaitGroup
}

// New makes a server with nothing in it.
func New(cfg Config) *Server {
	s := &Server{
		cfg:       cfg.withDefaults(),
		families:  map[string][]*definition{},
		tasks:     map[string]*task{},
		tokens:    map[string]*tokenUse{},
		groups:    map[string]*logGroup{},
		secrets:   map[string]*secret{},
		queues:    map[string]*queue{},
		asked:     map[string]bool{},
		shortages: map[shortage]bool{},
		buckets:   map[string]*bucket{},
		calls:     counter{},
		billed:    map[billedCall]int{},
		throttled: map[string]int{},
		acting:    Caller,
		byKey:     map[string]*task{},
		closing:   make(chan struct{}),
	}
	s.apis = s.services()
	s.s3 = s3.New(s3.Config{Region: s.cfg.Region, Account: s.cfg.Account, Buckets: cfg.Buckets})
	for _, g := range cfg.LogGroups {
		s.groups[g] = newLogGroup(g, time.Now())
	}
	for _, q := range cfg.Queues {
		s.queues[q] = &queue{name: q}
	}
	if cfg.Runner != nil {
		cfg.Runner.Serve(s.Metadata())
	}
	return s
}

// Start serves on a free loopback port until stop is called, which waits for
// the server's goroutine.
func (s *Server) Start() (url string, stop func(), err error) { return s.Listen("127.0.0.1:0") }

// Listen serves on an address as Start does.
func (s *Server) Listen(address string) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", nil, fmt.Errorf("listen: %w", err)
	}
	serving, end := context.WithCancel(context.Background())
	srv := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return serving },
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It always returns an error; after Shutdown or Close that is ErrServerClosed.
		_ = srv.Serve(l)
	}()
	stop = func() {
		end() // calls that wait for something do so no longer
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
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	resp = w.Result()
	resp.Request = r
	return resp, nil
}

// arn names a resource of ECS.
func (s *Server) arn(resource string) string { return s.arnOf("ecs", resource) }

// arnOf names a resource of a service.
func (s *Server) arnOf(service, resource string) string {
	return fmt.Sprintf("arn:aws:%s:%s:%s:%s", service, s.cfg.Region, s.cfg.Account, resource)
}

// newID makes the next id: 32 hex digits, as AWS's, but the same in every run.
func (s *Server) newID() string {
	s.serial++
	sum := sha256.Sum256(fmt.Appendf(nil, "task %d", s.serial))
	return hex.EncodeToString(sum[:16])
}
