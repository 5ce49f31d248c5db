package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/admit"
	"github.com/burstlet/burstlet/syncloop/prober"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// Input is all that a decision about one pod depends on.
type Input struct {
	// Traits are the backend's: what it lends, and its numbers.
	backend.Traits
	// Pod is the pod wanted, with the resources that it is allocated; nil for an
	// orphan, which only Ref names.
	Pod *corev1.Pod
	// Resize is what became of other resources that its spec asks for; nil for none.
	Resize *Resize
	Ref    backend.Ref
	// Removed is true when the API has the pod no longer.
	Removed bool
	// Order is one to end the pod that comes from the node; nil for none.
	Order *TerminationOrder
	// Facts are all attempts that the remote has, oldest first.
	Facts []backend.PodFacts
	// FactsAt is when the read of the facts began.
	FactsAt time.Time
	// Rejection says why the node does not admit the pod, nil if it does; RefuseAt
	// is when to fail it (rejections of one controller's pods are spaced), or one that the
	// remote refused to launch.
	Rejection *admit.Rejection
	RefuseAt  time.Time
	// Refused says, by name, why ephemeral containers cannot be added to the pod:
	// they come after it was admitted.
	Refused map[string]string
	// HostIPs are the addresses of the node's pods' host.
	HostIPs []string
	// Volumes and environments are made of Objects and Node.
	Objects resolve.Objects
	Node    resolve.Node
	// VirtualKubeletEvents is Config's.
	VirtualKubeletEvents bool
	// Probes holds what probes have found.
	Probes map[prober.Key]prober.Result
	// NetworkProblem says why pods cannot get an address now; empty if they can.
	NetworkProblem string
	Memory         Memory
	Now            time.Time
}

// Memory is what a worker knows beyond the facts. The package comment says what
// each part is after a restart. Its maps are nil until there is something in them.
type Memory struct {
	// Status is the last one decided; at first what the API holds.
	Status corev1.PodStatus
	// Termination is set once the pod must end, and only ever made stricter.
	Termination *TerminationOrder
	// Backoff holds crash loops by container name, or podKey where the pod is the
	// unit of restart.
	Backoff map[string]Backoff
	// Failures holds the last failure of an action by container name, or
	// podKey for Launch. Success clears it.
	Failures map[string]Failure
	// Lost holds when the reply to a launch was lost, by attempt.
	Lost map[int]time.Time
	// Try counts the refused launches of the newest attempt that had any.
	Try LaunchTry
	// LostStarts holds when the reply to a container's start was lost, by name.
	LostStarts map[string]time.Time
	// Stops holds what was asked of each attempt.
	Stops map[int]StopRequest
	// Removes holds the removals tried of each attempt.
	Removes map[int]Removal
	// Terminations holds orders to end single containers, by container name.
	Terminations map[string]ContainerTermination
	// ContainerStops holds what was asked of single containers, by stopKey.
	ContainerStops map[string]StopRequest
	// EnvFiles holds the files that were read for the next start of containers, by name.
	EnvFiles map[string]EnvFiles
	// Hooks holds the hooks that ended.
	Hooks map[HookKey]HookState
	// Placed holds the hash of each volume's contents on the remote, by name.
	Placed map[string]string
	// Mounted holds the volumes placed since the last launch.
	Mounted map[string]bool
	// Resizing is a resize that is under way; nil for none.
	Resizing *Resizing
	// PodLags is true while the pod's own cgroup may not be what was allocated.
	PodLags bool
	// Resized holds what containers were last asked to be held to, by their id.
	Resized map[string]Resized
	// Cleared is how often the removal of the volumes was asked.
	Cleared Removal
	// Started holds, by id, the containers whose start has an Event, where the remote
	// starts them by itself.
	Started map[string]bool
	// Known is how far the pod (podKey) and its containers have come, for remotes
	// whose listings may be old; nil for others.
	Known map[string]Progress
}

// podKey stands for the pod itself in maps that are keyed by container name.
const podKey = ""

// TerminationOrder is an order to end a pod. Orders are merged: the earliest deadline, the
// first reason.
type TerminationOrder struct {
	// Deadline is when what still runs is killed.
	Deadline time.Time
	// Gone is true when nothing may be left on the remote.
	Gone bool
	// Phase is Failed when the order itself decides the outcome, with Reason
	// and Message for the pod's status.
	Phase           corev1.PodPhase
	Reason, Message string
	// Disrupted is true when it is no fault of the pod's (condition
	// DisruptionTarget). Disruption is what the condition says where that is not Message.
	Disrupted  bool
	Disruption string
	// Discard is true when nothing of the pod may stay on the remote once it has ended,
	// though the API has it: its host is short of what it takes there (kubelet:
	// ShouldPodContentBeRemoved).
	Discard bool
}

