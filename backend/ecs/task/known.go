package task

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
)

// entry is a task that is known.
type entry struct {
	id      identity.Task
	facts   backend.PodFacts
	version int64
	// partial is true while only a repeated RunTask told of the task, which says
	// neither when it was made nor what became of its containers.
	partial bool
	// stopping is true once ECS was asked to stop it, by whomever.
	stopping bool
	// missing is since when ECS calls it missing; zero while it does not.
	missing time.Time
	// unanswered is why ECS said nothing of it the last time, and unansweredFrom since
	// when; zero while it does.
	unanswered     string
	unansweredFrom time.Time
	// unaddressed is since when it is settled but for its address; zero while it is not.
	unaddressed time.Time
	// read is when ECS last answered about it, asked or not.
	read time.Time
	// settled is true while nothing of it is on its way.
	settled bool
	// due is true where something says that it changed since.
	due bool
	// stuck is true while it should run and can only end, double once another task of its
	// attempt was there.
	stuck, double bool
	// probed is true where its health checks are waited for.
	probed bool
	// local turns a time of AWS's clock into one of this machine's.
	local func(*time.Time) time.Time
	// told is what its burstlet-agent says of its containers.
	told told
	// endsBy is when its containers are killed at the latest, askedBy when they should be;
	// zero until its end was asked for here.
	endsBy, askedBy time.Time
	// confirmed is true once it was launched here or listed twice.
	confirmed bool
	// terminations are what the logs of containers say of their ends, by name; empty
	// while unread.
	terminations map[string]Termination
	// marked are the containers whose log can be read to its end.
	marked map[string]bool
	// held are ends that are not shown yet, by container; none once dismissed.
	held      map[string]heldEnd
	dismissed bool
}

// Known are the tasks of a node as far as they are known, with what ECS cannot list:
// tasks that stop or have stopped, tasks too new to show, launches whose outcome is not
// known. It is a cache of the remote: what a new process cannot recover is in the
// comment of package ecs.
type Known struct {
	settle time.Duration
	born   time.Time
	// hints is true where EventBridge tells of changes.
	hints bool

	mu    sync.Mutex
	tasks map[string]*entry // by ARN
	// byUID are the ARNs of each pod.
	byUID map[types.UID][]string
	// removed are tasks and attempts that Remove has done with, and when.
	removed    map[string]time.Time
	removedKey map[identity.Key]time.Time
	// foreign are tasks under our name that are not ours to touch.
	foreign map[string]bool
	// unresolved are launches whose outcome is not known, and since when.
	unresolved map[identity.Key]time.Time
	// listFrom is when the last complete listing began; zero before the first.
	listFrom time.Time
	// partlyFrom is when the last listing began of which not all could be read.
	partlyFrom time.Time
	// movedFrom is when tasks that come or go were last read.
	movedFrom time.Time
	// logReads are in the order in which they are due; queued wakes their reader, and
	// is nil without one.
	logReads []LogRead
	queued   chan struct{}
	// unwanted wakes who ends tasks that should not run.
	unwanted chan struct{}
}

// removedMemory is how long a removed task is remembered: longer than ECS
// remembers stopped tasks.
const removedMemory = 2 * time.Hour

// Config says how tasks are followed.
type Config struct {
	// Settle is how long a task may take to show in listings.
	Settle time.Duration
	// Hints is true where EventBridge tells of changes.
	Hints bool
	// Logs is true where somebody reads the logs of containers that ended.
	Logs bool
}

// NewKnown knows no task yet.
func NewKnown(cfg Config) *Known {
	m := &Known{
		settle: cfg.Settle, born: time.Now(), hints: cfg.Hints,
		tasks: map[string]*entry{}, byUID: map[types.UID][]string{},
		removed: map[string]time.Time{}, removedKey: map[identity.Key]time.Time{},
		foreign: map[string]bool{}, unresolved: map[identity.Key]time.Time{},
		unwanted: make(chan struct{}, 1),
	}
	if cfg.Logs {
		m.queued = make(chan struct{}, 1)
	}
	return m
}

