package plan

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// TestBehind reads as which listings can only be old, three seconds being the
// most that one may be.
func TestBehind(t *testing.T) {
	const stale = 3 * time.Second
	started := func(n int) Result {
		return Result{
			At: at(10), Action: StartContainer{Spec: backend.ContainerSpec{Container: corev1.Container{Name: "a"}, Attempt: n}},
		}
	}
	launched := Result{At: at(10), Action: Launch{Spec: backend.LaunchSpec{Attempt: 1}}}
	removed := func(n int) Result { return Result{At: at(11), Action: RemovePod{Ref: backend.Ref{Attempt: n}}} }
	failed := func(r Result) Result {
		r.Err = backend.Errorf(backend.ErrNotFound, "no sandbox")
		return r
	}
	running, ended := runs("a", 0, 9), ran1("a", 0, 9, 10, 0)
	for _, tt := range []struct {
		name  string
		did   []Result
		api   *corev1.ContainerStatus
		facts []backend.PodFacts
		from  float64 // when the read began
		want  bool
	}{
		{name: "nothing is known: nothing", from: 10},
		{
			name: "launched, and not shown", did: []Result{launched}, facts: []backend.PodFacts{attempt(0, false)}, from: 12,
			want: true,
		},
		{
			name: "launched, and shown", did: []Result{launched}, facts: []backend.PodFacts{attempt(0, false), attempt(1, true)},
			from: 12,
		},
		{name: "launched, and ended by now", did: []Result{launched}, facts: []backend.PodFacts{attempt(1, false)}, from: 12},
		{name: "launched, and by a later read vanished", did: []Result{launched}, from: 13.1},
		{name: "launched and removed", did: []Result{launched, removed(1)}, from: 12},
		{name: "launched, and an older attempt removed", did: []Result{launched, removed(0)}, from: 12, want: true},
		{
			name: "started, and not shown", did: []Result{started(0)}, facts: []backend.PodFacts{attempt(0, true)}, from: 12,
			want: true,
		},
		{
			name: "started, and shown", did: []Result{started(0)}, facts: []backend.PodFacts{attempt(0, true, running)},
			from: 12,
		},
		{
			name: "not started, for want of a sandbox", did: []Result{failed(started(0))},
			facts: []backend.PodFacts{attempt(0, true)}, from: 12,
		},
		{
			name: "started, and ended by now", did: []Result{started(0)}, facts: []backend.PodFacts{attempt(0, true, ended)},
			from: 12,
		},
		{
			name: "started again, and the one before shown", did: []Result{started(1)},
			facts: []backend.PodFacts{attempt(0, true, ended)}, from: 12, want: true,
		},
		{
			name: "the API shows it running, and it is not there", api: status(0), facts: []backend.PodFacts{attempt(0, true)},
			from: 12, want: true,
		},
		{
			name: "the API shows it running, and it has ended", api: status(0),
			facts: []backend.PodFacts{attempt(0, true, ended)}, from: 12,
		},
		{
			name: "the API shows a later one running", api: status(1), facts: []backend.PodFacts{attempt(0, true, running)},
			from: 12, want: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMemory(corev1.PodStatus{})
			if tt.api != nil {
				m.Status.ContainerStatuses = []corev1.ContainerStatus{*tt.api}
				m.KnowStatus(at(10))
			}
			for _, r := range tt.did {
				m.Record(r)
			}
			if got := m.Behind(ProgressOf(tt.facts, at(tt.from)), at(tt.from), stale); got != tt.want {
				t.Errorf("behind: %v, want %v", got, tt.want)
			}
		})
	}
}

func status(restarts int32) *corev1.ContainerStatus {
	return &corev1.ContainerStatus{
		Name: "a", ContainerID: "sim://x", RestartCount: restarts,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}
}
