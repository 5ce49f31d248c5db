package stats

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
)

// detailed is a measurement with all that cAdvisor shows, of n units.
func detailed(n uint64, cgroup string) *backend.UsageDetail {
	return &backend.UsageDetail{
		Cgroup: cgroup, CPUUser: new(n * 7e8), CPUSystem: new(n * 3e8),
		CFS:         &backend.CFSUsage{Periods: 10 * n, ThrottledPeriods: n, ThrottledTime: n * 5e8},
		MemoryCache: new(n), MemorySwap: new(n + 1), MemoryMappedFile: new(n + 2), MemoryActiveFile: new(n + 3),
		MemoryInactiveFile: new(n + 4),
		MostMemory:         new(n + 5), MemoryFailures: new(n + 6), OOMKills: new(n + 7),
		Disks: []backend.DiskUsage{{Device: "/dev/sda", ReadBytes: n, WriteBytes: n + 1, Reads: n + 2, Writes: n + 3}},
	}
}

func whole() CAdvisor {
	f, all := facts(), pods()
	f.Node.Detail = detailed(100, "/")
	p := &f.Pods[0]
	p.ID, p.SandboxImage, p.Detail = "box", "pause:3.10", detailed(10, "/top/pod2")
	for i := range p.Network {
		p.Network[i].RxPackets, p.Network[i].RxDropped = new(uint64(8)), new(uint64(9))
	}
	a := &p.Containers[2] // the second attempt of a
	a.Detail = detailed(3, "/top/pod2/ida")
	all[0].Spec.Containers[1].Image = "asked:1"
	status := &all[0].Status.ContainerStatuses[1]
	status.ContainerID, status.Image = "containerd://ida", "ran:1"
	status.Resources = &corev1.ResourceRequirements{
		Limits: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("1Mi"),
		},
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
	}
	return CAdvisor{Facts: f, Pods: all, Now: noon.Add(time.Minute), Machine: &backend.NodeFacts{
		BootID: "boot", MachineID: "machine", SystemUUID: "uuid",
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Ki"),
		},
	}}
}

func TestCAdvisorsMetrics(t *testing.T) { golden(t, "cadvisor.txt", exposition(t, whole())) }

