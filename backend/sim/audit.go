package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim/filesystem"
)

// Kind is what happened in an Event.
type Kind string

// The kinds of events. Ends of containers are not events: they follow from
// Facts.
const (
	Launched Kind = "Launched" // an attempt was made, not found
	Started  Kind = "Started"  // a container was made, not found
	Stopped  Kind = "Stopped"  // a stop was lodged
	Removed  Kind = "Removed"  // a removal was accepted for the first time
	Placed   Kind = "Placed"   // a volume was made, or its contents swapped
	Cleared  Kind = "Cleared"  // all volumes of a pod were removed
	Vanished Kind = "Vanished"
	// SandboxKilled is the end of a sandbox alone by Remote.KillSandbox.
	SandboxKilled Kind = "SandboxKilled"
)

// Event is one change of the remote that a call made.
type Event struct {
	At   time.Time
	Kind Kind
	Pod  backend.Ref
	// Container and Attempt name the container; empty for the whole pod.
	Container string
	Attempt   int
	// Grace is that of a stop.
	Grace time.Duration
	// Volume and Hash are those of a placement.
	Volume, Hash string
}

// ContainerKey names a container of a pod across its attempts.
type ContainerKey struct {
	UID  types.UID
	Name string
}

// VolumeKey names a volume of a pod.
type VolumeKey struct {
	UID  types.UID
	Name string
}

// Violation is something that an engine must never let happen.
type Violation struct {
	At time.Time
	// UID is the pod; Container is empty when the whole pod ran twice.
	UID       types.UID
	Container string
	// Text says what was there already and what was made beside it.
	Text string
}

// Error is the violation in words, so that a test can report it as an error.
func (v Violation) Error() string {
	return fmt.Sprintf("%s pod %s %s: %s", v.At.Format(time.RFC3339Nano), v.UID, v.Container, v.Text)
}

// Audit is what truly happened on the remote, whatever was replied.
type Audit struct {
	// Violations are kept up to 100.
	Violations []Violation
	// Launches counts the attempts made for each pod, Starts the containers
	// made (in the pod unit, with each launch). Only with Config.Record.
	Launches map[types.UID]int
	Starts   map[ContainerKey]int
}

const maxViolations = 100

// recorder is guarded by Remote.mu.
type recorder struct {
	keep       bool
	history    []Event
	placements map[VolumeKey][]*filesystem.Placement
	audit      Audit
}

func newRecorder(keep bool) recorder {
	return recorder{
		keep:       keep,
		placements: map[VolumeKey][]*filesystem.Placement{},
		audit:      Audit{Launches: map[types.UID]int{}, Starts: map[ContainerKey]int{}},
	}
}

// History returns all events in order; empty without Config.Record.
func (r *Remote) History() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.audit.history)
}

// Audit returns the violations and counts so far.
func (r *Remote) Audit() Audit {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.audit.audit
	return Audit{
		Violations: slices.Clone(a.Violations),
		Launches:   maps.Clone(a.Launches),
		Starts:     maps.Clone(a.Starts),
	}
}

func (r *recorder) add(e Event) {
	if r.keep {
		r.history = append(r.history, e)
	}
}

// placed records the contents of a volume.
func (r *recorder) placed(v *filesystem.Volume, now time.Time) {
	if !r.keep {
		return
	}
	key := VolumeKey{v.Ref.UID, v.Name}
	r.placements[key] = append(r.placements[key], v.Now)
	r.add(Event{At: now, Kind: Placed, Pod: v.Ref, Volume: v.Name, Hash: v.Now.Hash})
}

func (r *recorder) violation(v Violation) {
	if len(r.audit.Violations) < maxViolations {
		r.audit.Violations = append(r.audit.Violations, v)
	}
}

// launched records a new attempt beside those that are there. Attempts only end
// as time passes, so looking when one is made finds every overlap.
func (r *recorder) launched(a *attempt, others []*attempt, now time.Time) {
	for _, o := range others {
		if o.live(now) {
			r.violation(Violation{At: now, UID: a.ref.UID, Text: fmt.Sprintf(
				"attempt %d launched while attempt %d is live", a.ref.Attempt, o.ref.Attempt)})
		}
	}
	if !r.keep {
		return
	}
	r.audit.Launches[a.ref.UID]++
	for _, c := range a.containers {
		r.audit.Starts[c.key(a.ref.UID)]++
	}
	for name, v := range a.volumes {
		key := VolumeKey{a.ref.UID, name}
		r.placements[key] = append(r.placements[key], v.Now)
	}
	r.add(Event{At: now, Kind: Launched, Pod: a.ref})
}

// started records a new container beside those that are there.
func (r *recorder) started(a *attempt, c *container, others []*attempt, now time.Time) {
	for _, o := range others {
		for _, oc := range o.containers {
			if oc.name == c.name && !oc.exited(now) && !o.isGone(now) {
				r.violation(Violation{At: now, UID: a.ref.UID, Container: c.name, Text: fmt.Sprintf(
					"attempt %d started while attempt %d has not ended", c.attempt, oc.attempt)})
			}
		}
	}
	if !r.keep {
		return
	}
	r.audit.Starts[c.key(a.ref.UID)]++
	r.add(Event{At: now, Kind: Started, Pod: a.ref, Container: c.name, Attempt: c.attempt})
}
