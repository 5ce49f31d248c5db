package stats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// cadvisorLabels are those of every series of a container (kubelet:
// containerPrometheusLabelsFunc).
var cadvisorLabels = []string{"container", "id", "image", "name", "namespace", "pod"}

var (
	cadvisorError = prometheus.NewDesc(
		"container_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise", nil, nil,
	)
	containerBegan = cadvisorDesc(
		"container_start_time_seconds", "Start time of the container since unix epoch in seconds.",
	)
	containerSeen = cadvisorDesc("container_last_seen", "Last time a container was seen by the exporter")
)

func cadvisorDesc(name, help string, extra ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append(slices.Clip(cadvisorLabels), extra...), nil)
}

// CAdvisor shows one measurement as the kubelet's /metrics/cadvisor does, for what
// dashboards and rules read of cAdvisor. What is not known is left out.
type CAdvisor struct {
	// Facts are the measurement; nil where it failed.
	Facts *backend.StatsFacts
	// Pods are the node's, with their status: images, ids and resources of containers.
	Pods []*corev1.Pod
	// Machine is the node's host; nil where nobody has said yet.
	Machine *backend.NodeFacts
	Now     time.Time
}

// Gather returns the metrics.
func (c CAdvisor) Gather() ([]*dto.MetricFamily, error) {
	reg := prometheus.NewRegistry()
	if err := reg.Register(c); err != nil {
		return nil, fmt.Errorf("register cAdvisor's metrics: %w", err)
	}
	return reg.Gather()
}

// Describe names nothing: the metrics depend on what is known.
func (CAdvisor) Describe(chan<- *prometheus.Desc) {}

// Collect shows the host, its pods and their containers.
func (c CAdvisor) Collect(ch chan<- prometheus.Metric) {
	machine(ch, c.Machine)
	if c.Facts == nil {
		ch <- prometheus.MustNewConstMetric(cadvisorError, prometheus.GaugeValue, 1)
		return
	}
	ch <- prometheus.MustNewConstMetric(cadvisorError, prometheus.GaugeValue, 0)
	if c.Facts.Node != nil {
		c.show(ch, series{id: "/", usage: c.Facts.Node, network: c.Facts.Node.Network})
	}
	known := make(map[types.UID]*corev1.Pod, len(c.Pods))
	for _, pod := range c.Pods {
		known[pod.UID] = pod
	}
	for uid, p := range newest(c.Facts) {
		c.pod(ch, p, known[uid])
	}
}

// pod shows a pod's own series, those of its network, which are its sandbox's, and its
// containers'. pod is nil where the API does not have it any more.
func (c CAdvisor) pod(ch chan<- prometheus.Metric, p *backend.PodStats, pod *corev1.Pod) {
	whole := series{id: "/pod" + string(p.UID), namespace: p.Namespace, pod: p.Name}
	if p.Detail != nil && p.Detail.Cgroup != "" {
		whole.id = p.Detail.Cgroup
	}
	if p.CPUCoreNanoSeconds != nil || p.MemoryWorkingSet != nil { // of the whole, not a sum
		own := whole
		own.usage = &p.Usage
		c.show(ch, own)
	}
	if len(p.Network) > 0 {
		box := whole
		box.id, box.name, box.image = whole.id+"/"+cmp.Or(p.ID, "sandbox"), p.ID, p.SandboxImage
		box.usage, box.network = &backend.Usage{Time: p.Time, StartTime: p.StartTime}, p.Network
		c.show(ch, box)
	}
	for _, m := range current(p.Containers) {
		one := whole
		one.container, one.usage = m.Name, &m.Usage
		one.describe(pod)
		one.id = whole.id + "/" + cmp.Or(one.name, m.Name)
		if m.Detail != nil && m.Detail.Cgroup != "" {
			one.id = m.Detail.Cgroup
		}
		c.show(ch, one)
	}
}

// series are those of one cgroup: its labels, and what they show.
type series struct {
	container, id, image, name, namespace, pod string

	usage   *backend.Usage
	network []backend.InterfaceUsage
	// resources are a container's; nil for others.
	resources *corev1.ResourceRequirements
}

// describe adds what a pod's spec and status say of the container.
func (s *series) describe(pod *corev1.Pod) {
	if pod == nil {
		return
	}
	s.image, s.resources = specOf(pod, s.container)
	for _, list := range [][]corev1.ContainerStatus{
		pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		for i := range list {
			if status := &list[i]; status.Name == s.container {
				_, s.name, _ = strings.Cut(status.ContainerID, "://")
				s.image = cmp.Or(status.Image, s.image)
				if status.Resources != nil {
					s.resources = status.Resources
				}
			}
		}
	}
}

// specOf is what a pod asks for a container; nothing of one that it does not have.
func specOf(pod *corev1.Pod, container string) (image string, resources *corev1.ResourceRequirements) {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == container {
				return list[i].Image, &list[i].Resources
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if e := &pod.Spec.EphemeralContainers[i]; e.Name == container {
			return e.Image, &e.Resources
		}
	}
	return "", nil
}

func (s *series) labels() []string {
	return []string{s.container, s.id, s.image, s.name, s.namespace, s.pod}
}

// show sends all that is known of it, measurements with their time as cAdvisor does.
func (c CAdvisor) show(ch chan<- prometheus.Metric, s series) {
	labels := s.labels()
	if !s.usage.StartTime.IsZero() {
		ch <- prometheus.MustNewConstMetric(
			containerBegan, prometheus.GaugeValue, float64(s.usage.StartTime.Unix()), labels...,
		)
	}
	ch <- prometheus.NewMetricWithTimestamp(c.Now,
		prometheus.MustNewConstMetric(containerSeen, prometheus.GaugeValue, float64(c.Now.Unix()), labels...))
	if s.resources != nil {
		spec(ch, s.resources, labels)
	}
	for _, f := range families {
		for _, v := range f.values(&s) {
			ch <- prometheus.NewMetricWithTimestamp(s.usage.Time,
				prometheus.MustNewConstMetric(f.desc, f.kind, v.value, append(slices.Clip(labels), v.labels...)...))
		}
	}
}