// Launched is what a launch knows of its task beyond what ECS says.
type Launched struct {
	ID identity.Task
	// Probed is true where ECS runs health checks of a container.
	Probed bool
}

// Launched notes the outcome of a launch. It was asked for, so it is known again
// even if it had been removed.
func (m *Known) Launched(l Launched, o *Observation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ref := o.id.Ref(*o.task.TaskArn)
	delete(m.removed, ref.ID)
	delete(m.removedKey, identity.KeyOf(ref))
	delete(m.unresolved, identity.KeyOf(ref))
	m.observe(o)
	e := m.tasks[ref.ID]
	e.confirmed, e.probed = true, l.Probed
}

// Observed notes what ECS said of a task, unless it was removed meanwhile.
func (m *Known) Observed(o *Observation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, gone := m.removed[*o.task.TaskArn]; !gone {
		m.observe(o)
	}
}

// observe replaces the facts of a task unless newer ones are known: answers may
// overtake each other (ECS API, Task: version).
func (m *Known) observe(o *Observation) {
	arn := *o.task.TaskArn
	e := m.tasks[arn]
	watched := e != nil && !e.partial // what is seen first may have been shown by another process
	if e == nil {
		e = &entry{id: o.id}
		m.tasks[arn] = e
		m.byUID[o.id.UID] = append(m.byUID[o.id.UID], arn)
		delete(m.unresolved, identity.Key{UID: o.id.UID, Attempt: o.id.Attempt})
	}
	e.read, e.due = o.now, false
	if o.task.Version < e.version {
		return
	}
	if !e.partial {
		o.before = e.facts
	}
	if e.partial = len(o.task.Containers) == 0; e.partial {
		o.task.LastStatus = nil // live until it is read whole
	}
	e.facts, e.version, e.missing = o.facts(), o.task.Version, time.Time{}
	e.unanswered, e.unansweredFrom = "", time.Time{}
	e.stopping = !e.partial && (e.stopping || o.ending())
	e.settle(o)
	e.dismissed = e.dismissed || stoppedByUs(o.task)
	e.heed(o)
	m.unwantedNow(e, o)
	m.queueLogReads(arn, e, o, watched)
	e.complete()
}

// wake is heard by whoever waits on a channel with room for one, now or next.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// settle notes whether something of the task is on its way, and since when only its address
// is.
func (e *entry) settle(o *Observation) {
	rests := !e.partial && o.rests(&e.facts) && (!e.probed || hasVerdict(&e.facts))
	e.settled = rests && len(e.facts.IPs) > 0
	switch {
	case !rests || e.settled:
		e.unaddressed = time.Time{}
	case e.unaddressed.IsZero():
		e.unaddressed = o.now
	}
}

// Identity is that of a task that is known.
func (m *Known) Identity(arn string) (identity.Task, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.tasks[arn]; e != nil {
		return e.id, true
	}
	return identity.Task{}, false
}

// Missed notes that ECS calls a task missing. A new task may be for a while, and
// keeps its facts; one that has been missing for the settle time is forgotten.
func (m *Known) Missed(arn string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.tasks[arn]
	if e != nil {
		e.read, e.due = now, false
	}
	switch {
	case e == nil || !e.facts.Live:
	case e.missing.IsZero():
		e.missing = now
	case now.Sub(e.missing) >= m.settle:
		m.drop(arn)
	}
}

// Unanswered notes that ECS said nothing of a task, and why. known is false for a task that
// is not known; first is true for the first time that it gives this reason.
func (m *Known) Unanswered(arn, why string, now time.Time) (known, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.tasks[arn]
	if e == nil {
		return false, false
	}
	e.read, e.due = now, false
	first = e.unanswered != why
	e.unanswered = why
	if e.unansweredFrom.IsZero() {
		e.unansweredFrom = now
	}
	return true, first
}

