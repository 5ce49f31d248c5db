package syncloop

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// view answers questions about the facts.
type view struct {
	*Input
	members
	// newest attempt; nil if the remote has none.
	newest *backend.PodFacts
}

func newView(in *Input) view {
	v := view{Input: in, members: membersOf(in.Pod)}
	if n := len(in.Facts); n > 0 {
		v.newest = &in.Facts[n-1]
	}
	return v
}

// sandbox is the newest attempt if it is live and not dead under its containers.
func (v view) sandbox() *backend.PodFacts {
	if v.newest != nil && v.newest.Live && v.newest.Reason != backend.SandboxNotReady {
		return v.newest
	}
	return nil
}

// nextAttempt is the number of the attempt to launch. An attempt whose reply
// was lost is launched again under its own number.
func (v view) nextAttempt() int {
	next := 0
	if v.newest != nil {
		next = v.newest.Attempt + 1
	}
	for attempt := range v.Memory.Lost {
		next = max(next, attempt)
	}
	if v.Unit == PodUnit && v.newest == nil {
		// Tasks that the remote forgot have used up their numbers.
		for _, s := range v.Memory.Status.ContainerStatuses {
			if s.ContainerID != "" {
				next = max(next, int(s.RestartCount)+1)
			}
		}
	}
	return next
}

// seen is one container attempt and the pod attempt that it is in.
type seen struct {
	backend.ContainerFacts
	pod *backend.PodFacts
}

// history returns the attempts of a container over all attempts of the pod,
// newest first.
func (v view) history(name string) []seen {
	var all []seen
	for i := range v.Facts {
		for _, c := range v.Facts[i].Containers {
			if c.Name == name {
				all = append(all, seen{c, &v.Facts[i]})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b seen) int {
		if a.pod.Attempt != b.pod.Attempt {
			return b.pod.Attempt - a.pod.Attempt
		}
		return b.ContainerFacts.Attempt - a.ContainerFacts.Attempt
	})
	return all
}

// current is the newest attempt of a container, or nil.
func (v view) current(name string) *seen {
	if all := v.history(name); len(all) > 0 {
		return &all[0]
	}
	return nil
}

// exited is true when the container has ended for certain. In a pod that is one
// unit, nothing outlives the pod.
func (v view) exited(c *seen) bool {
	return c.State() == backend.Exited || v.Unit == PodUnit && !c.pod.Live
}

// disrupted is true where the remote ends the pod, or has, for reasons of its own.
func (v view) disrupted() bool {
	return v.Unit == PodUnit && v.newest != nil && v.newest.Disrupted
}

// exitCode of an exited container; one whose end was not seen counts as killed.
func exitCode(c *seen) int32 {
	if c.State() == backend.Exited {
		return c.ExitCode
	}
	return unknownExitCode
}

// running is true while any container of any attempt may be running.
func (v view) running() bool {
	for i := range v.Facts {
		if v.attemptRuns(&v.Facts[i]) {
			return true
		}
	}
	return false
}

func (v view) attemptRuns(p *backend.PodFacts) bool {
	if v.Unit == PodUnit {
		return p.Live
	}
	for _, c := range p.Containers {
		if c.State() == backend.Running || c.State() == backend.Waiting && p.Live {
			return true
		}
	}
	return false
}

// prior is the container's last status, or nil.
func (v view) prior(m member) *corev1.ContainerStatus {
	statuses := v.Memory.Status.ContainerStatuses
	switch {
	case m.role.initial():
		statuses = v.Memory.Status.InitContainerStatuses
	case m.role == ephemeralRole:
		statuses = v.Memory.Status.EphemeralContainerStatuses
	}
	for i := range statuses {
		if statuses[i].Name == m.Name {
			return &statuses[i]
		}
	}
	return nil
}

// ran is true if a container of this status was started once.
func ran(s *corev1.ContainerStatus) bool { return s != nil && s.ContainerID != "" }

// everRan is true if any app container of the pod was started once, now or in
// an earlier life of this process.
func (v view) everRan() bool {
	for _, c := range v.apps {
		if ran(v.prior(c)) || v.current(c.Name) != nil {
			return true
		}
	}
	return false
}

// everStarted is true if any container of the status was started once.
func everStarted(s *corev1.PodStatus) bool {
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range list {
			if ran(&list[i]) {
				return true
			}
		}
	}
	return false
}
