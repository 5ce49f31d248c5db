package stats

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/burstlet/burstlet/backend"
)

var update = flag.Bool("update", false, "write the golden files")

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func fs(n uint64) *backend.FilesystemUsage {
	return &backend.FilesystemUsage{
		Available: new(90 * n), Capacity: new(100 * n), Used: new(n), InodesFree: new(uint64(900)), Inodes: new(uint64(1000)),
		InodesUsed: new(n),
	}
}

// usage is a full measurement of n units, at so many seconds past noon.
func usage(n uint64, at int) backend.Usage {
	return backend.Usage{
		Time: noon.Add(time.Duration(at) * time.Second), StartTime: noon.Add(-time.Hour),
		CPUNanoCores: new(n * 1e6), CPUCoreNanoSeconds: new(n * 1e9),
		MemoryAvailable: new(n << 20), MemoryUsage: new(3 * n << 20), MemoryWorkingSet: new(2 * n << 20),
		MemoryRSS:  new(n << 20),
		PageFaults: new(n), MajorPageFaults: new(n + 1), Rootfs: fs(n), Logs: fs(n),
		Pressure: backend.Pressure{CPU: stalls(n), Memory: stalls(n + 1), IO: stalls(n + 2)},
	}
}

// stalls are of n seconds for some tasks, and half as many for all.
func stalls(n uint64) *backend.Stalls {
	return &backend.Stalls{
		Some: backend.StallTime{Total: n * 1e6, Avg10: float64(n) / 8, Avg60: float64(n) / 16, Avg300: float64(n) / 32},
		Full: backend.StallTime{Total: n * 5e5},
	}
}

// facts are a host, a pod that was measured whole, and one of which only the
// containers were.
func facts() *backend.StatsFacts {
	host, whole := usage(100, 1), usage(10, 2)
	host.Network = []backend.InterfaceUsage{
		{Name: "eth0", RxBytes: new(uint64(5)), TxBytes: new(uint64(6))}, {Name: "eth1", RxErrors: new(uint64(7))},
	}
	host.Processes, whole.Processes = new(uint64(77)), new(uint64(3))
	whole.Network = host.Network[:1]
	whole.EphemeralStorage = &backend.FilesystemUsage{Used: new(uint64(12345))}
	whole.Rootfs, whole.Logs = nil, nil
	return &backend.StatsFacts{Node: &host, Images: fs(1000), Pods: []backend.PodStats{
		{
			Ref: backend.Ref{UID: "2", Namespace: "ns", Name: "whole", Attempt: 1}, Usage: whole,
			Containers: []backend.ContainerStats{
				{Name: "stranger", Usage: usage(1, 3)},
				{Name: "b", Usage: usage(2, 3)},
				{Name: "a", Attempt: 2, Usage: usage(3, 3)},
				{Name: "a", Attempt: 1, Usage: usage(99, 3)},
				{Name: "init", Usage: usage(4, 3)},
			},
		},
		{
			Ref: backend.Ref{UID: "2", Namespace: "ns", Name: "whole"}, Usage: usage(99, 2),
			Containers: []backend.ContainerStats{{Name: "a"}},
		},
		{
			Ref: backend.Ref{UID: "1", Namespace: "ns", Name: "parts"}, Usage: backend.Usage{Time: noon.Add(6 * time.Second)},
			Volumes: map[string]backend.FilesystemUsage{
				"scratch": *fs(3), "memory": *fs(5), "data": *fs(7), "generic": *fs(9), "gone": {},
			},
			Containers: []backend.ContainerStats{{Name: "x", Usage: usage(5, 4)}, {Name: "y", Usage: usage(6, 5)}},
		},
		{Ref: backend.Ref{UID: "3", Namespace: "ns", Name: "ended"}, Usage: usage(99, 2)},
	}}
}

