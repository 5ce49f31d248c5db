package statusmgr

import (
	"errors"
	"sync"
	"time"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	defaultWriters     = 32
	defaultCallTimeout = 15 * time.Second
)

// Safety tells what the engine knows of a pod's containers (the kubelet's
// PodDeletionSafetyProvider). It is called without any lock of the Manager held
// and must not block on the network.
type Safety interface {
	// CouldHaveRunningContainers is true until it is certain that no container
	// of the pod runs or can ever start again. For an unknown pod it is the
	// engine's choice; false lets the pod finish and be deleted.
	CouldHaveRunningContainers(uid types.UID) bool
}

// SafetyFunc is a Safety made of a function.
type SafetyFunc func(uid types.UID) bool

// CouldHaveRunningContainers calls f.
func (f SafetyFunc) CouldHaveRunningContainers(uid types.UID) bool { return f(uid) }

// Config is what a Manager needs. Client and Safety are required: without them
// Run and Flush return an error.
type Config struct {
	// Client reaches the pods; only List, Patch and Delete are called.
	// kubernetes.Interface.CoreV1() is one.
	Client corev1client.PodsGetter
	Safety Safety
	// Writers bounds how many pods are written at once. Default 32.
	Writers int
	// CallTimeout bounds one API call. Default 15 s.
	CallTimeout time.Duration
	// Registerer takes the metrics; nil registers them nowhere.
	Registerer prometheus.Registerer
}

// Manager brings the statuses that the engine wants into the API. All methods
// are safe for concurrent use, and none but Run and Flush waits for the API.
type Manager struct {
	client  corev1client.PodsGetter
	safety  Safety
	timeout time.Duration
	slots   chan struct{} // one token per running writer, over all drivers
	metrics *metrics
	invalid error // of the Config, returned by Run and Flush

	mu      sync.Mutex
	entries map[types.UID]*entry
	holders map[types.NamespacedName]types.UID // the UID the API holds under a name
	queue   queue
	dirty   map[types.UID]struct{} // something may be left to write
	stuck   map[types.UID]struct{} // the API refuses it, only a change can help
	wakers  map[chan struct{}]struct{}

	forgotten recent // UIDs whose late statuses are ignored
	reclaimed recent // reclaimed before anything else was heard of the pod
}

// entry is one pod. Only Manager's methods touch it, under its lock. The
// objects it points to are never changed, so that a writer may read them
// without the lock.
type entry struct {
	uid  types.UID
	name types.NamespacedName
	// api is the newest object of the API that was seen; never nil.
	api *corev1.Pod
	// want is the prepared status; nil until the engine gave one.
	want    *corev1.PodStatus
	version uint64    // of want
	since   time.Time // of the first version not in the API yet; zero if none
	calm    time.Time // of the first version that waits for a better one; zero if none

	// written is the last version that a look brought into the API; rewrites
	// counts the writes of that version after its first, the last at lastWrite.
	written   uint64
	rewrites  int
	lastWrite time.Time

	reclaimed bool // PodResourcesAreReclaimed
	heldBack  bool // the last look kept the phase or the delete back
	deleted   bool // the API accepted our delete
	failures  int  // in a row
	retryAt   time.Time
}

// New returns a Manager. It starts nothing; see [Manager.Run].
func New(cfg Config) *Manager {
	if cfg.Writers <= 0 {
		cfg.Writers = defaultWriters
	}
	if cfg.CallTimeout <= 0 {
		cfg.CallTimeout = defaultCallTimeout
	}
	metrics, err := newMetrics(cfg.Registerer)
	if cfg.Client == nil {
		err = errors.Join(err, errors.New("status manager: no client"))
	}
	if cfg.Safety == nil {
		err = errors.Join(err, errors.New("status manager: no safety provider"))
	}
	m := &Manager{
		client:    cfg.Client,
		safety:    cfg.Safety,
		timeout:   cfg.CallTimeout,
		slots:     make(chan struct{}, cfg.Writers),
		metrics:   metrics,
		invalid:   err,
		entries:   make(map[types.UID]*entry),
		holders:   make(map[types.NamespacedName]types.UID),
		queue:     newQueue(),
		dirty:     make(map[types.UID]struct{}),
		stuck:     make(map[types.UID]struct{}),
		wakers:    make(map[chan struct{}]struct{}),
		forgotten: newRecent(),
		reclaimed: newRecent(),
	}
	m.metrics.backlog.add(m)
	return m
}

// SetStatus says what the pod's status is now. pod is an object of the API, as
// the engine last saw it; its own status is what the API held at that time.
// The newest status replaces one that was not written yet. A status in which a
// terminated container comes back against its restart policy is refused with a
// logged error, and the one before stays. A status for a pod that was forgotten,
// or whose name belongs to another UID, is ignored. pod may be kept and must not
// be changed afterwards; status is copied.
func (m *Manager) SetStatus(pod *corev1.Pod, status corev1.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.forgotten.has(pod.UID) {
		return
	}
	e, advanced := m.claim(pod, false)
	if e == nil {
		return
	}
	before := e.want
	if before == nil {
		before = binding(e.api)
	}
	now := time.Now()
	want, err := prepare(pod, before, &status, now)
	if err != nil {
		m.metrics.writes.WithLabelValues(resultRefused).Inc()
		log.L.WithFields(fields(e)).WithError(err).Error("pod status refused")
		return
	}
	if e.want == nil || !equality.Semantic.DeepEqual(e.want, want) {
		e.want = want
		e.version++
		if e.since.IsZero() {
			e.since = now
		}
	} else if _, looking := m.queue.busy[e.uid]; !advanced && !e.heldBack && !looking {
		// A look under way may have asked the engine before this status: what it is
		// about to hold back must be looked at again.
		return
	}
	m.plan(e, now)
}

