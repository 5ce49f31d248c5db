package plan

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// TestStarts: the kubelet's Event "Started", of containers that the remote starts.
func TestStarts(t *testing.T) {
	running := func(id string) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a", ContainerID: id}}}
	}
	ended := func(id string) corev1.PodStatus {
		return corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{killed("a", id, "Error")}}
	}
	before := func(s corev1.PodStatus) corev1.PodStatus {
		s.InitContainerStatuses[0] = restarted(s.InitContainerStatuses[0])
		return s
	}
	first, second := attempt(0, false, ran1("a", 0, 1, 2, 1)), attempt(1, true, runs("a", 1, 3))
	for name, tt := range map[string]struct {
		single bool // containers are started one by one
		facts  []backend.PodFacts
		status corev1.PodStatus
		begun  map[string]bool
		want   []string
	}{
		"nothing is there":   {},
		"not started yet":    {facts: []backend.PodFacts{attempt(0, true, made("a", 0))}},
		"it could not start": {facts: []backend.PodFacts{attempt(0, false, neverStarted("a"))}},
		"it runs":            {facts: []backend.PodFacts{attempt(0, true, runs("a", 0, 1))}, want: []string{"a"}},
		"two run": {
			facts: []backend.PodFacts{attempt(0, true, runs("a", 0, 1), runs("b", 0, 1))}, want: []string{"a", "b"},
		},
		"it had ended when it was seen": {facts: []backend.PodFacts{first}, want: []string{"a"}},
		"each attempt":                  {facts: []backend.PodFacts{first, second}, want: []string{"a", "a"}},
		"told already": {
			facts: []backend.PodFacts{first, second}, begun: map[string]bool{"a-id0": true}, want: []string{"a"},
		},
		"after a restart: its status said it runs": {
			facts: []backend.PodFacts{attempt(0, true, runs("a", 0, 1))}, status: running("rt://a-id0"),
		},
		"after a restart: its status said it ended": {facts: []backend.PodFacts{first}, status: ended("rt://a-id0")},
		"after a restart: the attempt before":       {facts: []backend.PodFacts{first}, status: before(ended("rt://a-id0"))},
		"after a restart: the status is of another": {
			facts: []backend.PodFacts{second}, status: running("rt://a-id0"), want: []string{"a"},
		},
		"containers that the engine starts are told": {
			single: true, facts: []backend.PodFacts{attempt(0, true, runs("a", 0, 1))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(aPod(), 5, tt.facts...)
			in.Containers = tt.single
			m := Memory{Status: tt.status, Started: tt.begun}
			var got []string
			for _, s := range m.StartEvents(&in) {
				if s.Kind != corev1.EventTypeNormal || s.Reason != "Started" {
					t.Errorf("%+v", s)
				}
				got = append(got, s.Container)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if again := m.StartEvents(&in); len(again) > 0 {
				t.Errorf("told again: %+v", again)
			}
			if m.Forget(nil); len(m.Started) > 0 {
				t.Errorf("kept of what is gone: %v", m.Started)
			}
		})
	}
}

func neverStarted(name string) backend.ContainerFacts {
	c := made(name, 0)
	c.FinishedAt, c.Reason = at(2), "ErrImagePull"
	return c
}
