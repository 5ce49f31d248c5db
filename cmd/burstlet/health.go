package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// States of a node in this process, as /readyz shows them.
const (
	stateStarting = "starting"
	stateRunning  = "running"
	stateStandby  = "standby" // another process has the node's lease
	stateFailed   = "failed"
)

const healthTimeout = 10 * time.Second // of one request's headers

// nodeState is what a node is doing now.
type nodeState struct {
	name string

	mu    sync.Mutex
	state string
	err   error // why it failed, or why it cannot even stand by
}

func (s *nodeState) set(state string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.err = state, err
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

// health tells probes how this process is.
type health struct{ nodes []*nodeState }

func newHealth(configs []config.Configuration) *health {
	h := &health{}
	for _, c := range configs {
		h.nodes = append(h.nodes, &nodeState{name: c.Node.Name, state: stateStarting})
	}
	return h
}

// ServeHTTP answers /healthz, which is ok while the process answers at all, and
// /readyz with all nodes.
func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	for _, n := range h.nodes {
		line, ready := n.line()
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
	server := &http.Server{Handler: h, ReadHeaderTimeout: healthTimeout}
	done := make(chan error, 1)
	go func() {
		err := server.Serve(listener)
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
