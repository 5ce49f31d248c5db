package main

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

	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider/bound"
)

// States of a node in this process, as /readyz shows them.
const (
	stateStarting = "starting"
	stateRunning  = "running"
	stateStandby  = "standby" // another process has the node's lease
	stateFailed   = "failed"
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

// nodeState is what a node is doing now.
type nodeState struct {
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

func (s *nodeState) set(state string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.err = state, err
	if state == stateFailed {
		s.failures++
	}
}

func (s *nodeState) goesOnWithoutLease(does bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withoutLease = does
}

// began counts a term.
func (s *nodeState) began() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.terms++
}

// show lends the node's metrics, until it is told nil.
func (s *nodeState) show(metrics prometheus.Gatherer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metrics = metrics
}

// line is one line of /readyz in the form of healthz checks. A node that stands by
// is ready: it does all that it can be asked for.
func (s *nodeState) line() (text string, ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return fmt.Sprintf("[-]node/%s %s: %v\n", s.name, s.state, s.err), false
	case s.state == stateRunning, s.state == stateStandby:
		return fmt.Sprintf("[+]node/%s %s\n", s.name, s.state), true
	}
	return fmt.Sprintf("[-]node/%s %s\n", s.name, s.state), false
}

// check is a line of /readyz.
type check interface {
	line() (text string, ready bool)
}

// health tells probes how this process is.
type health struct {
	nodes []*nodeState
	// checks are what /readyz shows beside them.
	checks []check
	// metrics serves /metrics; nil: there is none.
	metrics http.Handler

	conns   *bound.Conns
	scrapes *bound.Slots
}

func newHealth(configs []config.Configuration) *health {
	h := &health{conns: bound.NewConns(healthConns), scrapes: bound.NewSlots("requests", healthScrapes)}
	for _, c := range configs {
		h.nodes = append(h.nodes, &nodeState{name: c.Node.Name, state: stateStarting})
	}
	return h
}

// bounds has the metrics of the port's bounds.
func (h *health) bounds() prometheus.Gatherer {
	registry := prometheus.NewRegistry()
	registry.MustRegister(bound.NewMetrics("health", h.conns, h.scrapes))
	return registry
}

// scrape serves the metrics to so many at once; it is the one costly thing here.
func (h *health) scrape(w http.ResponseWriter, r *http.Request) {
	free, err := h.scrapes.Take()
	if err != nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
		return
	}
	defer free()
	h.metrics.ServeHTTP(w, r)
}

// ServeHTTP answers /healthz, which is ok while the process answers at all, and
// /readyz with all nodes, and /metrics where that is wanted.
func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/metrics" && h.metrics != nil {
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

func (h *health) ready() (text string, code int) {
	var report strings.Builder
	code = http.StatusOK
	checks := slices.Clone(h.checks)
	for _, n := range h.nodes {
		checks = append(checks, n)
	}
	for _, c := range checks {
		line, ready := c.line()
		report.WriteString(line)
		if !ready {
			code = http.StatusServiceUnavailable
		}
	}
	return report.String(), code
}

// serve serves on a port, 0 for none, until the context ends; the function that it
// returns waits for that.
func (h *health) serve(ctx context.Context, address string, port int) (wait func() error, err error) {
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
