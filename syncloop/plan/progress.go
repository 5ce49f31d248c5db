package plan

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// Progress is how far a pod or a container is known to have come: made by us, or
// seen. A listing that shows less may only be old (Limits.Stale).
type Progress struct {
	Attempt int
	// State of a pod is Running while it is live, then Exited.
	State backend.State
	// At is when it was known last.
	At time.Time
}

// beyond is true when p comes after q in a life.
func (p Progress) beyond(q Progress) bool {
	return p.Attempt > q.Attempt || p.Attempt == q.Attempt && p.State > q.State
}

// ProgressOf is how far a pod (key "") and its containers, by name, have come as the
// facts show it.
func ProgressOf(facts []backend.PodFacts, at time.Time) map[string]Progress {
	all := map[string]Progress{}
	for i := range facts {
		f := &facts[i]
		pod := Progress{f.Attempt, backend.Running, at}
		if !f.Live {
			pod.State = backend.Exited
		}
		further(all, podKey, pod)
		for _, c := range f.Containers {
			further(all, c.Name, Progress{c.Attempt, c.State(), at})
		}
	}
	return all
}

func further(all map[string]Progress, key string, p Progress) {
	if old, ok := all[key]; !ok || !old.beyond(p) {
		all[key] = p
	}
}

// know notes what an action that succeeded has made or removed.
func (m *Memory) know(r Result) {
	if m.Known == nil {
		return
	}
	_, removes := r.Action.(RemovePod)
	if proved := removes && errors.Is(r.Err, backend.ErrNotFound); r.Err != nil && !proved {
		return
	}
	switch a := r.Action.(type) {
	case Launch:
		further(m.Known, podKey, Progress{a.Spec.Attempt, backend.Running, r.At})
		for _, c := range a.Spec.Containers {
			further(m.Known, c.Container.Name, Progress{c.Attempt, backend.Waiting, r.At})
		}
	case StartContainer:
		further(m.Known, a.Spec.Container.Name, Progress{a.Spec.Attempt, backend.Running, r.At})
	case RemovePod:
		if a.Ref.Attempt == m.Known[podKey].Attempt {
			clear(m.Known)
		}
	}
}

// KnowStatus takes over what an earlier life of the process has seen.
func (m *Memory) KnowStatus(at time.Time) {
	for _, list := range [][]corev1.ContainerStatus{m.Status.InitContainerStatuses, m.Status.ContainerStatuses} {
		for i := range list {
			s := &list[i]
			if !ran(s) {
				continue
			}
			p := Progress{int(s.RestartCount), backend.Waiting, at}
			switch {
			case s.State.Running != nil:
				p.State = backend.Running
			case s.State.Terminated != nil:
				p.State = backend.Exited
			}
			further(m.Known, s.Name, p)
		}
	}
}

// Behind is true when a read shows less than is known, and began too soon after it to
// prove that it has gone.
func (m *Memory) Behind(shown map[string]Progress, began time.Time, stale time.Duration) bool {
	for key, known := range m.Known {
		got, ok := shown[key]
		if (!ok || known.beyond(got)) && !began.After(known.At.Add(stale)) {
			return true
		}
	}
	return false
}
