package approver

import "github.com/prometheus/client_golang/prometheus"

// What became of a request, as the metric says.
const (
	resultApproved = "approved"
	resultLeft     = "left"   // alone, each once for each reason
	resultFailed   = "failed" // the API server did not take the approval
)

type metrics struct {
	requests *prometheus.CounterVec
	waiting  prometheus.Gauge
}

func newMetrics() metrics {
	return metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "burstlet_approver_requests_total",
			Help: "Cumulative number of requests for certificates of nodes by what became of them: approved, left alone " +
				"(for a reason), or failed to be approved.",
		}, []string{"result", "reason"}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "burstlet_approver_waiting_requests",
			Help: "Current number of undecided requests for certificates of nodes that were left alone.",
		}),
	}
}