// ContainerTermination is an order to end one container of a pod that lives on.
type ContainerTermination struct {
	// ID is the container's, by the runtime.
	ID       string
	Deadline time.Time
	// Replace is true when it is restarted whatever its policy says.
	Replace bool
	// Why is what the Event says.
	Why string
}

// Backoff is the state of one crash loop.
type Backoff struct {
	Delay time.Duration
	Last  time.Time
}

// Failure is the last failure of an action.
type Failure struct {
	// Reason is the kubelet's word ("ErrImagePull"), Message what happened.
	Reason, Message string
	// Container is the one that it is about, of an attempt that cannot be made; empty:
	// all of it.
	Container string
	// Image is the one that it is about, where that is a volume's; else its container's.
	Image string
	Class string
	At    time.Time
	// Delay until the next try.
	Delay time.Duration
}

// Until is when the action may be tried again.
func (f Failure) Until() time.Time { return f.At.Add(f.Delay) }

// half is when a wait is half over: from then on a failed pull is shown as
// backing off.
func (f Failure) half() time.Time { return f.At.Add(f.Delay / 2) }

// StopRequest is the last request to stop an attempt or a container.
type StopRequest struct{ At, Deadline time.Time }

// Removal is how often the removal of an attempt was asked.
type Removal struct {
	Count int
	Last  time.Time
	// Proven is true once the backend said NotFound.
	Proven bool
}

// Plan is what to do now.
type Plan struct {
	// Actions run in order. A failed Launch or PlaceVolume ends the batch.
	Actions []Action
	// Status is what the pod is; not set for orphans.
	Status corev1.PodStatus
	// Termination is set from when the pod must end.
	Termination *TerminationOrder
	// WakeAt is when to decide again though nothing changed; zero for never.
	WakeAt time.Time
	// CouldRun is true while a container of the pod may be running.
	CouldRun bool
	// Inspect is true when only newer facts can say more.
	Inspect bool
	// Reclaimed is true once nothing of a deleted pod is left on the remote, Discarded once
	// nothing is left of one that was to be discarded.
	Reclaimed, Discarded bool
	// Resized is true once the resize that was under way has come to its end.
	Resized bool
	// Refused is true when the pod fails for its fields.
	Refused bool
	// Terminations are the orders to end single containers, by name.
	Terminations map[string]ContainerTermination
	// Hooks and Probes should be running now, and no others.
	Hooks  []Hook
	Probes []prober.Target
	// Held says, by container name, what keeps a container from being made.
	Held map[string]Failure
	// Untrusted is true when tokens that an earlier life of the process placed may
	// be gone, and are requested again.
	Untrusted bool
	// Events are to be recorded, but those that stood in the plan before.
	Events []Event
}

// Event is one for the user: its type (Normal, Warning), reason and message, and the
// container that it is about; empty for the pod.
type Event struct{ Kind, Reason, Message, Container string }

func (p *Plan) record(kind, reason, message string) {
	p.recordOf("", kind, reason, message)
}

func (p *Plan) recordOf(container, kind, reason, message string) {
	p.Events = append(p.Events, Event{kind, reason, message, container})
}

func (p *Plan) hold(container, reason, message string) {
	if p.Held == nil {
		p.Held = map[string]Failure{}
	}
	p.Held[container] = Failure{Reason: reason, Message: message}
}

func (p *Plan) terminate(container string, order ContainerTermination) {
	if p.Terminations == nil {
		p.Terminations = map[string]ContainerTermination{}
	}
	p.Terminations[container] = order
}

// Wake makes sure that the next decision is made at a time at the latest.
func (p *Plan) Wake(at time.Time) {
	if p.WakeAt.IsZero() || at.Before(p.WakeAt) {
		p.WakeAt = at
	}
}

// ref names an attempt of the pod.
func (in *Input) ref(attempt int) backend.Ref {
	ref := in.Ref
	if in.Pod != nil {
		ref.UID, ref.Namespace, ref.Name = in.Pod.UID, in.Pod.Namespace, in.Pod.Name
	}
	ref.Attempt, ref.ID = attempt, ""
	return ref
}
