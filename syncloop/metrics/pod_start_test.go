package metrics

import (
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStartLatency: a start is observed once, when the API shows that all containers have
// started; pulls that overlap count once.
func TestStartLatency(t *testing.T) {
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(s int) time.Time { return made.Add(time.Duration(s) * time.Second) }
	started := func(names ...string) (all []corev1.ContainerStatus) {
		for _, n := range names {
			all = append(all, corev1.ContainerStatus{
				Name: n, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at(9))}},
			})
		}
		return all
	}
	ran := func(from, to int) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(at(from)), FinishedAt: metav1.NewTime(at(to))}
	}
	inits := []corev1.ContainerStatus{{
		State:                corev1.ContainerState{Terminated: ran(5, 6)},
		LastTerminationState: corev1.ContainerState{Terminated: ran(2, 4)},
	}}
	pulls := []interval{{at(3), at(5)}, {at(1), at(4)}, {at(2), at(3)}, {at(7), at(8)}}
	unscheduled := []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
	claim := []corev1.Volume{
		{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}},
	}
	for name, tt := range map[string]struct {
		first      corev1.PodStatus
		later      []corev1.PodStatus // at 10 s, 20 s, …
		volumes    []corev1.Volume
		pulls      []interval
		total, sli float64 // below 0: not observed
	}{
		"all at once": {
			later: []corev1.PodStatus{{ContainerStatuses: started("a", "b")}, {ContainerStatuses: started("a", "b")}}, total: 10,
			sli: 10,
		},
		"one later": {
			later: []corev1.PodStatus{{}, {ContainerStatuses: started("a")}, {ContainerStatuses: started("a", "b")}}, total: 30,
			sli: 30,
		},
		"one waits": {
			later: []corev1.PodStatus{{ContainerStatuses: append(started("a"), corev1.ContainerStatus{})}}, total: -1, sli: -1,
		},
		"pulls, inits": {
			later: []corev1.PodStatus{{ContainerStatuses: started("a", "b"), InitContainerStatuses: inits}}, pulls: pulls,
			total: 10, sli: 2,
		},
		"stateful": {
			later: []corev1.PodStatus{{ContainerStatuses: started("a", "b")}}, volumes: claim, total: 10, sli: -1,
		},
		"begun before": {
			first: corev1.PodStatus{StartTime: &metav1.Time{Time: at(1)}},
			later: []corev1.PodStatus{{ContainerStatuses: started("a", "b")}}, total: -1, sli: -1,
		},
		"no room": {
			first: corev1.PodStatus{Conditions: unscheduled}, later: []corev1.PodStatus{{ContainerStatuses: started("a", "b")}},
			total: -1, sli: -1,
		},
		"no room seen": {
			later: []corev1.PodStatus{{Conditions: unscheduled}, {ContainerStatuses: started("a", "b")}}, total: -1, sli: -1,
		},
		"failed": {
			later: []corev1.PodStatus{{Phase: corev1.PodFailed}, {ContainerStatuses: started("a", "b")}}, total: -1, sli: -1,
		},
	} {
		m := newStartMetrics()
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(made)},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}, Volumes: tt.volumes},
			Status:     tt.first,
		}
		var s PodStart
		s.Began(pod)
		for _, p := range tt.pulls {
			s.Pulled(p.from, p.to)
		}
		for i, status := range tt.later {
			pod.Status = status
			s.observed(pod, at(10*(i+1)), &m)
		}
		for what, want := range map[string]float64{"total": tt.total, "sli": tt.sli} {
			var got dto.Metric
			h := m.total
			if what == "sli" {
				h = m.sli
			}
			if err := h.Write(&got); err != nil {
				t.Fatal(err)
			}
			sum, n := got.GetHistogram().GetSampleSum(), got.GetHistogram().GetSampleCount()
			if wantN := map[bool]uint64{true: 1}[want >= 0]; n != wantN || sum != max(0, want) {
				t.Errorf("%s: %s has %d starts of %v s, want %d of %v", name, what, n, sum, wantN, want)
			}
		}
	}
}
