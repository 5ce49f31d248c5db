package task

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/identity"
)

// Statuses of tasks and containers (ECS developer guide, "Task lifecycle").
const (
	statusRunning = "RUNNING"
	statusStopped = "STOPPED"
	statusDeleted = "DELETED"
)

// Observation is a task as ECS showed it, with what is needed to read it.
type Observation struct {
	id   identity.Task
	task types.Task
	// before are the facts known before it, whose times are kept.
	before backend.PodFacts
	local  func(*time.Time) time.Time
	now    time.Time

	// Times of the task, here; zero if they have not come.
	created, pulled, started, stopping, executionStopped, stopped time.Time
	containers                                                    map[string]types.Container
}

// Observe is a task as ECS showed it now; local turns a time of AWS's clock into one of
// this machine's.
func Observe(id identity.Task, t types.Task, local func(*time.Time) time.Time, now time.Time) *Observation {
	return &Observation{id: id, task: t, local: local, now: now}
}

func (o *Observation) live() bool {
	s := aws.ToString(o.task.LastStatus)
	return s != statusStopped && s != statusDeleted
}

// ending is true once the task should stop.
func (o *Observation) ending() bool {
	return !o.live() || aws.ToString(o.task.DesiredStatus) == statusStopped
}

// rests is true while nothing of the task is on its way, but perhaps for its address: it
// runs, and each container has at least started.
func (o *Observation) rests(f *backend.PodFacts) bool {
	return aws.ToString(o.task.LastStatus) == statusRunning && !o.ending() &&
		!slices.ContainsFunc(f.Containers, func(c backend.ContainerFacts) bool { return c.State() == backend.Waiting })
}

// hasVerdict is true once the health check of some container has a verdict.
func hasVerdict(f *backend.PodFacts) bool {
	return slices.ContainsFunc(f.Containers, func(c backend.ContainerFacts) bool { return c.Healthy != nil })
}

// facts are what the observation says.
func (o *Observation) facts() backend.PodFacts {
	t := &o.task
	o.created, o.pulled, o.started = o.local(t.CreatedAt), o.local(t.PullStoppedAt), o.local(t.StartedAt)
	o.stopping, o.stopped = o.local(t.StoppingAt), o.local(t.StoppedAt)
	o.executionStopped = o.local(t.ExecutionStoppedAt)
	o.containers = map[string]types.Container{}
	for _, c := range t.Containers {
		o.containers[aws.ToString(c.Name)] = c
	}
	f := backend.PodFacts{
		Ref: o.id.Ref(aws.ToString(t.TaskArn)), Live: o.live(),
		CreatedAt: firstKnown(o.before.CreatedAt, o.created, o.now),
	}
	if f.Live {
		// A task has a machine of its own, whose only address is the task's.
		f.IPs = addresses(*t)
		f.HostIPs = f.IPs
	} else {
		f.StoppedAt = firstKnown(o.before.StoppedAt, o.stopped, o.executionStopped, o.now)
	}
	f.Reason, f.Message, f.Disrupted = endOf(*t)
	var chain time.Time // the end of the init container before
	blamed := false
	for _, id := range o.id.Containers {
		c := o.container(id, chain)
		c.CreatedAt = f.CreatedAt
		if once(id) {
			chain = c.FinishedAt
		}
		blamed = blamed || c.NeverRan()
		f.Containers = append(f.Containers, c)
	}
	if !blamed && (!o.live() || o.stuck()) {
		o.blame(f.Containers, o.whyNotStarted())
	}
	return f
}

// notWritten begins what is said of a pod whose burstlet-init failed.
const notWritten = "the files of the pod's volumes could not be written: container " + identity.InitName

// whyNotStarted is why a task ended before any container of the pod started, or must;
// empty where it did not.
func (o *Observation) whyNotStarted() string {
	init, known := o.containers[identity.InitName]
	why := aws.ToString(init.Reason)
	switch {
	case !known || !failed(init) || waitedInVain(init):
	case !notStarted(init) && init.ExitCode != nil:
		return strings.TrimSpace(fmt.Sprintf("%s ended with exit code %d %s", notWritten, *init.ExitCode, why)) +
			" (its log says why: stream " + identity.LogStream(identity.InitName, aws.ToString(o.task.TaskArn)) + ")"
	case notStarted(init) || o.task.StopCode != types.TaskStopCodeTaskFailedToStart:
		return fmt.Sprintf("%s did not start: %s (is backend.ecs.taskImage burstlet's image?)", notWritten, why)
	}
	if o.task.StopCode == types.TaskStopCodeTaskFailedToStart {
		return aws.ToString(o.task.StoppedReason)
	}
	if !slices.ContainsFunc(o.id.Containers, func(id identity.Container) bool {
		return o.ran(id, o.containers[id.Name], containerNamed(o.before.Containers, id.Name))
	}) {
		for _, id := range o.id.Containers {
			if c := o.containers[id.Name]; waitedInVain(c) {
				return aws.ToString(c.Reason)
			}
		}
	}
	return ""
}

// blame gives the first container that never ran the task's reason for not
// starting, where none has one of its own.
func (o *Observation) blame(cs []backend.ContainerFacts, why string) {
	if why == "" {
		return
	}
	for i := range cs {
		if c := &cs[i]; c.State() == backend.Waiting {
			c.FinishedAt, c.Reason, c.Message = o.failedAt(), startFailure(why), awscall.StartAdvice(why)
			return
		}
	}
}

