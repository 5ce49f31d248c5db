package kubeletapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/burstlet/burstlet/backend"
)

// fakeMeasurer answers from functions; without them it measures nothing and its
// loop has not begun.
type fakeMeasurer struct {
	stats  func(ctx context.Context, maxAge time.Duration) (backend.StatsFacts, error)
	mu     sync.Mutex // guards looped
	looped time.Time
}

func (m *fakeMeasurer) Stats(ctx context.Context, maxAge time.Duration) (backend.StatsFacts, error) {
	if m.stats == nil {
		return backend.StatsFacts{}, backend.Errorf(backend.ErrUnsupported, "nothing is measured")
	}
	return m.stats(ctx, maxAge)
}

func (m *fakeMeasurer) LastLoop() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.looped
}

// measuredPod is a pod with a running container, and what it uses.
func measuredPod() (*corev1.Pod, backend.StatsFacts) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name:  "c",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Unix(1700000000, 0)}},
		}}},
	}
	u := backend.Usage{
		Time: time.Unix(1700000010, 0), StartTime: time.Unix(1700000000, 0), CPUNanoCores: new(uint64(1e8)),
		CPUCoreNanoSeconds: new(uint64(1e9)), MemoryWorkingSet: new(uint64(1 << 20)), Processes: new(uint64(2)),
	}
	return pod, backend.StatsFacts{Node: &u, Pods: []backend.PodStats{{
		Ref: backend.Ref{UID: "u", Namespace: "ns", Name: "p"}, Usage: u,
		Containers: []backend.ContainerStats{{Name: "c", Usage: u}},
	}}}
}

// serveStats serves an engine with one pod to a caller who may do everything.
func serveStats(
	t *testing.T, measure func(context.Context, time.Duration) (backend.StatsFacts, error), change func(*Config),
) (*served, func(string) *http.Response) {
	t.Helper()
	pod, _ := measuredPod()
	engine := &fakeEngine{pods: []*corev1.Pod{pod}}
	engine.stats = measure
	r := &reviews{
		tokens: map[string]string{"t": "u"},
		rights: map[string]map[string]bool{"u": {"stats": true, "metrics": true, "configz": true, "healthz": true}},
	}
	s := serve(t, engine, r, change)
	return s, s.caller(t, nil, "t")
}

func summaryOf(t *testing.T, resp *http.Response) statsv1alpha1.Summary {
	t.Helper()
	var s statsv1alpha1.Summary
	text := body(t, resp)
	if err := json.Unmarshal([]byte(text), &s); err != nil || resp.StatusCode != http.StatusOK ||
		resp.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%s %v: %s (%v)", resp.Status, resp.Header, text, err)
	}
	return s
}

func TestStatsSummaryIsServed(t *testing.T) {
	_, facts := measuredPod()
	var ages []time.Duration
	_, call := serveStats(t, func(_ context.Context, maxAge time.Duration) (backend.StatsFacts, error) {
		ages = append(ages, maxAge)
		return facts, nil
	}, nil)
	for _, tt := range []struct {
		request string
		whole   bool
	}{
		{"GET /stats/summary", true},
		{"POST /stats/summary", true},
		{"GET /stats/summary?only_cpu_and_memory=false", true},
		{"GET /stats/summary?only_cpu_and_memory=true", false},
		{"POST /stats/summary?only_cpu_and_memory=true", false},
	} {
		s := summaryOf(t, call(tt.request))
		if s.Node.NodeName != "n1" || len(s.Pods) != 1 || s.Pods[0].PodRef.UID != "u" ||
			*s.Pods[0].Containers[0].CPU.UsageNanoCores != 1e8 {
			t.Errorf("%s: got %+v", tt.request, s)
		}
		if whole := s.Pods[0].ProcessStats != nil; whole != tt.whole {
			t.Errorf("%s: the whole of it: %v, want %v", tt.request, whole, tt.whole)
		}
	}
	long, short := 10*time.Second, time.Second
	if diff := cmp.Diff([]time.Duration{long, long, long, short, short}, ages); diff != "" {
		t.Errorf("how old the measurements may be (-want +got):\n%s", diff)
	}
}