func pods() []*corev1.Pod {
	started := metav1.NewTime(noon.Add(-2 * time.Hour))
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}
	pod := func(uid, name string, containers ...string) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: "ns", Name: name},
			Status:     corev1.PodStatus{StartTime: &started},
		}
		for _, c := range containers {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c})
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c, State: running})
		}
		return p
	}
	whole := pod("2", "whole", "b", "a")
	whole.Spec.InitContainers = []corev1.Container{{Name: "init"}}
	whole.Status.ContainerStatuses[1].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	ended := pod("3", "ended", "c")
	ended.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	parts := pod("1", "parts", "x", "y")
	parts.Spec.Volumes = []corev1.Volume{
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{
			Name:         "memory",
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
		},
		{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"},
		}},
		{Name: "generic", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
	}
	return []*corev1.Pod{whole, parts, ended}
}

// summaries are the inputs whose summaries stand in files of their names.
func summaries() map[string]Input {
	return map[string]Input{
		"summary":    {Node: "node", Since: noon, Facts: facts(), Pods: pods()},
		"only":       {Node: "node", Since: noon, Facts: facts(), Pods: pods(), OnlyCPUAndMemory: true},
		"unmeasured": {Node: "node", Since: noon, Pods: pods()},
	}
}

func TestSummaryIsTheKubelets(t *testing.T) {
	for name, in := range summaries() {
		t.Run(name, func(t *testing.T) {
			got, err := json.MarshalIndent(Summarize(in), "", " ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".json", append(got, '\n'))
		})
	}
}

func TestSummaryDecisions(t *testing.T) {
	in := Input{Node: "node", Since: noon, Facts: facts(), Pods: pods()}
	s := Summarize(in)
	var order, containers []string
	for _, p := range s.Pods {
		order = append(order, p.PodRef.Name)
		for _, c := range p.Containers {
			containers = append(containers, c.Name)
		}
	}
	if want := []string{"parts", "whole"}; !slices.Equal(order, want) {
		t.Errorf("pods by name without the ended: got %v, want %v", order, want)
	}
	if want := []string{"x", "y", "init", "b", "a", "stranger"}; !slices.Equal(containers, want) {
		t.Errorf("containers in the order of the spec, each once: got %v, want %v", containers, want)
	}
	if got := *s.Pods[0].CPU.UsageCoreNanoSeconds; got != 11e9 ||
		!s.Pods[0].CPU.Time.Equal(new(metav1.NewTime(noon.Add(5*time.Second)))) {
		t.Errorf("a pod's CPU that is not known is the sum of its containers': got %d at %v", got, s.Pods[0].CPU.Time)
	}
	if got := *s.Pods[1].CPU.UsageCoreNanoSeconds; got != 10e9 {
		t.Errorf("a pod's CPU that is known is not the sum of its containers': got %d", got)
	}
	if got := *s.Pods[0].EphemeralStorage.UsedBytes; got != 22+3 {
		t.Errorf("ephemeral storage is the sum of layers, logs and volumes on the disk: got %d", got)
	}
	var claims []string
	for _, v := range s.Pods[0].VolumeStats {
		if v.PVCRef != nil {
			claims = append(claims, v.Name+" is "+v.PVCRef.Namespace+"/"+v.PVCRef.Name)
		}
	}
	if want := []string{"data is ns/claim", "generic is ns/parts-generic"}; !slices.Equal(claims, want) {
		t.Errorf("volumes of claims: got %v, want %v", claims, want)
	}
	if got := s.Pods[0].StartTime.Time; !got.Equal(noon.Add(-2 * time.Hour)) {
		t.Errorf("a pod's start that was not measured is its status's: got %v", got)
	}
}

func TestWhatIsNotKnownIsLeftOut(t *testing.T) {
	in := Input{Node: "node", Since: noon, Facts: facts(), Pods: pods()}
	in.Facts.Pods[2].Containers[0].MemoryAvailable = nil
	if got := Summarize(in).Pods[0].Memory.AvailableBytes; got != nil {
		t.Errorf("a container without limit leaves its pod without: %d bytes available", *got)
	}
	in.Facts.Node = nil
	if n := Summarize(in).Node; n.CPU != nil || n.Memory != nil || n.Fs != nil ||
		!n.StartTime.Equal(new(metav1.NewTime(noon))) {
		t.Errorf("nobody knows the host: got %+v", n)
	}
	in.Facts, in.Pods = &backend.StatsFacts{}, nil
	if got := Summarize(in).Pods; got == nil || len(got) != 0 {
		t.Errorf("no pods are an empty list: got %v", got)
	}
}

// exposition is the text that a scraper reads.
func exposition(t *testing.T, m interface {
	prometheus.Collector
	prometheus.Gatherer
},
) []byte {
	t.Helper()
	prometheus.NewPedanticRegistry().MustRegister(m)
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// expositions are the metrics whose texts stand in files of their names.
func expositions() map[string]Metrics {
	return map[string]Metrics{
		"metrics": {Summarize(Input{
			Node: "node", Since: noon, Facts: facts(), Pods: pods(), OnlyCPUAndMemory: true,
		})},
		"metrics-unmeasured": {Summarize(Input{Node: "node", Since: noon, Pods: pods(), OnlyCPUAndMemory: true})},
		"metrics-failed":     {},
	}
}

// TestEveryGoldenFileHasItsCase: a file whose case is gone would stay unnoticed.
func TestEveryGoldenFileHasItsCase(t *testing.T) {
	want := []string{"cadvisor.txt"}
	for name := range summaries() {
		want = append(want, name+".json")
	}
	for name := range expositions() {
		want = append(want, name+".txt")
	}
	slices.Sort(want)
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, e := range entries {
		there = append(there, e.Name())
	}
	if diff := cmp.Diff(want, there); diff != "" {
		t.Errorf("files of golden texts (-with a case +there):\n%s", diff)
	}
}

func TestMetricsAreTheKubelets(t *testing.T) {
	for name, m := range expositions() {
		t.Run(name, func(t *testing.T) { golden(t, name+".txt", exposition(t, m)) })
	}
}

// TestSecondLabelIsThePod: as virtual-kubelet's end-to-end suite reads it
// (TestGetMetricsResource).
func TestSecondLabelIsThePod(t *testing.T) {
	text := exposition(t, Metrics{Summarize(Input{Node: "node", Since: noon, Facts: facts(), Pods: pods()})})
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"pod_cpu_usage_seconds_total": 1, "container_cpu_usage_seconds_total": 4} {
		found := 0
		for _, m := range families[name].GetMetric() {
			if m.GetLabel()[1].GetValue() == "whole" {
				found++
			}
		}
		if found != want {
			t.Errorf("%s: %d series of the pod, want %d", name, found, want)
		}
	}
}

// TestPodsOfOneName: one that is ending beside its successor breaks no scrape.
func TestPodsOfOneName(t *testing.T) {
	old := statsv1alpha1.PodStats{
		PodRef: statsv1alpha1.PodReference{Namespace: "ns", Name: "p", UID: "old"}, StartTime: metav1.NewTime(noon),
		CPU: &statsv1alpha1.CPUStats{Time: metav1.NewTime(noon), UsageCoreNanoSeconds: new(uint64(1e9))},
	}
	young := old
	young.PodRef.UID, young.StartTime = "young", metav1.NewTime(noon.Add(time.Second))
	young.CPU = &statsv1alpha1.CPUStats{Time: metav1.NewTime(noon), UsageCoreNanoSeconds: new(uint64(2e9))}
	for _, pods := range [][]statsv1alpha1.PodStats{{old, young}, {young, old}} {
		text := string(exposition(t, Metrics{&statsv1alpha1.Summary{Pods: pods}}))
		if want := `pod_cpu_usage_seconds_total{namespace="ns",pod="p"} 2 1767355200000`; !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}
