// Package podsource turns "something about this key changed" into a stream of
// changes by UID. It reads the informer's store, compares with what it last
// handed on, and so sees what a keyed hand-off hides: a pod deleted and made
// again under its name is a REMOVE of one UID and an ADD of another, and a
// delete lost in a watch gap shows at the next comparison.
package podsource

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// Op is a kind of change, in the kubelet's words.
type Op int

// ADD is a UID not seen before, UPDATE a changed spec or metadata, DELETE a
// deletionTimestamp or a shorter grace, REMOVE a UID that is gone from the API,
// RECONCILE a change of status alone.
const (
	Add Op = iota
	Update
	Delete
	Remove
	Reconcile
)

func (o Op) String() string {
	return [...]string{"ADD", "UPDATE", "DELETE", "REMOVE", "RECONCILE"}[o]
}

// Change is one change of one UID. Pod is read-only; for REMOVE it is the last
// one seen.
type Change struct {
	Op  Op
	Pod *corev1.Pod
}

// Store is the part of an informer's store that is read: keys are
// namespace/name, items *corev1.Pod.
type Store interface {
	ListKeys() []string
	GetByKey(key string) (item any, exists bool, err error)
}

// Source compares the store with what was last handed on. Enqueue may be called
// from anywhere; Take from one goroutine.
type Source struct {
	store  Store
	synced func() bool

	mu     sync.Mutex
	dirty  map[string]struct{}
	all    bool
	signal chan struct{}

	// known is what was last handed on; only Take uses it.
	known map[string]*corev1.Pod
}

// New returns a source over an informer's store. synced says whether the store
// has had its first complete listing.
func New(store Store, synced func() bool) *Source {
	return &Source{
		store: store, synced: synced, all: true,
		dirty: map[string]struct{}{}, known: map[string]*corev1.Pod{},
		signal: make(chan struct{}, 1),
	}
}

// Synced is true once the store had its first complete listing, and static pods are
// known.
func (s *Source) Synced() bool {
	static, is := s.store.(*Static)
	return s.synced() && (!is || static.Known())
}

// Ended says that nothing is left of a pod that was removed: another may come under its
// name.
func (s *Source) Ended(key string, uid types.UID) {
	if static, is := s.store.(*Static); is {
		static.Ended(key, uid)
		s.Enqueue(key)
	}
}

// Enqueue has the pod under key (namespace/name) compared: it may have changed.
func (s *Source) Enqueue(key string) {
	s.mu.Lock()
	s.dirty[key] = struct{}{}
	s.mu.Unlock()
	s.wake()
}

// EnqueueAll has every key compared, as after the first sync.
func (s *Source) EnqueueAll() {
	s.mu.Lock()
	s.all = true
	s.mu.Unlock()
	s.wake()
}

func (s *Source) wake() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// Changed receives when Take has something to compare.
func (s *Source) Changed() <-chan struct{} { return s.signal }

// Take compares the touched keys with the store and returns what changed:
// removals first, then the rest in order of creation, so that a node that
// starts handles pods as they came. Before the first sync it returns static pods alone.
func (s *Source) Take() []Change {
	var changes []Change
	for _, key := range s.takeKeys() {
		changes = append(changes, s.compare(key)...)
	}
	slices.SortStableFunc(changes, func(a, b Change) int {
		if (a.Op == Remove) != (b.Op == Remove) {
			if a.Op == Remove {
				return -1
			}
			return 1
		}
		return cmp.Or(a.Pod.CreationTimestamp.Compare(b.Pod.CreationTimestamp.Time),
			cmp.Compare(a.Pod.UID, b.Pod.UID))
	})
	return changes
}

func (s *Source) takeKeys() []string {
	if !s.synced() {
		if static, is := s.store.(*Static); is {
			return slices.AppendSeq(static.StaticKeys(), maps.Keys(s.known))
		}
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all {
		for _, key := range s.store.ListKeys() {
			s.dirty[key] = struct{}{}
		}
		for key := range s.known {
			s.dirty[key] = struct{}{}
		}
		s.all = false
	}
	keys := make([]string, 0, len(s.dirty))
	for key := range s.dirty {
		keys = append(keys, key)
	}
	clear(s.dirty)
	return keys
}

func (s *Source) compare(key string) []Change {
	old := s.known[key]
	var now *corev1.Pod
	// An informer's store never returns an error for a key.
	if item, ok, err := s.store.GetByKey(key); err == nil && ok {
		now, _ = item.(*corev1.Pod)
	}
	if now == nil {
		if old == nil {
			return nil
		}
		delete(s.known, key)
		return []Change{{Remove, old}}
	}
	s.known[key] = now
	switch {
	case old == nil:
		return []Change{{Add, now}}
	case old.UID != now.UID:
		return []Change{{Remove, old}, {Add, now}}
	case old == now || old.ResourceVersion == now.ResourceVersion && now.ResourceVersion != "":
		return nil
	}
	return []Change{{kind(old, now), now}}
}

// kind tells which part of one UID changed.
func kind(old, now *corev1.Pod) Op {
	switch {
	case now.DeletionTimestamp != nil &&
		(old.DeletionTimestamp == nil || grace(now) != grace(old)):
		return Delete
	case old.Generation != now.Generation, !equality.Semantic.DeepEqual(old.Spec, now.Spec),
		!equality.Semantic.DeepEqual(old.Labels, now.Labels),
		!equality.Semantic.DeepEqual(old.Annotations, now.Annotations):
		return Update
	}
	return Reconcile
}

func grace(pod *corev1.Pod) int64 {
	if pod.DeletionGracePeriodSeconds == nil {
		return -1
	}
	return *pod.DeletionGracePeriodSeconds
}
