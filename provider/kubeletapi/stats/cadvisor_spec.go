package stats

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cfs"
)

var (
	cpuPeriod   = cadvisorDesc("container_spec_cpu_period", "CPU period of the container.")
	cpuQuota    = cadvisorDesc("container_spec_cpu_quota", "CPU quota of the container.")
	cpuShares   = cadvisorDesc("container_spec_cpu_shares", "CPU share of the container.")
	memoryLimit = cadvisorDesc("container_spec_memory_limit_bytes", "Memory limit for the container.")

	machineLabels = []string{"boot_id", "machine_id", "system_uuid"}
	machineCores  = prometheus.NewDesc("machine_cpu_cores", "Number of logical CPU cores.", machineLabels, nil)
	machineMemory = prometheus.NewDesc(
		"machine_memory_bytes", "Amount of memory installed on the machine.", machineLabels, nil,
	)
	machineFailure = prometheus.NewDesc(
		"machine_scrape_error", "1 if there was an error while getting machine metrics, 0 otherwise.", nil, nil,
	)
)

// spec shows with what resources a container runs.
func spec(ch chan<- prometheus.Metric, r *corev1.ResourceRequirements, labels []string) {
	send := func(d *prometheus.Desc, n int64) {
		ch <- prometheus.MustNewConstMetric(d, gauge, float64(n), labels...)
	}
	send(cpuPeriod, cfs.Period)
	if limit := r.Limits.Cpu().MilliValue(); limit > 0 {
		send(cpuQuota, cfs.Quota(limit))
	}
	request := r.Requests.Cpu()
	if _, set := r.Requests[corev1.ResourceCPU]; !set {
		request = r.Limits.Cpu()
	}
	send(cpuShares, cfs.Shares(request.MilliValue()))
	send(memoryLimit, r.Limits.Memory().Value()) // 0 without, as cAdvisor's
}

// machine shows what the pods' host has; nothing where nobody has said it.
func machine(ch chan<- prometheus.Metric, m *backend.NodeFacts) {
	if m == nil {
		ch <- prometheus.MustNewConstMetric(machineFailure, gauge, 1)
		return
	}
	ch <- prometheus.MustNewConstMetric(machineFailure, gauge, 0)
	labels := []string{m.BootID, m.MachineID, m.SystemUUID}
	if cores, ok := m.Capacity[corev1.ResourceCPU]; ok {
		ch <- prometheus.MustNewConstMetric(machineCores, gauge, float64(cores.Value()), labels...)
	}
	if memory, ok := m.Capacity[corev1.ResourceMemory]; ok {
		ch <- prometheus.MustNewConstMetric(machineMemory, gauge, float64(memory.Value()), labels...)
	}
}