// container reads one container; chain is the end of the init container before
// it. Containers that AWS adds to a task are in no identity and never read.
func (o *Observation) container(id identity.Container, chain time.Time) backend.ContainerFacts {
	seen, known := o.containers[id.Name]
	before := containerNamed(o.before.Containers, id.Name)
	c := backend.ContainerFacts{
		Name: id.Name, Attempt: id.Attempt, Hash: id.Hash, ID: aws.ToString(seen.RuntimeId),
		Image: aws.ToString(seen.Image), ImageID: imageID(seen),
	}
	if !known {
		return c
	}
	why := aws.ToString(seen.Reason)
	over := aws.ToString(seen.LastStatus) == statusStopped
	if !o.ran(id, seen, before) {
		if over && why != "" && !waitedInVain(seen) && (o.ending() || o.stuck()) {
			c.FinishedAt = firstKnown(before.FinishedAt, o.failedAt())
			c.Reason, c.Message = startFailure(why), awscall.StartAdvice(why)
		}
		return c
	}
	c.StartedAt = firstKnown(before.StartedAt, o.startOf(id, chain))
	if !over {
		c.Healthy = healthy(seen)
		return c
	}
	c.FinishedAt = firstKnown(before.FinishedAt, o.endOf(id))
	if c.FinishedAt.Before(c.StartedAt) {
		c.FinishedAt = c.StartedAt
	}
	c.Message = why
	switch {
	case isOOM(why):
		c.OOM, c.Reason = true, reasonOOM
	case why != "":
		c.Reason, _, _ = strings.Cut(why, ":")
	}
	if seen.ExitCode == nil {
		c.ExitCode, c.Reason = exitUnknown, reasonUnknown
	} else {
		c.ExitCode = *seen.ExitCode
	}
	return c
}

// healthy is the verdict of a container's health check (ECS API, Container:
// healthStatus, UNKNOWN also where there is no check).
func healthy(c types.Container) *bool {
	switch c.HealthStatus {
	case types.HealthStatusHealthy:
		return aws.Bool(true)
	case types.HealthStatusUnhealthy:
		return aws.Bool(false)
	case types.HealthStatusUnknown:
	}
	return nil
}

// ran is true for a container that runs or ran. An app container counts once the
// task has its start time, so that the time does not change a moment later. An exit code
// alone says nothing: ECS shows one for containers that never started.
func (o *Observation) ran(id identity.Container, seen types.Container, before backend.ContainerFacts) bool {
	if notStarted(seen) && before.StartedAt.IsZero() {
		// Only what ECS itself starts again can have run before.
		return id.Sidecar && !o.started.IsZero() && !waitedInVain(seen)
	}
	if seen.ExitCode != nil || !before.StartedAt.IsZero() {
		return true
	}
	if once(id) || id.Sidecar {
		return aws.ToString(seen.LastStatus) == statusRunning || !o.started.IsZero()
	}
	return !o.started.IsZero()
}

// startOf is when a container that ran started. ECS says it of the task alone.
func (o *Observation) startOf(id identity.Container, chain time.Time) time.Time {
	if id.Init {
		return firstKnown(chain, o.pulled, o.created, o.now)
	}
	return firstKnown(o.started, chain, o.pulled, o.created, o.now)
}

// once is true for an init container that is no sidecar: the next waits for its end.
func once(id identity.Container) bool { return id.Init && !id.Sidecar }

// endOf is when a container that ran and is STOPPED ended.
func (o *Observation) endOf(id identity.Container) time.Time {
	switch {
	case once(id) && !o.started.IsZero():
		return o.started
	case once(id), o.task.StopCode == types.TaskStopCodeEssentialContainerExited:
		// Its end is what makes the task stop.
		return firstKnown(o.stopping, o.executionStopped, o.now)
	default:
		return firstKnown(o.executionStopped, o.stopped, o.now)
	}
}

// failedAt is when a container that never ran was given up.
func (o *Observation) failedAt() time.Time {
	return firstKnown(o.stopping, o.stopped, o.now)
}

// firstKnown is the first of the times that is known: they stand in the order
// of trust.
func firstKnown(ts ...time.Time) time.Time {
	for _, t := range ts {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

func containerNamed(cs []backend.ContainerFacts, name string) backend.ContainerFacts {
	for _, c := range cs {
		if c.Name == name {
			return c
		}
	}
	return backend.ContainerFacts{}
}

// imageID is the image by digest, as a runtime names what it pulled.
func imageID(c types.Container) string {
	digest := aws.ToString(c.ImageDigest)
	if digest == "" {
		return ""
	}
	name, _, _ := strings.Cut(aws.ToString(c.Image), "@")
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		name = name[:i]
	}
	return name + "@" + digest
}

// addresses are the task's, from its network interface (ECS API, Attachment:
// details), and the IPv6 ones that stand at the containers (NetworkInterface).
func addresses(t types.Task) []string {
	var ips []string
	add := func(ip string) {
		for _, have := range ips {
			if have == ip {
				return
			}
		}
		if ip != "" {
			ips = append(ips, ip)
		}
	}
	for _, a := range t.Attachments {
		if aws.ToString(a.Type) != "ElasticNetworkInterface" {
			continue
		}
		for _, kv := range a.Details {
			if aws.ToString(kv.Name) == "privateIPv4Address" {
				add(aws.ToString(kv.Value))
			}
		}
	}
	for _, c := range t.Containers {
		for _, n := range c.NetworkInterfaces {
			add(aws.ToString(n.PrivateIpv4Address))
			add(aws.ToString(n.Ipv6Address))
		}
	}
	return ips
}