// TestNothingIsMeasured: a backend that cannot measure is no error: what runs is
// named, and metrics-server finds nothing to store.
func TestNothingIsMeasured(t *testing.T) {
	_, call := serveStats(t, nil, nil)
	s := summaryOf(t, call("/stats/summary"))
	if s.Node.NodeName != "n1" || s.Node.CPU != nil || len(s.Pods) != 1 || s.Pods[0].CPU != nil ||
		s.Pods[0].Containers[0].Name != "c" {
		t.Errorf("got %+v", s)
	}
	text := body(t, call("/metrics/resource"))
	for line, want := range map[string]bool{
		"resource_scrape_error 0": true,
		`container_start_time_seconds{container="c",pod="p",namespace="ns"} 1.7e+09`: true,
		"cpu_usage": false, "working_set": false,
	} {
		if strings.Contains(text, line) != want {
			t.Errorf("%q is there: %v, want %v, in:\n%s", line, !want, want, text)
		}
	}
}

// TestCAdvisorIsServed to whoever may read metrics, young enough for rates, with the
// machine that the remote tells of.
func TestCAdvisorIsServed(t *testing.T) {
	_, facts := measuredPod()
	var ages []time.Duration
	_, call := serveStats(t, func(_ context.Context, maxAge time.Duration) (backend.StatsFacts, error) {
		ages = append(ages, maxAge)
		return facts, nil
	}, func(cfg *Config) {
		cfg.Machine = func() *backend.NodeFacts { return &backend.NodeFacts{MachineID: "m"} }
	})
	text := body(t, call("/metrics/cadvisor"))
	for _, line := range []string{
		"container_scrape_error 0", "machine_scrape_error 0",
		`container_cpu_usage_seconds_total{container="c",cpu="total",id="/podu/c",image="",name="",namespace="ns",pod="p"} 1 1700000010000`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("%q is missing in:\n%s", line, text)
		}
	}
	if diff := cmp.Diff([]time.Duration{time.Second}, ages); diff != "" {
		t.Error(diff)
	}
	if text := body(t, call("/metrics")); !strings.Contains(text, `path="metrics/cadvisor"`) {
		t.Errorf("its requests are not counted under their path: %s", text)
	}
}

// TestVolumesAreMeasuredForClaimsAlone: a scrape of /metrics asks the remote for nothing
// else, and shows the rest where the remote fails.
func TestVolumesAreMeasuredForClaimsAlone(t *testing.T) {
	pod, facts := measuredPod()
	facts.Pods[0].Volumes = map[string]backend.FilesystemUsage{"v": {Used: new(uint64(7))}}
	engine := &fakeEngine{pods: []*corev1.Pod{pod}}
	asked, down := 0, error(nil)
	engine.stats = func(context.Context, time.Duration) (backend.StatsFacts, error) {
		asked++
		return facts, down
	}
	shown := func() string {
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(volumeStats{engine})
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for _, f := range families {
			out.WriteString(f.String())
		}
		return out.String()
	}
	if text := shown(); text != "" || asked != 0 {
		t.Errorf("without a claim the remote is asked %d times: %s", asked, text)
	}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"},
	}}}
	if text := shown(); asked != 1 || !strings.Contains(text, "kubelet_volume_stats_used_bytes") ||
		!strings.Contains(text, "claim") {
		t.Errorf("asked %d times: %s", asked, text)
	}
	down = backend.Errorf(backend.ErrUnavailable, "the host is down")
	if text := shown(); text != "" {
		t.Errorf("a measurement that failed: %s", text)
	}
}