// Reclaimed says that nothing of the pod is left on the remote: containers,
// volumes and cgroups are gone (the kubelet's PodResourcesAreReclaimed). The pod
// is deleted from the API as soon as it has a deletionTimestamp and a terminal
// phase there, in whatever order these come.
func (m *Manager) Reclaimed(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.forgotten.has(uid) {
		return
	}
	e := m.entries[uid]
	if e == nil {
		m.reclaimed.add(uid, time.Now())
		return
	}
	e.reclaimed = true
	m.mark(e)
}

// Observe hands on what the API holds now: every add and update of an informer,
// in its order. What differs from the wanted status is written again, at once
// the first time if it matters; somebody who changes it back each time slows that down. A pod
// under the name of an older one ends the older one's state. pod is kept and
// must not be changed afterwards.
func (m *Manager) Observe(pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgotten.take(pod.UID)
	e, advanced := m.claim(pod, true)
	if e == nil || !advanced {
		return
	}
	now := time.Now()
	switch at := e.lastWrite.Add(rewriteDelay(e.rewrites)); {
	case e.reclaimed && pod.DeletionTimestamp != nil:
		m.mark(e)
	case e.want == nil:
	case e.written == e.version && at.After(now):
		m.dirty[e.uid] = struct{}{}
		m.queue.addAt(e.uid, at)
		m.wake()
	default:
		m.plan(e, now)
	}
}

// Forget drops everything about a pod that is gone from the API. Statuses that
// are still set for it are ignored.
func (m *Manager) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgotten.add(uid, time.Now())
	m.reclaimed.take(uid)
	if e := m.entries[uid]; e != nil {
		m.drop(e)
	}
}

// Status returns the latest wanted status laid over what the API holds: what
// the API will show once no container can run and the write is through. It is
// the caller's own copy; false means that no status was set.
func (m *Manager) Status(uid types.UID) (corev1.PodStatus, bool) {
	m.mu.Lock()
	e := m.entries[uid]
	if e == nil || e.want == nil {
		m.mu.Unlock()
		return corev1.PodStatus{}, false
	}
	held, want := binding(e.api), e.want
	m.mu.Unlock()
	merged, _ := merge(held, want, false, time.Now())
	return *merged.DeepCopy(), true
}

// claim finds or makes the pod's entry and lets it learn the object; advanced
// says that the object is newer than what was known. observed tells an object
// straight from the API's watch from one that the engine carried around. It
// returns nil if the name belongs to another pod by now.
func (m *Manager) claim(pod *corev1.Pod, observed bool) (e *entry, advanced bool) {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if uid, ok := m.holders[name]; ok && uid != pod.UID {
		holder := m.entries[uid]
		age, known := compareVersions(pod, holder.api)
		if (known && age <= 0) || (!known && !observed) {
			return nil, false
		}
		m.forgotten.add(uid, time.Now())
		m.drop(holder)
	}
	if e = m.entries[pod.UID]; e == nil {
		e = &entry{uid: pod.UID, name: name, api: pod, reclaimed: m.reclaimed.take(pod.UID)}
		m.entries[pod.UID] = e
		m.holders[name] = pod.UID
		return e, true
	}
	age, known := compareVersions(pod, e.api)
	switch {
	case known && age > 0, !known && observed:
		e.hold(pod)
		return e, true
	case known && age == 0 && observed:
		e.hold(pod) // the informer's copy, so that ours can be freed
	}
	return e, false
}

// hold takes a newer object of the API.
func (e *entry) hold(pod *corev1.Pod) {
	shared := e.want == &e.api.Status
	e.api = pod
	if shared && !e.share() {
		e.want = e.want.DeepCopy() // so that the object before can be freed
	}
}

// share lets the wanted status be the API object's own where they are equal: that
// of a pod that nothing happens to is in memory once.
func (e *entry) share() bool {
	if e.want == nil || !equality.Semantic.DeepEqual(e.want, &e.api.Status) {
		return false
	}
	e.want = &e.api.Status
	return true
}

// mark has the pod looked at: at once, or when its backoff has passed.
func (m *Manager) mark(e *entry) {
	m.dirty[e.uid] = struct{}{}
	_, stuck := m.stuck[e.uid]
	delete(m.stuck, e.uid)
	if e.failures > 0 && !stuck && e.retryAt.After(time.Now()) {
		m.queue.addAt(e.uid, e.retryAt)
	} else {
		m.queue.add(e.uid)
	}
	m.wake()
}

// plan has a pod with a new status looked at: at once, or when that has waited
// long enough for one that somebody acts on.
func (m *Manager) plan(e *entry, now time.Time) {
	wait := patience(&e.api.Status, e.want)
	if wait == 0 || e.heldBack || e.reclaimed {
		m.mark(e)
		return
	}
	if e.calm.IsZero() {
		e.calm = now
	}
	at := e.calm.Add(wait)
	if e.failures > 0 && e.retryAt.After(at) {
		at = e.retryAt
	}
	m.dirty[e.uid] = struct{}{}
	delete(m.stuck, e.uid)
	m.queue.addAt(e.uid, at)
	m.wake()
}

// drop ends the entry. A writer that holds it finds that out when it is done.
func (m *Manager) drop(e *entry) {
	delete(m.entries, e.uid)
	delete(m.dirty, e.uid)
	delete(m.stuck, e.uid)
	if m.holders[e.name] == e.uid {
		delete(m.holders, e.name)
	}
	m.queue.forget(e.uid)
	m.wake()
}

func (m *Manager) wake() {
	for w := range m.wakers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

func fields(e *entry) log.Fields {
	return log.Fields{"pod": e.name.String(), "uid": string(e.uid)}
}
