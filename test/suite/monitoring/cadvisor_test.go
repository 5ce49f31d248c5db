package monitoring

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/provider/kubeletapi/stats"
	"github.com/burstlet/burstlet/test/kit/child"
	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// kubePrometheus are the expressions over cAdvisor's metrics in the rules and dashboards of
// kubernetes-mixin, which kube-prometheus installs: rules/apps.libsonnet, rules/containers*.libsonnet,
// alerts/resource_alerts.libsonnet, dashboards/resources/*.libsonnet, dashboards/network-usage/*.libsonnet. SELECT is
// cadvisorSelector with what its scrape configuration adds, DISK is diskDeviceSelector, NAMESPACE one of pods.
var kubePrometheus = []string{
	`sum by (namespace, pod, container) (rate(container_cpu_usage_seconds_total{SELECT, image!=""}[5m]))`,
	`container_memory_working_set_bytes{SELECT, image!=""}`,
	`container_memory_rss{SELECT, image!=""}`,
	`container_memory_cache{SELECT, image!=""}`,
	`container_memory_swap{SELECT, image!=""}`,
	`sum(container_memory_working_set_bytes{SELECT, container!="", image!=""}) by (container)`,
	`sum(increase(container_cpu_cfs_throttled_periods_total{SELECT, container!=""}[5m])) by (container, pod, namespace)`,
	`sum(increase(container_cpu_cfs_periods_total{SELECT, container!=""}[5m])) by (container, pod, namespace)`,
	`sum(rate(container_network_receive_bytes_total{SELECT, namespace=~".+"}[5m])) by (pod)`,
	`sum(rate(container_network_transmit_bytes_total{SELECT, namespace=~".+"}[5m])) by (pod)`,
	`sum(rate(container_network_receive_packets_total{SELECT, namespace=~".+"}[5m])) by (pod)`,
	`sum(rate(container_network_transmit_packets_total{SELECT, namespace=~".+"}[5m])) by (pod)`,
	`sum(rate(container_network_receive_packets_dropped_total{SELECT, namespace=~".+"}[5m])) by (pod)`,
	`sum(rate(container_network_transmit_packets_dropped_total{SELECT, namespace=~".+"}[5m])) by (pod)`,
	`ceil(sum by (pod) (rate(container_fs_reads_total{SELECT, container!="", DISK, namespace="NAMESPACE"}[5m])))`,
	`ceil(sum by (pod) (rate(container_fs_writes_total{SELECT, container!="", DISK, namespace="NAMESPACE"}[5m])))`,
	`sum(rate(container_fs_reads_bytes_total{SELECT, container!="", DISK, namespace!=""}[5m])) by (container)`,
	`sum(rate(container_fs_writes_bytes_total{SELECT, container!="", DISK, namespace!=""}[5m])) by (container)`,
	`machine_memory_bytes{SELECT}`, `machine_cpu_cores{SELECT}`,
}