func TestMeasuringFails(t *testing.T) {
	_, call := serveStats(t, func(context.Context, time.Duration) (backend.StatsFacts, error) {
		return backend.StatsFacts{}, backend.Errorf(backend.ErrUnavailable, "the host is down")
	}, nil)
	resp := call("/stats/summary")
	if text := body(t, resp); resp.StatusCode != http.StatusServiceUnavailable ||
		text != "failed to list pod stats: the host is down" {
		t.Errorf("summary: %s %q", resp.Status, text)
	}
	if text := body(t, call("/metrics/cadvisor")); !strings.Contains(text, "container_scrape_error 1\n") {
		t.Errorf("cAdvisor's metrics: %s", text)
	}
	resp = call("/metrics/resource")
	if text := body(t, resp); resp.StatusCode != http.StatusOK || !strings.Contains(text, "\nresource_scrape_error 1\n") ||
		strings.Contains(text, "container_") {
		t.Errorf("metrics: %s %s", resp.Status, text)
	}
}

func TestResourceMetricsAreServed(t *testing.T) {
	_, facts := measuredPod()
	_, call := serveStats(t, func(context.Context, time.Duration) (backend.StatsFacts, error) { return facts, nil }, nil)
	resp := call("/metrics/resource")
	text := body(t, resp)
	if got := resp.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/plain; version=0.0.4") {
		t.Errorf("Content-Type %q", got)
	}
	for _, want := range []string{
		"node_cpu_usage_seconds_total 1 1700000010000",
		`pod_memory_working_set_bytes{namespace="ns",pod="p"} 1.048576e+06 1700000010000`,
		`container_cpu_usage_seconds_total{container="c",pod="p",namespace="ns"} 1 1700000010000`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

func TestProbeMetricsAreServedApart(t *testing.T) {
	probes := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "prober_probe_total"})
	probes.MustRegister(counter)
	_, call := serveStats(t, nil, func(c *Config) { c.Probes = probes })
	if text := body(t, call("/metrics/probes")); !strings.Contains(text, "prober_probe_total 0") ||
		strings.Contains(text, "kubelet_") {
		t.Errorf("/metrics/probes: %s", text)
	}
	if text := body(t, call("/metrics")); strings.Contains(text, "prober_") ||
		!strings.Contains(text, `kubelet_node_name{node="n1"} 1`) ||
		!strings.Contains(text, `path="metrics/probes"`) {
		t.Errorf("/metrics: %s", text)
	}
	_, call = serveStats(t, nil, nil)
	if got := call("/metrics/probes").StatusCode; got != http.StatusNotFound {
		t.Errorf("without probes: %d", got)
	}
}

