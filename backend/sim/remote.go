package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/pause"
	"github.com/burstlet/burstlet/backend/sim/filesystem"
)

// evictGrace is what the containers of an evicted pod get.
const evictGrace = 2 * time.Second

// Remote is the simulated far side: what it holds outlives every Backend. It is
// safe for concurrent use.
type Remote struct {
	cfg Config

	mu sync.Mutex
	// pods are the attempts of each UID in the order of launching.
	pods map[types.UID][]*attempt
	// order has all attempts in the order of launching, so that listings and
	// simulations are repeatable; gone ones are nil until compacted.
	order []*attempt
	index map[*attempt]int
	holes int
	// leaving are removed attempts that are still being torn down.
	leaving []*attempt
	// maxPods is how many live attempts have room; 0 is no limit.
	maxPods int
	serial  int
	ips     addresses
	images  map[string]string
	// pullRecords are what nodes keep of who pulled images, by node.
	pullRecords map[string][]byte
	volumes     map[volumeKey]map[string]*filesystem.Volume
	queues      map[portKey]*queue
	// evicted are the pods that the remote ends by itself; nobody changes what it points to.
	evicted map[types.UID]*backend.Eviction
	hints   map[*hintQueue]struct{}
	audit   recorder
	// squeeze changes what the host has left; nil: nothing does.
	squeeze  func(*backend.SignalFacts)
	shutdown hostShutdown
	ooms     hostOOMs
	// began is when the host did, spent the CPU time of what is gone, by node.
	began time.Time
	spent map[string]uint64
}

// New makes an empty remote.
func New(cfg Config) *Remote {
	r := &Remote{
		cfg:     cfg.withDefaults(),
		pods:    map[types.UID][]*attempt{},
		index:   map[*attempt]int{},
		maxPods: cfg.MaxPods,
		images:  map[string]string{},
		volumes: map[volumeKey]map[string]*filesystem.Volume{},
		queues:  map[portKey]*queue{},
		evicted: map[types.UID]*backend.Eviction{},
		hints:   map[*hintQueue]struct{}{},
		audit:   newRecorder(cfg.Record),
		began:   time.Now(),

		shutdown: hostShutdown{changed: make(chan struct{})},
		ooms:     hostOOMs{more: make(chan struct{})},
		spent:    map[string]uint64{},
	}
	for _, image := range cfg.Images {
		r.images[normalize(image)] = imageID(image)
	}
	return r
}

// Backend connects one engine to the remote as the node that Config names.
func (r *Remote) Backend() backend.Backend { return r.BackendFor(r.cfg.Node) }

// BackendFor connects the engine of another node: it sees and touches only the
// pods that it launched itself.
func (r *Remote) BackendFor(node string) backend.Backend {
	v := &view{Remote: r, node: node}
	b := backend.Backend{
		Name:    "sim",
		Pods:    podsView{v},
		Exec:    execView{v},
		Attach:  attachView{v},
		Logs:    logsView{v},
		Dial:    dialView{v},
		Forward: forwardView{v},
		Stats:   statsView{v},
		Node:    nodeView{v},
		Check:   backend.CheckFunc(acceptAll),
		Limits:  r.limits(),
	}
	if !r.cfg.PodUnit {
		b.Containers = containersView{v}
		b.Resize = resizeView{v}
		b.Images, b.Store, b.PullRecords = imagesView{v}, storeView{v}, pullRecordsView{v}
		b.Signals, b.Shutdown, b.SystemOOMs = signalsView{v}, shutdownView{v}, oomsView{v}
	}
	if !r.cfg.PodUnit || r.cfg.Files {
		b.Files = filesView{v}
	}
	if !r.cfg.NoEvents {
		b.Events = eventsView{v}
	}
	return b
}

func (r *Remote) limits() backend.Limits {
	l := backend.Limits{
		Runtime:    "sim",
		Settle:     r.cfg.Latency.API,
		Call:       30*time.Second + r.cfg.Latency.API + r.cfg.Latency.Launch + r.cfg.Latency.Start,
		Pull:       time.Minute + r.cfg.Latency.Pull,
		Relist:     10 * time.Second,
		Supervised: r.cfg.PodUnit && r.cfg.Health,
	}
	if r.cfg.NoEvents {
		l.Relist = time.Second
	}
	return l
}

// SetMaxPods changes how many live attempts have room; 0 is no limit. What is
// there stays.
func (r *Remote) SetMaxPods(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.maxPods = n
}

// Vanish removes every attempt of a pod at once and without a trace, as if
// somebody had deleted it on the remote behind the engine's back. It is false
// when there was none.
func (r *Remote) Vanish(uid types.UID) bool {
	now := r.lock()
	defer r.mu.Unlock()
	attempts := append([]*attempt(nil), r.pods[uid]...)
	for _, a := range attempts {
		a.gone = now
		r.notify(a, now)
		r.drop(a)
		r.audit.add(Event{At: now, Kind: Vanished, Pod: a.ref})
	}
	return len(attempts) > 0
}

// KillSandbox kills the sandbox of a pod's live attempt and leaves its containers
// running, as somebody may do on the remote. It is false when there was none, or
// where the pod is the unit.
func (r *Remote) KillSandbox(uid types.UID) bool {
	now := r.lock()
	defer r.mu.Unlock()
	killed := false
	for _, a := range r.pods[uid] {
		if r.cfg.PodUnit || !a.live(now) || reached(a.broken, now) || !reached(a.ready, now) {
			continue
		}
		a.broken, killed = now, true
		r.notify(a, now)
		r.audit.add(Event{At: now, Kind: SandboxKilled, Pod: a.ref})
	}
	return killed
}

