package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/burstlet/burstlet/provider/bound"
)

// States of a node in this process, as /readyz shows them.
const (
	Starting = "starting"
	Running  = "running"
	Standby  = "standby" // another process has the node's lease
	Failed   = "failed"
)

// Bounds of the health port, whose clients nobody knows.
const (
	healthTimeout = 10 * time.Second // of one request
	healthIdle    = 90 * time.Second // of a kept connection
	scrapeTimeout = time.Minute      // of an answer, metrics included
	healthConns   = 200
	healthScrapes = 10
	healthHeaders = 16 << 10 // bytes
)

// Node is what a node is doing now.
type Node struct {
	name string

	mu    sync.Mutex
	state string
	err   error // why it failed, or why it cannot even stand by
	// terms counts how often this process began to work as the node, failures how
	// often that ended with an error.
	terms, failures int
	// withoutLease is true while the node's term goes on although its lease cannot be renewed.
	withoutLease bool
	// metrics are those of the node while it works; nil at other times.
	metrics prometheus.Gatherer
}

// NewNode is a node that is starting.
func NewNode(name string) *Node { return &Node{name: name, state: Starting} }

// Set says what the node does now, and the error that it does that for.
func (s *Node) Set(state string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.err = state, err
	if state == Failed {
		s.failures++
	}
}

// GoesOnWithoutLease says whether the node's term goes on although its lease cannot be renewed.
func (s *Node) GoesOnWithoutLease(does bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withoutLease = does
}

// Began counts a term.
func (s *Node) Began() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.terms++
}

// Show lends the node's metrics, until it is told nil.
func (s *Node) Show(metrics prometheus.Gatherer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metrics = metrics
}

// Line is one line of /readyz in the form of healthz checks. A node that stands by
// is ready: it does all that it can be asked for.
func (s *Node) Line() (text string, ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return fmt.Sprintf("[-]node/%s %s: %v\n", s.name, s.state, s.err), false
	case s.state == Running, s.state == Standby:
		return fmt.Sprintf("[+]node/%s %s\n", s.name, s.state), true
	}
	return fmt.Sprintf("[-]node/%s %s\n", s.name, s.state), false
}

// Check is a line of /readyz.
type Check interface {
	Line() (text string, ready bool)
}

// Port is the health port: it tells probes how this process is.
type Port struct {
	// Nodes are those of this process.
	Nodes []*Node
	// Checks are what /readyz shows beside them.
	Checks []Check
	// Metrics serves /metrics; nil: there is none.
	Metrics http.Handler

	conns   *bound.Conns
	scrapes *bound.Slots
}

// New makes the port of a process with these nodes, which are starting.
func New(nodes ...string) *Port {
	h := &Port{conns: bound.NewConns(healthConns), scrapes: bound.NewSlots("requests", healthScrapes)}
	for _, name := range nodes {
		h.Nodes = append(h.Nodes, NewNode(name))
	}
	return h
}

// Bounds has the metrics of the port's bounds.
func (h *Port) Bounds() prometheus.Gatherer {
	registry := prometheus.NewRegistry()
	registry.MustRegister(bound.NewMetrics("health", h.conns, h.scrapes))
	return registry
}

// scrape serves the metrics to so many at once; it is the one costly thing here.
func (h *Port) scrape(w http.ResponseWriter, r *http.Request) {
	free, err := h.scrapes.Take()
	if err != nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
		return
	}
	defer free()
	h.Metrics.ServeHTTP(w, r)
}

// ServeHTTP answers /healthz, which is ok while the process answers at all, and
// /readyz with all nodes, and /metrics where that is wanted.
func (h *Port) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/metrics" && h.Metrics != nil {
		h.scrape(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	text, code := "ok", http.StatusOK
	switch r.URL.Path {
	case "/healthz":
	case "/readyz":
		text, code = h.ready()
	default:
		text, code = "404 page not found\n", http.StatusNotFound
	}
	w.WriteHeader(code)
	// A client that went away is no error of ours.
	_, _ = w.Write([]byte(text))
}

func (h *Port) ready() (text string, code int) {
	var report strings.Builder
	code = http.StatusOK
	checks := slices.Clone(h.Checks)
	for _, n := range h.Nodes {
		checks = append(checks, n)
	}
	for _, c := range checks {
		line, ready := c.Line()
		report.WriteString(line)
		if !ready {
			code = http.StatusServiceUnavailable
		}
	}
	return report.String(), code
}

// Serve serves on a port, 0 for none, until the context ends; the function that it
// returns waits for that.
func (h *Port) Serve(ctx context.Context, address string, port int) (wait func() error, err error) {
	if port == 0 {
		return func() error { return nil }, nil
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("open the health port (healthzBindAddress, healthzPort): %w", err)
	}
	server := &http.Server{
		Handler: h, ReadTimeout: healthTimeout, WriteTimeout: scrapeTimeout, IdleTimeout: healthIdle,
		MaxHeaderBytes: healthHeaders, ConnState: h.conns.State,
	}
	done := make(chan error, 1)
	go func() {
		err := server.Serve(h.conns.Listener(listener))
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		done <- err
	}()
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	return func() error {
		defer stop()
		if err := <-done; err != nil {
			return fmt.Errorf("serve the health port: %w", err)
		}
		return nil
	}, nil
}
