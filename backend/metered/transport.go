package metered

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/burstlet/burstlet/backend"
)

// transports collects what the wrapped backends know of the transports to their remotes.
type transports struct {
	mu sync.Mutex
	of []backend.Backend
}

func (t *transports) add(b backend.Backend) {
	if b.Links == nil && b.Calls == nil && b.Queues == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of = append(t.of, b)
}

// Describe implements [prometheus.Collector]. The names depend on the backends, so
// none is described beforehand.
func (t *transports) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (t *transports) Collect(out chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.of {
		p := printer{out: out, prefix: "burstlet_" + b.Name + "_"}
		if b.Links != nil {
			for _, f := range b.Links() {
				p.link(f)
			}
		}
		if b.Calls != nil {
			for _, f := range b.Calls() {
				p.count("requests_total", "Cumulative number of requests to the API of the remote, retries among them, by "+
					"service, call and outcome: ok, canceled or the class of the error.",
					f.Count, []string{"service", "call", "outcome"}, f.Service, f.Call, f.Outcome)
			}
		}
		if b.Queues != nil {
			for _, f := range b.Queues() {
				p.gauge("requests_waiting", "Number of requests that wait here for the rate that the remote allows, by call.",
					float64(f.Waiting), []string{"call"}, f.Call)
			}
		}
	}
}

// printer makes the metrics of one backend.
type printer struct {
	out    chan<- prometheus.Metric
	prefix string
}

func (p printer) put(name, help string, kind prometheus.ValueType, value float64, labels []string, of ...string) {
	p.out <- prometheus.MustNewConstMetric(prometheus.NewDesc(p.prefix+name, help, labels, nil), kind, value, of...)
}

func (p printer) gauge(name, help string, value float64, labels []string, of ...string) {
	p.put(name, help, prometheus.GaugeValue, value, labels, of...)
}

func (p printer) count(name, help string, value uint64, labels []string, of ...string) {
	p.put(name, help, prometheus.CounterValue, float64(value), labels, of...)
}

// link shows a connection. One that was never tried yet has its counters already, so
// that a first failure is an increase.
func (p printer) link(f backend.LinkFacts) {
	by := []string{"connection"}
	up := 0.0
	if f.Up {
		up = 1
	}
	p.gauge("link_up", "1 while the connection to the pods' host carries calls, else 0.", up, by, f.Name)
	p.count(
		"link_connects_total", "Cumulative number of times that the connection to the pods' host was made.", f.Connects, by,
		f.Name,
	)
	p.count(
		"link_losses_total", "Cumulative number of times that a connection to the pods' host that was up ended.", f.Losses,
		by, f.Name,
	)
	for _, reason := range linkFailures {
		p.count("link_failures_total", "Cumulative number of failed attempts to connect to the pods' host, by what failed: "+
			"setup (keys or known hosts cannot be read), reach, host_key, authenticate.",
			f.Failures[reason], []string{"connection", "reason"}, f.Name, reason)
	}
	p.count("link_received_bytes_total", "Cumulative bytes received from the pods' host.", f.Received, by, f.Name)
	p.count("link_sent_bytes_total", "Cumulative bytes sent to the pods' host.", f.Sent, by, f.Name)
	if f.RoundTrip > 0 {
		p.gauge(
			"link_round_trip_seconds", "How long the last sign of life of the pods' host took.", f.RoundTrip.Seconds(), by,
			f.Name,
		)
	}
}

// linkFailures are the keys of backend.LinkFacts.Failures.
var linkFailures = []string{"setup", "reach", "host_key", "authenticate"}
