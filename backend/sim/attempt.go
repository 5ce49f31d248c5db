package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/filesystem"
)

// attempt is one sandbox or task. The times below "projection" may lie in the
// future: reads mask what is after now. Guarded by Remote.mu.
type attempt struct {
	node    string
	ref     backend.Ref
	created time.Time
	ips     []string
	// hostIPs are set in the pod unit, where each attempt has its own machine.
	hostIPs []string
	release string // address to give back when the attempt is gone
	// containers are in the order of creation; in the pod unit, of the spec.
	containers []*container
	// volumes came with the launch; nil where Files lends them.
	volumes map[string]*filesystem.Volume
	// health says that its facts carry verdicts of health.
	health bool
	// grace is what the pod leaves its sidecars at its end.
	grace time.Duration
	// stop is the request to end the whole attempt.
	stop stopRequest
	// burnt is the CPU time of containers that were removed from it.
	burnt uint64

	// broken is when its sandbox was killed; its containers run on.
	broken time.Time

	// projection
	ready, dead, gone time.Time
	reason, message   string

	// changed is closed at the next change; nil while nobody waits.
	changed chan struct{}
}

// container is one attempt of a container within an attempt of a pod.
type container struct {
	name, image, imageID, hash, id string
	attempt                        int
	// spec is what it was made from; mounts are its volumes.
	spec   backend.ContainerSpec
	mounts []filesystem.Mount
	// user is whom it runs as.
	user *corev1.LinuxContainerUser
	// held are the cpu and memory that it has; nil for none. Facts share it: it is
	// replaced, never changed.
	held *corev1.ResourceRequirements
	// init containers gate what follows; a sidecar is one that keeps running.
	init, sidecar bool
	program       program
	// console is its program living on in time; nil while nobody ever attached to
	// its input.
	console *console
	created time.Time
	stop    stopRequest

	// projection
	started, finished time.Time
	exitCode          int32
	oom               bool
	reason, message   string
}

// stopRequest is when TERM was sent and when KILL will be; zero: never asked.
type stopRequest struct{ term, kill time.Time }

func (s stopRequest) asked() bool { return !s.term.IsZero() }

// lodge merges one more request: the shorter grace wins.
func (s *stopRequest) lodge(now time.Time, grace time.Duration) {
	kill := now.Add(max(grace, 0))
	if !s.asked() {
		s.term, s.kill = now, kill
		return
	}
	s.kill = earliest(s.kill, kill)
}

func (c *container) key(uid types.UID) ContainerKey { return ContainerKey{uid, c.name} }

func (c *container) exited(now time.Time) bool { return reached(c.finished, now) }

// runs is true while the container has a process.
func (c *container) runs(a *attempt, now time.Time) bool {
	return reached(c.started, now) && !c.exited(now) && !a.isGone(now)
}

// hostname is the pod's.
func (c *container) hostname() string {
	switch pod := c.spec.Pod; {
	case pod == nil:
		return ""
	case pod.Spec.Hostname != "":
		return pod.Spec.Hostname
	default:
		return pod.Name
	}
}

func (a *attempt) live(now time.Time) bool {
	return !reached(a.dead, now) && !a.isGone(now) && (!reached(a.broken, now) || a.anyRuns(now))
}

func (a *attempt) anyRuns(now time.Time) bool {
	return slices.ContainsFunc(a.containers, func(c *container) bool { return c.runs(a, now) })
}

func (a *attempt) isGone(now time.Time) bool { return reached(a.gone, now) }

func (a *attempt) is(node string, ref backend.Ref) bool {
	return a.node == node && a.ref.Attempt == ref.Attempt
}

// find returns one attempt of a container.
func (a *attempt) find(name string, attempt int) *container {
	for _, c := range a.containers {
		if c.name == name && c.attempt == attempt {
			return c
		}
	}
	return nil
}

// wait returns a channel that is closed at the next change of the attempt.
func (a *attempt) wait() <-chan struct{} {
	if a.changed == nil {
		a.changed = make(chan struct{})
	}
	return a.changed
}

// wake tells those that wait that something was written.
func (a *attempt) wake() {
	if a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
}

// next is the first projected change after now; zero when there is none, as of what is gone.
func (a *attempt) next(now time.Time) time.Time {
	var t time.Time
	if a.isGone(now) {
		return t
	}
	soonest := func(at time.Time) {
		if at.After(now) {
			t = earliest(t, at)
		}
	}
	soonest(a.ready)
	soonest(a.dead)
	soonest(a.gone)
	for _, c := range a.containers {
		soonest(c.started)
		soonest(c.finished)
		if up, down := c.verdicts(); a.health && c.runs(a, now) {
			soonest(up)
			soonest(down)
		}
	}
	return t
}

// reached is true when t is set and not after now.
func reached(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

// earliest of two times, where zero is never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// latest of two times.
func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