func TestConfigzIsTruthful(t *testing.T) {
	given := &kubeletv1beta1.KubeletConfiguration{
		MaxPods: 42, ClusterDomain: "cluster.local", Port: 1,
		StaticPodURLHeader: map[string][]string{"Authorization": {"secret"}},
		Authentication: kubeletv1beta1.KubeletAuthentication{
			Anonymous: kubeletv1beta1.KubeletAnonymousAuthentication{Enabled: new(true)},
		},
	}
	s, call := serveStats(t, nil, func(c *Config) { c.ConfigZ, c.DisableTokenReview = given, false })
	text := body(t, call("/configz"))
	var got map[string]kubeletv1beta1.KubeletConfiguration
	if err := json.Unmarshal([]byte(text), &got); err != nil || len(got) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	c := got["kubeletconfig"]
	if c.Kind != "KubeletConfiguration" || c.APIVersion != "kubelet.config.k8s.io/v1beta1" || c.MaxPods != 42 ||
		c.ClusterDomain != "cluster.local" {
		t.Errorf("what was given: %+v", c)
	}
	want := kubeletv1beta1.KubeletConfiguration{
		Address: "127.0.0.1", Port: s.server.Port(),
		Authentication: kubeletv1beta1.KubeletAuthentication{
			X509: kubeletv1beta1.KubeletX509Authentication{ClientCAFile: s.server.cfg.ClientCAFile},
			Webhook: kubeletv1beta1.KubeletWebhookAuthentication{
				Enabled: new(true), CacheTTL: metav1.Duration{Duration: 2 * time.Minute},
			},
			Anonymous: kubeletv1beta1.KubeletAnonymousAuthentication{Enabled: new(false)},
		},
		Authorization: kubeletv1beta1.KubeletAuthorization{
			Mode: "Webhook",
			Webhook: kubeletv1beta1.KubeletWebhookAuthorization{
				CacheAuthorizedTTL:   metav1.Duration{Duration: 5 * time.Minute},
				CacheUnauthorizedTTL: metav1.Duration{Duration: 30 * time.Second},
			},
		},
		StreamingConnectionIdleTimeout: metav1.Duration{Duration: 4 * time.Hour},
	}
	own := kubeletv1beta1.KubeletConfiguration{
		Address: c.Address, Port: c.Port, Authentication: c.Authentication, Authorization: c.Authorization,
		StreamingConnectionIdleTimeout: c.StreamingConnectionIdleTimeout,
	}
	if diff := cmp.Diff(want, own); diff != "" || want.Port == 0 {
		t.Errorf("what the server knows better (-want +got):\n%s", diff)
	}
	if strings.Contains(text, "secret") || given.StaticPodURLHeader["Authorization"][0] != "secret" {
		t.Errorf("a header's value is shown, or was changed for its owner: %s", text)
	}
	_, call = serveStats(t, nil, func(c *Config) { c.AlwaysAllow = true })
	if text := body(t, call("/configz")); !strings.Contains(text, `"mode":"AlwaysAllow"`) {
		t.Errorf("without a configuration: %s", text)
	}
}

func TestHealthOfTheLoop(t *testing.T) {
	engine := &fakeEngine{}
	r := &reviews{tokens: map[string]string{"t": "u"}, rights: all("u")}
	call := serve(t, engine, r, nil).caller(t, nil, "t")
	at := func(when time.Time) {
		engine.fakeMeasurer.mu.Lock()
		engine.looped = when
		engine.fakeMeasurer.mu.Unlock()
	}
	for _, tt := range []struct {
		name, path string
		looped     time.Duration // ago; 0 is never
		code       int
		text       string
	}{
		{"it has not begun", "/healthz", 0, 200, "ok"},
		{"it goes round", "/healthz", 4 * time.Minute, 200, "ok"},
		{
			"it goes round, all checks", "/healthz?verbose", time.Second, 200,
			"[+]ping ok\n[+]syncloop ok\n[+]pleg ok\nhealthz check passed\n",
		},
		{
			"it is stuck", "/healthz", 6 * time.Minute, 500,
			"[+]ping ok\n[-]syncloop failed: sync Loop took longer than expected\n[+]pleg ok\nhealthz check failed\n",
		},
		{
			"it is stuck, that check alone", "/healthz/syncloop", 6 * time.Minute, 500,
			"[-]syncloop failed: sync Loop took longer than expected\nhealthz check failed\n",
		},
		{"it is stuck, another check", "/healthz/ping", 6 * time.Minute, 200, "ok"},
		{"it is stuck and left out", "/healthz?exclude=syncloop", 6 * time.Minute, 200, "ok"},
		{
			"it is stuck and left out, all checks", "/healthz?verbose&exclude=syncloop&exclude=log", 6 * time.Minute, 200,
			"[+]ping ok\n[+]syncloop excluded: ok\n[+]pleg ok\nwarn: some health checks cannot be excluded: no matches for \"log\"\nhealthz check passed\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			when := time.Time{}
			if tt.looped > 0 {
				when = time.Now().Add(-tt.looped)
			}
			at(when)
			resp := call(tt.path)
			if text := body(t, resp); resp.StatusCode != tt.code || text != tt.text {
				t.Errorf("got %d %q, want %d %q", resp.StatusCode, text, tt.code, tt.text)
			}
		})
	}
}
