package provider

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one node.
type metrics struct {
	dropped *prometheus.CounterVec
	ready   prometheus.Gauge
	pushes  prometheus.Counter
	foreign prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "burstlet_framework_writes_dropped_total",
			Help: "Writes to pods that virtual-kubelet wanted to make and that were not made, by verb.",
		}, []string{"verb"}),
		ready: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "burstlet_node_ready",
			Help: "1 while the node's Ready condition should be True, else 0.",
		}),
		pushes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "burstlet_node_status_pushes_total",
			Help: "Changes of the node's status handed to the API.",
		}),
		foreign: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "burstlet_node_foreign_lease_renewals_total",
			Help: "Renewals of the node's lease in kube-node-lease that another process made while this one had the node.",
		}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.dropped, m.ready, m.pushes, m.foreign} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of the node: %w", err)
		}
	}
	return m, nil
}

// cgroupVersion is a kubelet's gauge, once the remote has said that its host has cgroups.
type cgroupVersion struct{ *remote }

var cgroupVersionDesc = prometheus.NewDesc("kubelet_cgroup_version", "cgroup version on the hosts.", nil, nil)

// Describe implements [prometheus.Collector].
func (c cgroupVersion) Describe(out chan<- *prometheus.Desc) { out <- cgroupVersionDesc }

// Collect implements [prometheus.Collector].
func (c cgroupVersion) Collect(out chan<- prometheus.Metric) {
	if facts, _ := c.get(); facts != nil && facts.CgroupVersion > 0 {
		out <- prometheus.MustNewConstMetric(cgroupVersionDesc, prometheus.GaugeValue, float64(facts.CgroupVersion))
	}
}
