package ecs

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// key names an attempt of a pod.
type key struct {
	uid     types.UID
	attempt int
}

func keyOf(r backend.Ref) key { return key{r.UID, r.Attempt} }

// entry is a task that is known.
type entry struct {
	id      identity
	facts   backend.PodFacts
	version int64
	// partial is true while only a repeated RunTask told of the task, which says
	// neither when it was made nor what became of its containers.
	partial bool
	// stopping is true once ECS was asked to stop it, by whomever.
	stopping bool
	// missing is since when ECS calls it missing; zero while it does not.
	missing time.Time
}

// memory is what ECS cannot list: tasks that stop or have stopped, tasks too new
// to show, launches whose outcome is not known. It is a cache of the remote: what
// a new process cannot recover is in the package comment.
type memory struct {
	settle time.Duration
	born   time.Time

	mu    sync.Mutex
	tasks map[string]*entry // by ARN
	// byUID are the ARNs of each pod.
	byUID map[types.UID][]string
	// removed are tasks and attempts that Remove has done with, and when.
	removed    map[string]time.Time
	removedKey map[key]time.Time
	// foreign are tasks under our name that are not ours to touch.
	foreign map[string]bool
	// unresolved are launches whose outcome is not known, and since when.
	unresolved map[key]time.Time
	// swept is true once a complete listing has been read.
	swept bool
}

// removedMemory is how long a removed task is remembered: longer than ECS
// remembers stopped tasks.
const removedMemory = 2 * time.Hour

func newMemory(settle time.Duration) *memory {
	return &memory{
		settle: settle, born: time.Now(),
		tasks: map[string]*entry{}, byUID: map[types.UID][]string{},
		removed: map[string]time.Time{}, removedKey: map[key]time.Time{},
		foreign: map[string]bool{}, unresolved: map[key]time.Time{},
	}
}

// launched notes the outcome of a launch. It was asked for, so it is known again
// even if it had been removed.
func (m *memory) launched(o *observation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ref := o.id.ref(*o.task.TaskArn)
	delete(m.removed, ref.ID)
	delete(m.removedKey, keyOf(ref))
	delete(m.unresolved, keyOf(ref))
	m.observe(o)
}

// observed notes what ECS said of a task, unless it was removed meanwhile.
func (m *memory) observed(o *observation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, gone := m.removed[*o.task.TaskArn]; !gone {
		m.observe(o)
	}
}

// observe replaces the facts of a task unless newer ones are known: answers may
// overtake each other (ECS API, Task: version).
func (m *memory) observe(o *observation) {
	arn := *o.task.TaskArn
	e := m.tasks[arn]
	if e == nil {
		e = &entry{id: o.id}
		m.tasks[arn] = e
		m.byUID[o.id.UID] = append(m.byUID[o.id.UID], arn)
		delete(m.unresolved, key{o.id.UID, o.id.Attempt})
	} else if o.task.Version < e.version {
		return
	}
	if !e.partial {
		o.before = e.facts
	}
	if e.partial = len(o.task.Containers) == 0; e.partial {
		o.task.LastStatus = nil // live until it is read whole
	}
	e.facts, e.version, e.missing = o.facts(), o.task.Version, time.Time{}
	e.stopping = !e.partial && (e.stopping || o.ending())
}

// identity is that of a task that is known.
func (m *memory) identity(arn string) (identity, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.tasks[arn]; e != nil {
		return e.id, true
	}
	return identity{}, false
}

// missed notes that ECS calls a task missing. A new task may be for a while, and
// keeps its facts; one that has been missing for the settle time is forgotten.
func (m *memory) missed(arn string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.tasks[arn]
	switch {
	case e == nil || !e.facts.Live:
	case e.missing.IsZero():
		e.missing = now
	case now.Sub(e.missing) >= m.settle:
		m.drop(arn)
	}
}

func (m *memory) drop(arn string) {
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

// remove forgets a task that has stopped.
func (m *memory) remove(arn string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.tasks[arn]; e != nil {
		m.drop(arn)
		m.removed[arn] = now
		m.removedKey[key{e.id.UID, e.id.Attempt}] = now
	}
}

// ignore marks a task that is under our name but not ours to touch; it is true
// the first time.
func (m *memory) ignore(arn string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := !m.foreign[arn]
	m.foreign[arn] = true
	return first
}

// toDescribe are those of the ARNs, and with all set of all tasks known, of which
// something new may be learnt: what has stopped does not change any more.
func (m *memory) toDescribe(arns []string, all bool) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	want := map[string]bool{}
	for _, arn := range arns {
		_, gone := m.removed[arn]
		want[arn] = !gone && !m.foreign[arn]
	}
	for arn, e := range m.tasks {
		if !e.facts.Live {
			want[arn] = false
		} else if all {
			want[arn] = true
		}
	}
	var out []string
	for arn, yes := range want {
		if yes {
			out = append(out, arn)
		}
	}
	slices.Sort(out)
	return out
}

// known are the facts of all tasks, or of those of the pods named, in order.
func (m *memory) known(uids []types.UID, all bool) []backend.PodFacts {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []backend.PodFacts{}
	add := func(arn string) {
		f := m.tasks[arn].facts
		f.IPs, f.HostIPs, f.Containers = slices.Clone(f.IPs), slices.Clone(f.HostIPs), slices.Clone(f.Containers)
		out = append(out, f)
	}
	if all {
		for arn := range m.tasks {
			add(arn)
		}
	}
	for _, uid := range slices.Compact(slices.Sorted(slices.Values(uids))) {
		for _, arn := range m.byUID[uid] {
			add(arn)
		}
	}
	slices.SortFunc(out, func(a, b backend.PodFacts) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.UID, b.UID), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// arns are the tasks of some pods.
func (m *memory) arns(uids []types.UID) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, uid := range uids {
		out = append(out, m.byUID[uid]...)
	}
	return out
}

// handle is what Stop and Remove need to know of a task.
type handle struct {
	arn            string
	live, stopping bool
}

// find returns the tasks of an attempt; more than one only if its token was used
// again after ECS had forgotten it.
func (m *memory) find(ref backend.Ref) []handle {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []handle
	for _, arn := range m.byUID[ref.UID] {
		if e := m.tasks[arn]; e.id.Attempt == ref.Attempt {
			out = append(out, handle{arn, e.facts.Live, e.stopping})
		}
	}
	return out
}

// unknownOutcome notes a launch that may or may not have made a task.
func (m *memory) unknownOutcome(k key, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unresolved[k] = now
}

// refused notes that a launch made nothing, then or before: a token that had been
// used would have returned its task.
func (m *memory) refused(k key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.unresolved, k)
}

// pending is true while a launch may still appear.
func (m *memory) pending(k key, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	since, ok := m.unresolved[k]
	if ok && now.Sub(since) >= m.settle {
		delete(m.unresolved, k)
		return false
	}
	return ok
}

// certain is true if what is not known here does not exist: all was listed, and
// nothing that another process launched can still be too new to show.
func (m *memory) certain(k key, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, open := m.unresolved[k]; open || !m.swept {
		return false
	}
	_, removed := m.removedKey[k]
	return removed || now.Sub(m.born) >= m.settle
}

// listed notes a complete listing and drops what is too old to matter.
func (m *memory) listed(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.swept = true
	for arn, at := range m.removed {
		if now.Sub(at) >= removedMemory {
			delete(m.removed, arn)
		}
	}
	for k, at := range m.removedKey {
		if now.Sub(at) >= removedMemory {
			delete(m.removedKey, k)
		}
	}
}

func (m *memory) isSwept() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.swept
}
