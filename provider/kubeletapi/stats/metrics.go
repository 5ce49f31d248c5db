package stats

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

var (
	podLabels       = []string{"pod", "namespace"}
	containerLabels = []string{"container", "pod", "namespace"}
)

// The kubelet's resource metrics, with its help texts and their stability.
var (
	nodeCPU        = desc("node_cpu_usage_seconds_total", "Cumulative cpu time consumed by the node in core-seconds", nil)
	nodeMemory     = desc("node_memory_working_set_bytes", "Current working set of the node in bytes", nil)
	containerStart = desc(
		"container_start_time_seconds", "Start time of the container since unix epoch in seconds", containerLabels,
	)
	containerCPU = desc(
		"container_cpu_usage_seconds_total", "Cumulative cpu time consumed by the container in core-seconds", containerLabels,
	)
	containerMemory = desc(
		"container_memory_working_set_bytes", "Current working set of the container in bytes", containerLabels,
	)
	podCPU      = desc("pod_cpu_usage_seconds_total", "Cumulative cpu time consumed by the pod in core-seconds", podLabels)
	podMemory   = desc("pod_memory_working_set_bytes", "Current working set of the pod in bytes", podLabels)
	scrapeError = desc(
		"resource_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise", nil,
	)
)

func desc(name, help string, labels []string) *prometheus.Desc {
	return prometheus.NewDesc(name, "[STABLE] "+help, labels, nil)
}

// Metrics shows one summary as the kubelet's /metrics/resource does: for
// metrics-server, which turns it into what kubectl top and autoscalers read.
type Metrics struct {
	// Summary is nil where the measurement failed.
	Summary *statsv1alpha1.Summary
}

// Gather returns the metrics with labels in the order in which the kubelet declares
// those of containers: virtual-kubelet's end-to-end suite takes the second for
// the pod's name. The order means nothing to a scraper.
func (m Metrics) Gather() ([]*dto.MetricFamily, error) {
	reg := prometheus.NewRegistry()
	if err := reg.Register(m); err != nil {
		return nil, fmt.Errorf("register resource metrics: %w", err)
	}
	families, err := reg.Gather()
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			if labels := metric.GetLabel(); len(labels) == len(containerLabels) {
				slices.SortFunc(labels, func(a, b *dto.LabelPair) int {
					return slices.Index(containerLabels, a.GetName()) - slices.Index(containerLabels, b.GetName())
				})
			}
		}
	}
	return families, err
}

// Describe names all metrics.
func (Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		nodeCPU, nodeMemory, containerStart, containerCPU, containerMemory, podCPU, podMemory, scrapeError,
	} {
		ch <- d
	}
}

// Collect shows what is known, each with the time of its measurement.
func (m Metrics) Collect(ch chan<- prometheus.Metric) {
	if m.Summary == nil {
		ch <- prometheus.MustNewConstMetric(scrapeError, prometheus.GaugeValue, 1)
		return
	}
	ch <- prometheus.MustNewConstMetric(scrapeError, prometheus.GaugeValue, 0)
	cpu(ch, nodeCPU, m.Summary.Node.CPU)
	memory(ch, nodeMemory, m.Summary.Node.Memory)
	for _, pod := range unique(m.Summary.Pods) {
		names := []string{pod.PodRef.Name, pod.PodRef.Namespace}
		for _, c := range pod.Containers {
			names := append([]string{c.Name}, names...)
			if c.StartTime.Unix() > 0 {
				ch <- prometheus.MustNewConstMetric(
					containerStart, prometheus.GaugeValue, seconds(c.StartTime.UnixNano()), names...,
				)
			}
			cpu(ch, containerCPU, c.CPU, names...)
			memory(ch, containerMemory, c.Memory, names...)
		}
		cpu(ch, podCPU, pod.CPU, names...)
		memory(ch, podMemory, pod.Memory, names...)
	}
}

// unique leaves the youngest of pods of one name: one that is still ending may
// stand beside its successor, and a series can be there but once.
func unique(pods []statsv1alpha1.PodStats) []statsv1alpha1.PodStats {
	type name struct{ namespace, name string }
	at := map[name]int{}
	var out []statsv1alpha1.PodStats
	for _, pod := range pods {
		n := name{pod.PodRef.Namespace, pod.PodRef.Name}
		i, seen := at[n]
		switch {
		case !seen:
			at[n] = len(out)
			out = append(out, pod)
		case pod.StartTime.After(out[i].StartTime.Time):
			out[i] = pod
		}
	}
	return out
}

func cpu(ch chan<- prometheus.Metric, d *prometheus.Desc, s *statsv1alpha1.CPUStats, labels ...string) {
	if s == nil || s.UsageCoreNanoSeconds == nil {
		return
	}
	ch <- prometheus.NewMetricWithTimestamp(s.Time.Time,
		prometheus.MustNewConstMetric(
			d, prometheus.CounterValue, float64(*s.UsageCoreNanoSeconds)/float64(time.Second), labels...,
		))
}

func memory(ch chan<- prometheus.Metric, d *prometheus.Desc, s *statsv1alpha1.MemoryStats, labels ...string) {
	if s == nil || s.WorkingSetBytes == nil {
		return
	}
	ch <- prometheus.NewMetricWithTimestamp(s.Time.Time,
		prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(*s.WorkingSetBytes), labels...))
}

func seconds(nanos int64) float64 { return float64(nanos) / float64(time.Second) }