// TestCAdvisorsSeries: what each kind of series looks like to a query.
func TestCAdvisorsSeries(t *testing.T) {
	text := string(exposition(t, whole()))
	const container = `{container="a",id="/top/pod2/ida",image="ran:1",name="ida",namespace="ns",pod="whole"`
	for line, want := range map[string]bool{
		`container_cpu_usage_seconds_total{container="a",cpu="total",id="/top/pod2/ida",image="ran:1",name="ida",namespace="ns",pod="whole"} 3 1767355203000`: true,
		`container_memory_working_set_bytes` + container +
			`} 6.291456e+06 1767355203000`: true,
		`container_cpu_cfs_throttled_seconds_total` + container +
			`} 1.5 1767355203000`: true,
		`container_spec_cpu_quota` + container +
			`} 25000`: true,
		`container_spec_cpu_shares` + container +
			`} 102`: true,
		`container_spec_memory_limit_bytes` + container +
			`} 1.048576e+06`: true,
		`container_last_seen` + container +
			`} 1.76735526e+09 1767355260000`: true,
		`container_memory_working_set_bytes{container="",id="/top/pod2",image="",name="",namespace="ns",pod="whole"} 2.097152e+07 1767355202000`:             true,
		`container_memory_working_set_bytes{container="",id="/",image="",name="",namespace="",pod=""} 2.097152e+08 1767355201000`:                            true,
		`container_network_receive_bytes_total{container="",id="/top/pod2/box",image="pause:3.10",interface="eth0",name="box",namespace="ns",pod="whole"} 5`: true,
		`container_network_receive_packets_dropped_total{container="",id="/top/pod2/box"`:                                                                    true,
		`container_network_receive_bytes_total{container="",id="/",image="",interface="eth0",name="",namespace="",pod=""} 5 1767355201000`:                   true,
		`machine_memory_bytes{boot_id="boot",machine_id="machine",system_uuid="uuid"} 8192`:                                                                  true,
		`container_scrape_error 0`: true,
		// A container without a limit is never throttled; one that has ended is not shown.
		`container_cpu_cfs_periods_total{container="b"`: false,
		`container_cpu_cfs_periods_total{container=""`:  false,
		`pod="ended"`: false,
		`container_oom_events_total{container="b"`: false, // nobody counted
	} {
		if strings.Contains(text, line) != want {
			t.Errorf("%q is there: %v, want %v", line, !want, want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestCAdvisorWithoutAMeasurement tells a failure from a backend that cannot measure.
func TestCAdvisorWithoutAMeasurement(t *testing.T) {
	if text := string(exposition(
		t, CAdvisor{Now: noon, Pods: pods()},
	)); !strings.Contains(text, "container_scrape_error 1\n") ||
		!strings.Contains(text, "machine_scrape_error 1\n") || strings.Contains(text, "container_last_seen") {
		t.Errorf("failed: %s", text)
	}
	if text := string(exposition(t, CAdvisor{Now: noon, Facts: &backend.StatsFacts{}})); !strings.Contains(
		text, "container_scrape_error 0\n",
	) {
		t.Errorf("unsupported: %s", text)
	}
}

// TestCAdvisorOfPodsOfOneName: one that ends beside its successor breaks no scrape, and
// neither do attempts that share a cgroup, nor backends that know of no cgroups.
func TestCAdvisorOfPodsOfOneName(t *testing.T) {
	f := facts()
	old, young := f.Pods[0], f.Pods[0]
	old.UID, young.UID = "old", "young"
	old.Detail, young.Detail = nil, nil
	shared := f.Pods[0]
	shared.Attempt, shared.Detail = 7, detailed(1, "/top/pod2")
	f.Pods = append(f.Pods, old, young, shared)
	text := string(exposition(t, CAdvisor{Facts: f, Pods: pods(), Now: noon}))
	for _, id := range []string{"/podold", "/podyoung", "/top/pod2"} {
		if got := strings.Count(text, `container_memory_rss{container="",id="`+id+`"`); got != 1 {
			t.Errorf("%s has %d series, want one:\n%s", id, got, text)
		}
	}
}

func TestVolumesOfClaims(t *testing.T) {
	ch := make(chan prometheus.Metric, 100)
	all := pods()
	all = append(all, all[1].DeepCopy()) // mounts the same claim
	all[3].UID = "2"
	f := facts()
	f.Pods[0].Volumes = f.Pods[2].Volumes
	CollectVolumes(ch, f, all)
	close(ch)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(metrics(ch))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{
		`kubelet_volume_stats_used_bytes{namespace="ns",persistentvolumeclaim="claim"} 7`,
		`kubelet_volume_stats_available_bytes{namespace="ns",persistentvolumeclaim="claim"} 630`,
		`kubelet_volume_stats_capacity_bytes{namespace="ns",persistentvolumeclaim="parts-generic"} 900`,
		`kubelet_volume_stats_inodes_used{namespace="ns",persistentvolumeclaim="claim"} 7`,
		`kubelet_volume_stats_inodes{namespace="ns",persistentvolumeclaim="claim"} 1000`,
		`kubelet_volume_stats_inodes_free{namespace="ns",persistentvolumeclaim="claim"} 900`,
	} {
		if !strings.Contains(text.String(), line+"\n") {
			t.Errorf("%q is missing in:\n%s", line, text.String())
		}
	}
	if strings.Contains(text.String(), "scratch") {
		t.Errorf("a volume without a claim is shown:\n%s", text.String())
	}
	if !slices.ContainsFunc(all, HasClaims) || HasClaims(all[0]) {
		t.Error("which pods mount claims is not told")
	}
}

// metrics are those that were collected.
type metrics chan prometheus.Metric

func (metrics) Describe(ch chan<- *prometheus.Desc) { DescribeVolumes(ch) }
func (m metrics) Collect(ch chan<- prometheus.Metric) {
	for metric := range m {
		ch <- metric
	}
}