// Evict records that a pod is evicted and stops the containers that run in it, as the pods'
// host does while nobody is connected. It is false when none runs, or where the pod is the
// unit.
func (r *Remote) Evict(uid types.UID, e backend.Eviction) bool {
	now := r.lock()
	defer r.mu.Unlock()
	found := false
	for _, a := range r.pods[uid] {
		if r.cfg.PodUnit || !a.anyRuns(now) {
			continue
		}
		r.evicted[uid], found = &e, true
		for _, c := range a.containers {
			if c.runs(a, now) {
				c.stop.lodge(now, evictGrace)
			}
		}
		r.project(a, now)
	}
	return found
}

// lock takes the mutex, forgets what is gone by now, and returns now.
func (r *Remote) lock() time.Time {
	r.mu.Lock()
	now := time.Now()
	for len(r.leaving) > 0 && r.leaving[0].isGone(now) {
		r.drop(r.leaving[0])
		r.leaving[0] = nil
		r.leaving = r.leaving[1:]
	}
	return now
}

// find returns an attempt that is there now.
func (r *Remote) find(node string, ref backend.Ref, now time.Time) *attempt {
	for _, a := range r.pods[ref.UID] {
		if a.is(node, ref) && !a.isGone(now) {
			return a
		}
	}
	return nil
}

// insert adds a new attempt.
func (r *Remote) insert(a *attempt) {
	uid := a.ref.UID
	r.pods[uid] = append(r.pods[uid], a)
	r.index[a] = len(r.order)
	r.order = append(r.order, a)
}

// drop forgets an attempt for good and frees its address.
func (r *Remote) drop(a *attempt) {
	i, ok := r.index[a]
	if !ok {
		return
	}
	delete(r.index, a)
	r.spent[a.node] += a.spent(a.gone)
	r.order[i] = nil
	r.holes++
	rest := make([]*attempt, 0, len(r.pods[a.ref.UID]))
	for _, other := range r.pods[a.ref.UID] {
		if other != a {
			rest = append(rest, other)
		}
	}
	r.pods[a.ref.UID] = rest
	if len(rest) == 0 {
		delete(r.pods, a.ref.UID)
		delete(r.evicted, a.ref.UID)
	}
	r.ips.release(a.release)
	if r.holes > 64 && r.holes > len(r.order)/2 {
		r.compact()
	}
}

func (r *Remote) compact() {
	kept := make([]*attempt, 0, len(r.order)-r.holes)
	for _, a := range r.order {
		if a != nil {
			r.index[a] = len(kept)
			kept = append(kept, a)
		}
	}
	r.order, r.holes = kept, 0
}

// live counts the attempts that hold room now.
func (r *Remote) live(now time.Time) int {
	n := 0
	for _, a := range r.order {
		if a != nil && a.live(now) {
			n++
		}
	}
	return n
}

// project computes an attempt's future anew after a change.
func (r *Remote) project(a *attempt, now time.Time) {
	if r.cfg.PodUnit {
		a.projectPod(r.cfg.Latency)
	} else {
		a.projectContainers(r.cfg.Latency)
	}
	r.notify(a, now)
}

// notify wakes followers and hint queues: an attempt changed now.
func (r *Remote) notify(a *attempt, now time.Time) {
	a.wake()
	for q := range r.hints {
		q.schedule(a, now)
		q.signal()
	}
}

// newID makes an id like a runtime's, the same in every run of a simulation.
func (r *Remote) newID(parts ...any) string {
	r.serial++
	sum := sha256.Sum256(fmt.Append(nil, append(parts, r.serial)...))
	return hex.EncodeToString(sum[:])
}

// addresses hands out the pods' addresses, each to one pod at a time.
type addresses struct {
	next int
	free []string
}

const (
	subnet   = "10.88.%d.%d"
	poolSize = 1 << 16
)

// take returns a free address; false when all are in use.
func (p *addresses) take() (string, bool) {
	for p.next < poolSize {
		hi, lo := p.next>>8, p.next&0xff
		p.next++
		if lo != 0 && lo != 0xff {
			return fmt.Sprintf(subnet, hi, lo), true
		}
	}
	if len(p.free) == 0 {
		return "", false
	}
	ip := p.free[0]
	p.free = p.free[1:]
	return ip, true
}

func (p *addresses) release(ip string) {
	if ip != "" {
		p.free = append(p.free, ip)
	}
}

// view is one engine's connection.
type view struct {
	*Remote
	node string
}

// request is the way to the remote, reply the way back. An error of request
// means that the call had no effect; after an error of reply it had.
func (v *view) request(ctx context.Context, op string) error {
	return wait(ctx, v.cfg.Latency.API/2, op)
}

func (v *view) reply(ctx context.Context, op string) error {
	return wait(ctx, v.cfg.Latency.API-v.cfg.Latency.API/2, op)
}

// wait passes time; a context that ends is a transport that breaks.
func wait(ctx context.Context, d time.Duration, op string) error {
	if err := pause.For(ctx, d); err != nil {
		return backend.Errorf(backend.ErrUnavailable, "%s: %w", op, err)
	}
	return nil
}
