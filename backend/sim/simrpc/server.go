package simrpc

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fence"
	"github.com/burstlet/burstlet/backend/intercept"
)

// stopTimeout bounds how long the answers to calls that end with the server may
// take to be written.
const stopTimeout = 5 * time.Second

// Server lends a backend to engines behind a socket.
type Server struct {
	// Open returns the backend as the node of this identity sees it. It is
	// called once for each identity; Backend.Run must be nil.
	Open func(node string) backend.Backend
	// Version is the program's, for the message of a version mismatch.
	Version string

	mu    sync.Mutex
	nodes map[string]backend.Backend
	// leaders are those of the nodes, by their header.
	leaders map[string]fence.Record
	calls   sync.WaitGroup
}

// Serve serves until the context ends, then ends all calls and closes the
// listener.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	calls, endCalls := context.WithCancel(ctx)
	defer endCalls()
	server := &http.Server{
		Handler:     s.handler(),
		BaseContext: func(net.Listener) context.Context { return calls },
		// Only this user's processes connect: nothing to bound but the headers.
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          stdlog.New(warnings{log.G(ctx)}, "", 0),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	endCalls()
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if stop := server.Shutdown(stopCtx); stop != nil {
		err = errors.Join(err, stop, server.Close())
	}
	s.calls.Wait()
	if err != nil {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// warnings is what the HTTP server logs, a line each.
type warnings struct{ entry *log.Entry }

// Write logs one line.
func (w warnings) Write(line []byte) (int, error) {
	w.entry.WithField("error", strings.TrimSpace(string(line))).Warn("serve the sim")
	return len(line), nil
}

// handler finds the call behind a path.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+handshakePath, s.handshake)
	mux.HandleFunc("POST "+leaderPath, s.serveLeader)
	changes := changing()
	for call, handle := range handlers() {
		mux.HandleFunc("POST "+callPath(call), func(w http.ResponseWriter, r *http.Request) {
			if _, ok := changes[call]; ok {
				if err := s.led(r); err != nil {
					fail(w, err)
					return
				}
			}
			s.serve(w, r, call.Field(), handle)
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		defer s.calls.Done()
		mux.ServeHTTP(w, r)
	})
}

// handlerFunc serves one call of a backend.
type handlerFunc func(w http.ResponseWriter, r *http.Request, b backend.Backend)

func (s *Server) serve(w http.ResponseWriter, r *http.Request, field string, handle handlerFunc) {
	b, err := s.node(r)
	if err == nil && !slices.Contains(intercept.Lent(b), field) {
		err = backend.Errorf(backend.ErrUnsupported, "the remote does not lend %s", field)
	}
	if err != nil {
		fail(w, err)
		return
	}
	handle(w, r, b)
}

// node is the backend of the node that calls.
func (s *Server) node(r *http.Request) (backend.Backend, error) {
	name, err := url.QueryUnescape(r.Header.Get(nodeHeader))
	if err != nil {
		return backend.Backend{}, backend.Errorf(backend.ErrInvalid, "read header %s: %w", nodeHeader, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.nodes[name]
	if ok {
		return b, nil
	}
	b = s.Open(name)
	if b.Run != nil {
		return backend.Backend{}, backend.Errorf(backend.ErrUnsupported, "a backend that runs by itself cannot be served")
	}
	if s.nodes == nil {
		s.nodes = map[string]backend.Backend{}
	}
	s.nodes[name] = b
	return b, nil
}

// handshake answers, and holds the answer open if asked to.
func (s *Server) handshake(w http.ResponseWriter, r *http.Request) {
	var in handshakeRequest
	if !read(w, r, &in) {
		return
	}
	b, err := s.node(r)
	if err != nil {
		fail(w, err)
		return
	}
	writeJSON(w, http.StatusOK, handshake{
		Protocol: protocol, Version: s.Version, Name: b.Name, Fields: intercept.Lent(b), Limits: b.Limits,
	})
	if in.Hold && flush(w) == nil {
		<-r.Context().Done()
	}
}
