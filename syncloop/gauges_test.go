package syncloop_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend/sim"
)

// gauge is the value of a metric with a label, or of one that has none.
func gauge(t *testing.T, reg *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if len(m.GetLabel()) == 0 || m.GetLabel()[0].GetValue() == label {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no %s{%s}", name, label)
	return 0
}

func TestPodsThatDoNotStartOrEndAreShownByTheirAge(t *testing.T) {
	cfg := sim.Config{Images: []string{"busybox"}, Latency: sim.Latency{Launch: time.Hour}}
	measuredEngine(t, cfg, func(a *api, reg *prometheus.Registry) {
		expect := func(what string, pending, starting, overdue float64) {
			t.Helper()
			for name, want := range map[string]float64{
				"burstlet_pod_start_oldest_seconds": starting, "burstlet_pod_end_overdue_seconds": overdue,
			} {
				if got := gauge(t, reg, name, ""); got != want {
					t.Errorf("%s: %s %v, want %v", what, name, got, want)
				}
			}
			if got := gauge(t, reg, "burstlet_pods", "Pending"); got != pending {
				t.Errorf("%s: %v pods are Pending, want %v", what, got, pending)
			}
		}
		expect("no pod", 0, 0, 0)
		a.create("p", "u", corev1.RestartPolicyAlways, nil, "sleep", "infinity")
		time.Sleep(5 * time.Minute)
		expect("its launch takes long", 1, 300, 0)
		a.create("q", "v", corev1.RestartPolicyAlways, nil, "sleep", "infinity")
		time.Sleep(time.Minute)
		expect("the older one counts", 2, 360, 0)
		a.delete("p", 30)
		time.Sleep(20 * time.Second)
		expect("within its grace: it is not to start any more", 1, 80, 0)
		time.Sleep(50 * time.Second)
		expect("40 s over its grace", 1, 130, 40)
	})
}

func TestRejectedPodsAreCountedByReason(t *testing.T) {
	measuredEngine(t, sim.Config{Images: []string{"busybox"}}, func(a *api, reg *prometheus.Registry) {
		a.create("p", "u", corev1.RestartPolicyAlways, func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Ti")}
		}, "true")
		time.Sleep(time.Minute)
		if got := gauge(t, reg, "kubelet_admission_rejections_total", "OutOfmemory"); got != 1 {
			t.Errorf("%v rejections, want 1 for the pod's life", got)
		}
	})
}

// TestStartsAreMeasuredFromTheCreation: what the API shows of a pod ends its start, and the
// pull of its image is left out of the SLI.
func TestStartsAreMeasuredFromTheCreation(t *testing.T) {
	cfg := sim.Config{Images: []string{"busybox"}, Latency: sim.Latency{Launch: 2 * time.Second, Pull: 10 * time.Second}}
	measuredEngine(t, cfg, func(a *api, reg *prometheus.Registry) {
		a.create("p", "u", corev1.RestartPolicyAlways, func(pod *corev1.Pod) {
			pod.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
		}, "sleep", "infinity")
		time.Sleep(time.Minute)
		all := sums(t, reg)
		total, sli := all["pod_start_total_duration_seconds"], all["pod_start_sli_duration_seconds"]
		if total[0] != 1 || total[1] < 12 || total[1] > 13 || sli[0] != 1 || total[1]-sli[1] != 10 {
			t.Errorf("a start of 12 s, 10 of them a pull, is measured as %v, without the pull as %v (number, sum)", total, sli)
		}
	})
}
