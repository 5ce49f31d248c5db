package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// view answers questions about the facts.
type view struct {
	*Input
	podContainers
	// newest attempt; nil if the remote has none.
	newest *backend.PodFacts
	// round is what new containers are made in (backend.ContainerSpec.Round).
	round int
}

func newView(in *Input) view {
	v := view{Input: in, podContainers: containersOf(in.Pod)}
	if n := len(in.Facts); n > 0 {
		v.newest = &in.Facts[n-1]
	}
	v.round = v.roundNow()
	return v
}

// sandbox is the newest attempt if it is live and not dead under its containers.
func (v view) sandbox() *backend.PodFacts { return LiveAttempt(v.Facts) }

// LiveAttempt is the newest attempt of a pod if it is live and its sandbox has not
// died under its containers; nil otherwise.
func LiveAttempt(facts []backend.PodFacts) *backend.PodFacts {
	n := len(facts)
	if n == 0 || !facts[n-1].Live || facts[n-1].Reason == backend.SandboxNotReady {
		return nil
	}
	return &facts[n-1]
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
	if v.PodUnit() && v.newest == nil {
		// Tasks that the remote forgot have used up their numbers.
		for _, s := range v.Memory.Status.ContainerStatuses {
			if s.ContainerID != "" {
				next = max(next, int(s.RestartCount)+1)
			}
		}
	}
	return next
}

// ContainerAttempt is one attempt of a container, and the pod attempt that it is in.
type ContainerAttempt struct {
	backend.ContainerFacts
	// Pod is the pod attempt.
	Pod *backend.PodFacts
}

// Attempts returns the attempts of a container over all attempts of its pod,
// newest first.
func Attempts(facts []backend.PodFacts, name string) []ContainerAttempt {
	var all []ContainerAttempt
	for i := range facts {
		for _, c := range facts[i].Containers {
			if c.Name == name {
				all = append(all, ContainerAttempt{c, &facts[i]})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b ContainerAttempt) int {
		if a.Pod.Attempt != b.Pod.Attempt {
			return b.Pod.Attempt - a.Pod.Attempt
		}
		return b.ContainerFacts.Attempt - a.ContainerFacts.Attempt
	})
	return all
}

func (v view) history(name string) []ContainerAttempt { return Attempts(v.Facts, name) }

// current is the newest attempt of a container, or nil.
func (v view) current(name string) *ContainerAttempt {
	if all := v.history(name); len(all) > 0 {
		return &all[0]
	}
	return nil
}

// exited is true when the container has ended for certain. In a pod that is one
// unit, nothing outlives the pod.
func (v view) exited(c *ContainerAttempt) bool {
	return c.State() == backend.Exited || v.PodUnit() && !c.Pod.Live
}

// disrupted is true where the remote ends the pod, or has, for reasons of its own.
func (v view) disrupted() bool {
	return v.PodUnit() && v.newest != nil && v.newest.Disrupted
}

// exitCode of an exited container; one whose end was not seen counts as killed.
func exitCode(c *ContainerAttempt) int32 {
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
	if v.PodUnit() {
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
func (v view) prior(m podContainer) *corev1.ContainerStatus {
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

// EverStarted is true if any container of the status was started once.
func EverStarted(s *corev1.PodStatus) bool {
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range list {
			if ran(&list[i]) {
				return true
			}
		}
	}
	return false
}