// TestKubePrometheusFindsCAdvisorsMetrics in what a measured pod looks like to a real
// Prometheus, which scrapes as the ServiceMonitor of the kubelet does; and those of volumes.
func TestKubePrometheusFindsCAdvisorsMetrics(t *testing.T) {
	lane.From(t, lane.Gate)
	need(t)
	var scrapes, volumeScrapes atomic.Uint64
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		serveVolumes(volumeScrapes.Add(1)).ServeHTTP(w, r)
	})
	mux.HandleFunc("/metrics/cadvisor", func(w http.ResponseWriter, r *http.Request) {
		promhttp.HandlerFor(measured(scrapes.Add(1)), promhttp.HandlerOpts{}).ServeHTTP(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	file := writeFile(t, "prometheus.yml", `
global: {scrape_interval: 1s}
scrape_configs:
- job_name: kubelet
  metrics_path: /metrics/cadvisor
  honor_labels: true
  static_configs: [{targets: [%q]}]
  relabel_configs: [{source_labels: [__metrics_path__], target_label: metrics_path}]
- job_name: kubelet's own
  honor_labels: true
  static_configs: [{targets: [%[1]q]}]
  relabel_configs:
  - {source_labels: [__metrics_path__], target_label: metrics_path}
  - {target_label: job, replacement: kubelet}
`, strings.TrimPrefix(server.URL, "http://"))
	address := fmt.Sprintf("127.0.0.1:%d", ports.Free(t))
	child.ForTest(t, child.Config{Program: "prometheus", Args: []string{
		"--config.file=" + file, "--storage.tsdb.path=" + t.TempDir(), "--web.listen-address=" + address, "--log.level=warn",
	}})
	p := &prometheus{url: "http://" + address}
	for _, expr := range kubePrometheus {
		expr = cadvisorQuery(expr, `job="kubelet"`)
		wait.For(t, patience, expr, func() error {
			points, err := p.data(expr)
			if err == nil && points[0].value <= 0 {
				err = fmt.Errorf("%v, want more than 0", points)
			}
			return err
		})
	}
	p.findsVolumes(t)
}

// cgroupManager are the queries of kubernetes-mixin's dashboards/kubelet.libsonnet about
// operations on pods' cgroups, asked of a node over SSH.
func cgroupManager() (all []asking) {
	selector := fmt.Sprintf(`cluster="", job=%q, node=%q, instance=~".+"`, jobKubeletAPI, nodeCRI)
	for _, expr := range []string{
		`sum(rate(kubelet_cgroup_manager_duration_seconds_count{SELECT}[INTERVAL])) by (instance, operation_type)`,
		`histogram_quantile(0.99, sum(rate(kubelet_cgroup_manager_duration_seconds_bucket{SELECT}[INTERVAL])) ` +
			`by (instance, operation_type, le))`,
	} {
		expr = strings.NewReplacer("SELECT", selector, "INTERVAL", rateInterval).Replace(expr)
		all = append(all, asking{where: "the kubelet's dashboard, " + expr, expr: expr, labels: []string{"operation_type"}})
	}
	return all
}

// cadvisorQuery fills in what kubernetes-mixin selects cAdvisor's metrics and disks by.
func cadvisorQuery(expr, job string) string {
	return strings.NewReplacer("SELECT", job+`, metrics_path="/metrics/cadvisor"`,
		"DISK", `device=~"(/dev/)?(mmcblk.p.+|nvme.+|rbd.+|sd.+|vd.+|xvd.+|dm-.+|md.+|dasd.+)"`,
		"NAMESPACE", workNamespace).Replace(expr)
}

// findsCAdvisors: the same queries have answers about a pod whose containers run over SSH. That
// all values are as they should be, the test above shows with made ones: nothing real is sure
// to drop packets or to swap.
func (p *prometheus) findsCAdvisors(t *testing.T) {
	t.Helper()
	asked := kubePrometheus
	if !disksAreCounted(t) {
		asked = slices.DeleteFunc(
			slices.Clone(asked), func(expr string) bool { return strings.Contains(expr, "container_fs_") },
		)
		t.Logf("not asked: %d queries about disks, which this machine's kernel does not count for each cgroup",
			len(kubePrometheus)-len(asked))
	}
	wait.For(t, patience, "kube-prometheus' queries about containers over SSH", func() error {
		var silent []error
		for _, expr := range asked {
			expr = cadvisorQuery(expr, fmt.Sprintf(`job=%q, node=%q`, jobKubelet, nodeCRI))
			if _, err := p.data(expr); err != nil {
				silent = append(silent, fmt.Errorf("%s: %w", expr, err))
			}
		}
		return errors.Join(silent...)
	})
}

// disksAreCounted is false where the kernel has version 1 of cgroups and counts nothing at all
// there, not even for the root: Linux 6.18 does so while no device has a throttle.
func disksAreCounted(t *testing.T) bool {
	t.Helper()
	data, err := os.ReadFile("/sys/fs/cgroup/blkio/blkio.throttle.io_service_bytes_recursive")
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(data), "Write ")
}

// busyLoop writes past the cache, and reads: with version 1 of cgroups nobody is charged for
// what the kernel writes later.
const busyLoop = "while :; do dd if=/dev/zero of=/f bs=64k count=16 oflag=direct; dd if=/f of=/dev/null bs=64k " +
	"iflag=direct; " +
	"done 2>/dev/null"

// busy has a container use what cAdvisor measures: more CPU than its limit, a disk.
func busy(pod *corev1.Pod) {
	c := &pod.Spec.Containers[0]
	c.Command = []string{"sh", "-c", busyLoop}
	c.Resources.Limits = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
}

// measured is a pod on a host in the n-th scrape: all that is counted grows.
func measured(n uint64) stats.CAdvisor {
	now := time.Now()
	grows := func(step uint64) *uint64 { return new(n * step) }
	usage := func(cgroup string) backend.Usage {
		return backend.Usage{
			Time: now, StartTime: now.Add(-time.Hour), CPUCoreNanoSeconds: grows(1e9),
			MemoryUsage: new(uint64(4096)), MemoryWorkingSet: new(uint64(4096)), MemoryRSS: new(uint64(4096)),
			Detail: &backend.UsageDetail{
				Cgroup: cgroup, MemoryCache: new(uint64(4096)), MemorySwap: new(uint64(4096)),
				CFS:   &backend.CFSUsage{Periods: n * 10, ThrottledPeriods: n, ThrottledTime: n * 1e6},
				Disks: []backend.DiskUsage{{Device: "/dev/sda", ReadBytes: n * 4096, WriteBytes: n * 4096, Reads: n, Writes: n}},
			},
		}
	}
	pod := usage("/top/podu")
	pod.Network = []backend.InterfaceUsage{{
		Name: "eth0", RxBytes: grows(100), TxBytes: grows(100), RxPackets: grows(9), TxPackets: grows(9), RxDropped: grows(1),
		TxDropped: grows(1),
	}}
	half := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	return stats.CAdvisor{
		Now: now,
		Facts: &backend.StatsFacts{Node: new(usage("/")), Pods: []backend.PodStats{{
			Ref: backend.Ref{UID: "u", Namespace: workNamespace, Name: "p", ID: "box"}, Usage: pod, SandboxImage: "pause",
			Containers: []backend.ContainerStats{{Name: "c", Usage: usage("/top/podu/c")}},
		}}},
		Pods: []*corev1.Pod{{
			ObjectMeta: metav1.ObjectMeta{UID: "u", Namespace: workNamespace, Name: "p"},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "c", Image: "app", Resources: corev1.ResourceRequirements{Limits: half}}},
			},
		}},
		Machine: &backend.NodeFacts{MachineID: "m", Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		}},
	}
}
