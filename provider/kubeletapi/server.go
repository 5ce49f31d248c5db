package kubeletapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
)

const (
	headerTimeout = 10 * time.Second // for a client to send its headers
	idleTimeout   = 90 * time.Second // of a kept connection, as the kubelet has it
	stopTimeout   = 2 * time.Second  // for requests to end at shutdown
)

// Server is the kubelet's HTTP API of one node.
type Server struct {
	cfg     Config
	metrics *metrics
	bounds  *bounds
	ca      *clientCA
	certs   certSource
	handler http.Handler
	streams sync.WaitGroup // connections that were taken over

	listener net.Listener
	started  time.Time
}

// New returns a server that neither listens nor serves yet.
func New(cfg Config) (*Server, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Registerer, cfg.NodeName)
	if err != nil {
		return nil, err
	}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(volumeStats{cfg.Engine}); err != nil {
			return nil, fmt.Errorf("register metrics of volumes: %w", err)
		}
	}
	b := cmp.Or(cfg.bounds, newBounds())
	if err := b.register(cfg.Registerer); err != nil {
		return nil, fmt.Errorf("register metrics of the kubelet API: %w", err)
	}
	s := &Server{
		cfg: cfg, metrics: m, bounds: b, ca: newClientCA(cfg.ClientCAFile, cfg.caReaders()...),
		certs: newCertSource(cfg),
	}
	authenticated, err := newAuth(cfg, s.ca, b)
	if err != nil {
		return nil, err
	}
	s.handler = m.wrap(b.outer(authenticated.wrap(b.inner(s.routes()))))
	return s, nil
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.ofPod(s.containerLogs))
	s.streamRoutes(mux)
	mux.HandleFunc("POST /checkpoint/{namespace}/{pod}/{container}", s.ofPod(s.checkpoint))
	mux.HandleFunc("GET /pods", s.pods)
	mux.HandleFunc("GET /pods/{$}", s.pods)
	mux.HandleFunc("GET /runningpods/{$}", s.runningPods)
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /healthz/{check}", s.healthz)
	s.statsRoutes(mux)
	s.systemLogRoutes(mux)
	if s.cfg.Gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(s.cfg.Gatherer, promhttp.HandlerOpts{}))
	}
	s.zPages(mux)
	return mux
}

// Listen opens the port, after making sure that there is a certificate to serve
// with, unless the cluster is to issue it. It is called once, before Run. Errors
// name the setting to change.
func (s *Server) Listen(ctx context.Context) error {
	if s.cfg.Certificate == nil {
		if _, err := s.certs.get(ctx, time.Now()); err != nil {
			return err
		}
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", s.cfg.Address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("listen on %s for the kubelet API: another process uses this port: "+
			"end it or choose another with %s: %w", s.cfg.Address, SettingPort, err)
	case err != nil:
		return fmt.Errorf("listen on %s for the kubelet API (%s): %w", s.cfg.Address, SettingAddress, err)
	}
	s.listener = s.bounds.conns.Listener(listener)
	return nil
}

// Port is the port that Listen opened; 0 before.
func (s *Server) Port() int32 {
	if s.listener == nil {
		return 0
	}
	addr, _ := s.listener.Addr().(*net.TCPAddr)
	if addr == nil {
		return 0
	}
	return int32(addr.Port) //nolint:gosec // a port fits
}

// Close closes a port that was opened and is not served.
func (s *Server) Close() error {
	if s.listener == nil {
		return nil
	}
	return s.listener.Close()
}

// Run serves until the context ends, then ends all streams and returns nil. The
// client CA is read first: it fails where that cannot be read.
func (s *Server) Run(ctx context.Context) error {
	if s.listener == nil {
		return errors.New("serve kubelet API: it does not listen")
	}
	if err := s.ca.load(ctx); err != nil {
		return errors.Join(err, s.Close())
	}
	s.started = time.Now()
	group, ctx := errgroup.WithContext(ctx)
	server := &http.Server{
		Handler:           s.handler,
		TLSConfig:         tlsConfig(s.certs),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		ConnState:         s.bounds.conns.State,
		MaxHeaderBytes:    1 << 20,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          stdlog.New(lineLogger{log.G(ctx)}, "", 0),
	}
	group.Go(func() error {
		s.ca.run(ctx)
		return nil
	})
	group.Go(func() error {
		err := server.ServeTLS(s.listener, "", "")
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("serve kubelet API: %w", err)
	})
	group.Go(func() error {
		<-ctx.Done()
		err := stop(ctx, server)
		s.awaitStreams(ctx)
		return err
	})
	return group.Wait()
}

// stop gives requests, whose context has ended, a moment to notice.
func stop(ctx context.Context, server *http.Server) error {
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := server.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	if err != nil {
		return fmt.Errorf("stop kubelet API: %w", err)
	}
	return nil
}

// lineLogger takes what net/http logs about single connections.
type lineLogger struct{ entry *log.Entry }

func (l lineLogger) Write(p []byte) (int, error) {
	l.entry.WithField("detail", strings.TrimSpace(string(p))).Debug("kubelet API connection failed")
	return len(p), nil
}