func (m *Known) drop(arn string) {
	e := m.tasks[arn]
	if e == nil {
		return
	}
	delete(m.tasks, arn)
	rest := slices.DeleteFunc(m.byUID[e.id.UID], func(a string) bool { return a == arn })
	if m.byUID[e.id.UID] = rest; len(rest) == 0 {
		delete(m.byUID, e.id.UID)
	}
}

// Remove forgets a task that has stopped.
func (m *Known) Remove(arn string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.tasks[arn]; e != nil {
		m.drop(arn)
		m.removed[arn] = now
		m.removedKey[identity.Key{UID: e.id.UID, Attempt: e.id.Attempt}] = now
	}
}

// Ignore marks a task that is under our name but not ours to touch; it is true
// the first time.
func (m *Known) Ignore(arn string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := !m.foreign[arn]
	m.foreign[arn] = true
	return first
}

// All are the facts to show of all tasks, in order.
func (m *Known) All(now time.Time) []backend.PodFacts {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]backend.PodFacts, 0, len(m.tasks))
	for _, e := range m.tasks {
		if !e.double {
			out = append(out, e.shown(now))
		}
	}
	return inOrder(out)
}

// Of are the facts to show of the tasks of some pods, in order.
func (m *Known) Of(uids []types.UID, now time.Time) []backend.PodFacts {
	return m.factsOf(uids, func(e *entry) backend.PodFacts { return e.shown(now) })
}

// Facts are those of the tasks of a pod, in order, with nothing held back.
func (m *Known) Facts(uid types.UID) []backend.PodFacts {
	return m.factsOf([]types.UID{uid}, (*entry).copied)
}

func (m *Known) factsOf(uids []types.UID, facts func(*entry) backend.PodFacts) []backend.PodFacts {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []backend.PodFacts{}
	for _, uid := range slices.Compact(slices.Sorted(slices.Values(uids))) {
		for _, arn := range m.byUID[uid] {
			if e := m.tasks[arn]; !e.double {
				out = append(out, facts(e))
			}
		}
	}
	return inOrder(out)
}

func inOrder(out []backend.PodFacts) []backend.PodFacts {
	slices.SortFunc(out, func(a, b backend.PodFacts) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.UID, b.UID), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// Handle is what must be known of a task to stop or remove it.
type Handle struct {
	ARN string
	// Live is true while it may run, Stopping once ECS was asked to stop it, Missing while
	// ECS does not know it.
	Live, Stopping, Missing bool
}

// Find returns the tasks of an attempt; more than one only if its token was used
// again after ECS had forgotten it.
func (m *Known) Find(ref backend.Ref) []Handle {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Handle
	for _, arn := range m.byUID[ref.UID] {
		if e := m.tasks[arn]; e.id.Attempt == ref.Attempt {
			out = append(out, Handle{arn, e.facts.Live, e.stopping, !e.missing.IsZero()})
		}
	}
	return out
}

// OutcomeUnknown notes a launch that may or may not have made a task.
func (m *Known) OutcomeUnknown(k identity.Key, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unresolved[k] = now
}

// Pending is true while a launch may still appear: until a listing that began when
// it must have shown was read.
func (m *Known) Pending(k identity.Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, open := m.unresolved[k]
	return open
}

// Certain is true if what is not known here does not exist: all was listed when
// nothing that another process launched could still be too new to show.
func (m *Known) Certain(k identity.Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, open := m.unresolved[k]; open || m.listFrom.IsZero() {
		return false
	}
	_, removed := m.removedKey[k]
	return removed || !m.listFrom.Before(m.born.Add(m.settle))
}

// IsListed is true once a complete listing was read.
func (m *Known) IsListed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.listFrom.IsZero()
}

// LiveIdentity is that of the task of an attempt while it is live.
func (m *Known) LiveIdentity(ref backend.Ref) (identity.Task, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, arn := range m.byUID[ref.UID] {
		if e := m.tasks[arn]; e.id.Attempt == ref.Attempt && e.facts.Live {
			return e.id, true
		}
	}
	return identity.Task{}, false
}
