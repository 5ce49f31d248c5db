package syncloop_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/syncloop"
	"github.com/burstlet/burstlet/syncloop/metrics"
	"github.com/burstlet/burstlet/syncloop/podsource"
	"github.com/burstlet/burstlet/test/kit/background"
)

// measuredEngine runs an engine on sim with metrics.
func measuredEngine(t *testing.T, cfg sim.Config, f func(a *api, reg *prometheus.Registry)) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.remote = sim.New(cfg)
		reg := prometheus.NewPedanticRegistry()
		source := podsource.New(a, func() bool { return true })
		b := a.remote.Backend()
		engine, err := syncloop.New(syncloop.Config{
			Backend: b, Source: source, Status: a, Events: a, Objects: a, Pulls: 5,
			Node: func() syncloop.Node { return node(b) }, Metrics: metrics.New(reg),
		})
		if err != nil {
			t.Fatal(err)
		}
		a.source, a.engine = source, engine
		background.Run(t, engine.Run)
		time.Sleep(time.Second)
		f(a, reg)
	})
}

// sums are the observations of each histogram and how many there were, by name
// and label value.
func sums(t *testing.T, reg *prometheus.Registry) map[string][2]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][2]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "kubelet_")
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			if h := m.GetHistogram(); h != nil && strings.HasPrefix(name, "pod_") {
				got[name] = [2]float64{float64(h.GetSampleCount()), h.GetSampleSum()}
			}
		}
	}
	return got
}

func TestPodsAreMeasuredFromTheirFirstSight(t *testing.T) {
	cfg := sim.Config{
		Images: []string{"busybox"}, Latency: sim.Latency{Launch: 2 * time.Second, Start: time.Second, Stop: 3 * time.Second},
	}
	measuredEngine(t, cfg, func(a *api, reg *prometheus.Registry) {
		a.create("p", "u", corev1.RestartPolicyAlways, nil, "sleep", "infinity")
		time.Sleep(time.Minute)
		want := map[string][2]float64{
			"pod_start_duration_seconds":         {1, 3},
			"pod_start_sli_duration_seconds":     {1, 3},
			"pod_start_total_duration_seconds":   {1, 3},
			"pod_worker_start_duration_seconds":  {1, 0},
			"pod_worker_duration_seconds create": {1, 3},
		}
		if diff := cmp.Diff(want, sums(t, reg)); diff != "" {
			t.Errorf("a start: count and seconds (-want +got):\n%s", diff)
		}
		a.delete("p", 30)
		time.Sleep(time.Minute)
		got := sums(t, reg)
		if got["pod_worker_duration_seconds kill"][0] == 0 {
			t.Errorf("an end has no duration: %v", got)
		}
		if got["pod_start_duration_seconds"][0] != 1 {
			t.Errorf("the pod started more than once: %v", got)
		}
	})
}

func TestRunningPodsAndContainers(t *testing.T) {
	measuredEngine(t, sim.Config{Images: []string{"busybox"}}, func(a *api, reg *prometheus.Registry) {
		expect := func(pods, running, exited string) {
			t.Helper()
			want := `
# HELP kubelet_running_containers Number of containers currently running
# TYPE kubelet_running_containers gauge
kubelet_running_containers{container_state="created"} 0
kubelet_running_containers{container_state="exited"} ` + exited + `
kubelet_running_containers{container_state="running"} ` + running + `
# HELP kubelet_running_pods Number of pods that have a running pod sandbox
# TYPE kubelet_running_pods gauge
kubelet_running_pods ` + pods + "\n"
			if err := testutil.GatherAndCompare(
				reg, strings.NewReader(want), "kubelet_running_pods", "kubelet_running_containers",
			); err != nil {
				t.Error(err)
			}
		}
		expect("0", "0", "0")
		a.create("p", "u", corev1.RestartPolicyAlways, nil, "sleep", "infinity")
		a.create("q", "v", corev1.RestartPolicyAlways, func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "busybox", Command: []string{"true"}}}
		}, "sleep", "infinity")
		time.Sleep(20 * time.Second)
		expect("2", "2", "1")
		a.delete("p", 30)
		time.Sleep(time.Minute)
		expect("1", "1", "1")
		if n, err := testutil.GatherAndCount(reg, "kubelet_pleg_last_seen_seconds"); n != 1 || err != nil {
			t.Errorf("%d kubelet_pleg_last_seen_seconds, %v", n, err)
		}
		if age := time.Since(a.engine.LastLoop()); age > 2*time.Second {
			t.Errorf("the loop was last seen %v ago", age)
		}
	})
}

// TestStatsKnowAPodThatHasJustStarted: an answer that was cached before a pod's
// start is not given after it.
func TestStatsKnowAPodThatHasJustStarted(t *testing.T) {
	measuredEngine(t, sim.Config{Images: []string{"busybox"}}, func(a *api, _ *prometheus.Registry) {
		pods := func() int {
			t.Helper()
			facts, err := a.engine.Stats(a.t.Context(), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			return len(facts.Pods)
		}
		if n := pods(); n != 0 {
			t.Errorf("%d pods before any", n)
		}
		a.create("p", "u", corev1.RestartPolicyAlways, nil, "sleep", "infinity")
		time.Sleep(time.Second)
		if n := pods(); n != 1 {
			t.Errorf("%d pods, want 1", n)
		}
	})
}
