package prober

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/prober/check"
)

// Config is what a Manager needs. Exec and Dial may be nil: probes that need
// them stay Unknown.
type Config struct {
	Exec backend.Exec
	Dial backend.Dialer
	// Reach asks the remote about a pod; an error within its context's time means that
	// the remote was heard. It is called after a probe without an answer, to tell a
	// container that hangs from a remote that is cut off; nil: all is the container's.
	Reach func(context.Context, types.UID) error
	// Linked says that the way to the remote may be away while the containers are well.
	Linked bool
	// Changed is told at once of a pod with an outcome that changed. It is called
	// from a probe's goroutine and must not block; nil is nobody.
	Changed func(types.UID)
	// Event tells users about a pod: kind is corev1.EventTypeWarning, reason the
	// kubelet's. It must not block; nil is nobody.
	Event func(pod *corev1.Pod, container, kind, reason, message string)
	// Metrics count the probes; nil counts nothing.
	Metrics *Metrics
}

// Manager runs the probes of a node's pods. All methods may be called at any
// time from any goroutine.
type Manager struct {
	cfg   Config
	check *check.Checker
	// started tells containers that an earlier process left running.
	started time.Time
	running sync.WaitGroup

	mu   sync.Mutex
	pods map[types.UID]*podProbes
}

// podProbes is what is known of one pod, guarded by Manager.mu.
type podProbes struct {
	pod    *corev1.Pod
	probes map[Key]*probe
	// round counts Set calls: a probe with another round was not named.
	round  uint64
	series map[series]struct{}
}

// probe is one probe of one container, guarded by Manager.mu.
type probe struct {
	target Target
	result Result
	round  uint64
	// cancel ends the goroutine; nil while none runs.
	cancel context.CancelFunc
	// done is true when there is nothing more to find out.
	done bool
	// last was found run times in a row.
	last Outcome
	run  int
}

// New returns a Manager that probes nothing yet.
func New(cfg Config) *Manager {
	return &Manager{
		cfg: cfg, check: check.New(cfg.Exec, cfg.Dial), started: time.Now(),
		pods: map[types.UID]*podProbes{},
	}
}

// Set makes exactly these probes of a pod run until ctx ends, the engine's own.
// A probe that runs already goes on undisturbed and uses the new target from its
// next time on. A probe that is no longer named ends; its result stays as long as
// any probe of the same container is named. A startup probe is to be named as long
// as its container runs: it stops by itself.
func (m *Manager) Set(ctx context.Context, pod *corev1.Pod, targets []Target) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[pod.UID]
	if p == nil {
		if len(targets) == 0 {
			return
		}
		p = &podProbes{probes: make(map[Key]*probe, len(targets))}
		m.pods[pod.UID] = p
	}
	p.pod = pod
	p.round++
	named := 0
	for i := range targets {
		known := p.probes[targets[i].Key]
		if known == nil {
			known = &probe{}
			m.start(ctx, p, known, targets[i])
		} else if known.target = targets[i]; known.cancel == nil && !known.done {
			m.start(ctx, p, known, targets[i])
		}
		if known.round != p.round {
			known.round = p.round
			named++
		}
	}
	if named < len(p.probes) {
		p.dropUnnamed()
	}
}

// start begins a probe, or says why it never will.
func (m *Manager) start(ctx context.Context, p *podProbes, b *probe, t Target) {
	b.target = t
	knownContainer := p.knows(t.Container, t.ID)
	p.probes[t.Key] = b
	if t.Probe == nil || !m.check.Can(t.Probe.ProbeHandler) {
		b.done = true
		log.G(ctx).WithFields(fields(p.pod, t)).Warn("the backend has no means for this probe, its result stays unknown")
		return
	}
	ctx, b.cancel = context.WithCancel(ctx)
	first := firstDelay(p.pod.UID, t, time.Now(), m.started, knownContainer)
	m.running.Go(func() { m.loop(ctx, p, b, first) })
}

// knows is true for a container that is or was probed already.
func (p *podProbes) knows(container, id string) bool {
	for key := range p.probes {
		if key.Container == container && key.ID == id {
			return true
		}
	}
	return false
}

// dropUnnamed ends the probes that the last Set did not name and forgets the
// results of containers of which it named none.
func (p *podProbes) dropUnnamed() {
	for key, b := range p.probes {
		if b.round == p.round {
			continue
		}
		b.end()
		if !p.names(key.Container, key.ID) {
			delete(p.probes, key)
		}
	}
}

// names is true for a container of which the last Set named a probe.
func (p *podProbes) names(container, id string) bool {
	for _, kind := range [...]Kind{Startup, Liveness, Readiness} {
		if b := p.probes[Key{Container: container, ID: id, Kind: kind}]; b != nil && b.round == p.round {
			return true
		}
	}
	return false
}

// end stops the goroutine. What it is about to find is not recorded.
func (b *probe) end() {
	if b.cancel != nil {
		b.cancel()
		b.cancel = nil
	}
	b.last, b.run = Unknown, 0
}

// Results returns the outcomes of a pod's probes. A probe that is missing has
// none yet.
func (m *Manager) Results(uid types.UID) map[Key]Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[uid]
	if p == nil {
		return nil
	}
	out := make(map[Key]Result, len(p.probes))
	for key, b := range p.probes {
		if b.result.Outcome != Unknown {
			out[key] = b.result
		}
	}
	return out
}

// Forget ends all probes of a pod and drops what is known of it, its metrics
// too.
func (m *Manager) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[uid]
	if p == nil {
		return
	}
	for b := range maps.Values(p.probes) {
		b.end()
	}
	for s := range p.series {
		m.cfg.Metrics.forget(p.pod, s)
	}
	delete(m.pods, uid)
}

// Wait returns when all probes have ended, after the last Set.
func (m *Manager) Wait() { m.running.Wait() }

func fields(pod *corev1.Pod, t Target) log.Fields {
	return log.Fields{
		"pod": pod.Namespace + "/" + pod.Name, "uid": pod.UID, "container": t.Container, "probe": t.Kind,
	}
}
