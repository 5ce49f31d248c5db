package kubeletapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/provider/kubeletapi/stats"
)

// How old a measurement may be: the whole of it costs a remote most and is as old
// with a kubelet, whose housekeeping interval this is. Rates are made of CPU and
// memory, so that two scrapes must not get the same; this age only joins what
// comes in one burst.
const (
	summaryMaxAge  = 10 * time.Second
	resourceMaxAge = time.Second
)

// Measurer is what the server asks of the engine about resource use.
type Measurer interface {
	// Stats measures what pods and their host use, or returns what was measured
	// not longer than maxAge ago; it is only read. Errors: Unsupported where the
	// backend cannot measure.
	Stats(ctx context.Context, maxAge time.Duration) (backend.StatsFacts, error)
	// LastLoop is when the engine's loop was last alive; zero before it began.
	LastLoop() time.Time
}

// statsRoutes adds resource use, the metrics of probes, and the configuration.
func (s *Server) statsRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /stats/summary", s.statsSummary)
	mux.HandleFunc("POST /stats/summary", s.statsSummary)
	mux.HandleFunc("GET /metrics/resource", s.resourceMetrics)
	mux.HandleFunc("GET /metrics/cadvisor", s.cadvisorMetrics)
	mux.HandleFunc("GET /configz", s.configz)
	if s.cfg.Probes != nil {
		mux.Handle("GET /metrics/probes", promhttp.HandlerFor(
			s.cfg.Probes, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError},
		))
	}
}

// statsSummary answers /stats/summary.
func (s *Server) statsSummary(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		fail(w, r, backend.Errorf(backend.ErrInvalid, "parse form failed: %w", err))
		return
	}
	only := r.Form["only_cpu_and_memory"]
	summary, err := s.summarize(r.Context(), len(only) == 1 && only[0] == "true")
	if err != nil {
		fail(w, r, err)
		return
	}
	writeJSON(w, r, summary)
}

// summarize measures. Where the backend cannot, it names what runs, without
// numbers: users see that nothing is known, and not an error of the node.
func (s *Server) summarize(ctx context.Context, onlyCPUAndMemory bool) (*statsv1alpha1.Summary, error) {
	maxAge := summaryMaxAge
	if onlyCPUAndMemory {
		maxAge = resourceMaxAge
	}
	in := stats.Input{Node: s.cfg.NodeName, Since: s.started, OnlyCPUAndMemory: onlyCPUAndMemory}
	facts, err := s.cfg.Engine.Stats(ctx, maxAge)
	switch {
	case err == nil:
		in.Facts = &facts
	case !errors.Is(err, backend.ErrUnsupported):
		return nil, fmt.Errorf("failed to list pod stats: %w", err)
	}
	in.Pods = s.cfg.Engine.Pods(nil)
	return stats.Summarize(in), nil
}

// resourceMetrics answers /metrics/resource. A failed measurement is a metric,
// as the kubelet's.
func (s *Server) resourceMetrics(w http.ResponseWriter, r *http.Request) {
	summary, err := s.summarize(r.Context(), true)
	if err != nil && r.Context().Err() == nil {
		log.G(r.Context()).WithError(err).Warn("resource metrics are missing: measuring failed")
	}
	promhttp.HandlerFor(
		stats.Metrics{Summary: summary}, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError},
	).ServeHTTP(w, r)
}

// cadvisorMetrics answers /metrics/cadvisor. Where the backend cannot measure, what is
// known of the machine is there alone. A failed measurement is a metric, as cAdvisor's.
func (s *Server) cadvisorMetrics(w http.ResponseWriter, r *http.Request) {
	shown := stats.CAdvisor{Now: time.Now()}
	facts, err := s.cfg.Engine.Stats(r.Context(), resourceMaxAge)
	switch {
	case err == nil || errors.Is(err, backend.ErrUnsupported):
		shown.Facts = &facts
	case r.Context().Err() == nil:
		log.G(r.Context()).WithError(err).Warn("metrics of cAdvisor are missing: measuring failed")
	}
	shown.Pods = s.cfg.Engine.Pods(nil)
	if s.cfg.Machine != nil {
		shown.Machine = s.cfg.Machine()
	}
	promhttp.HandlerFor(shown, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, r)
}

// writeJSON answers with an object.
func writeJSON(w http.ResponseWriter, r *http.Request, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err := json.NewEncoder(w).Encode(object); err != nil && r.Context().Err() == nil {
		log.G(r.Context()).WithError(err).Debug("answer not sent")
	}
}
