package provider

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/pause"
)

const (
	describeEvery   = 10 * time.Second // how often the remote is asked about itself
	describeSoon    = time.Second      // the same while it does not answer, or has no network for pods
	describeTimeout = 10 * time.Second
	firstDescribe   = 3 * time.Second // how long registration waits for that answer
	// standingDescribe is the same where the Node is Ready: another process had it a
	// moment ago, and nobody gains when pods and node are not ready until the remote
	// is reached. It ends well before the lease that process kept (leaseSeconds).
	standingDescribe = 15 * time.Second
	composeEvery     = time.Second // how often the Node is computed; no calls
	repushEvery      = 10 * time.Second
	// restateEvery is how long a condition's message stays when it alone changes:
	// the cause may be another one by now.
	restateEvery = time.Minute
)

// remote keeps what the remote says of itself.
type remote struct {
	node  backend.Node
	store inventory

	mu    sync.Mutex
	facts *backend.NodeFacts
	err   error
	// images are for the Node's status; nil while they are not known.
	images []corev1.ContainerImage
}

func (r *remote) get() (*backend.NodeFacts, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.facts, r.err
}

// known says whether it has described itself.
func (r *remote) known() bool {
	facts, _ := r.get()
	return facts != nil
}

func (r *remote) set(facts backend.NodeFacts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts = &facts
}

// stored are the images for the Node's status; nil while they are not known.
func (r *remote) stored() []corev1.ContainerImage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.images
}

// refreshImages lists them if it is time to.
func (r *remote) refreshImages(ctx context.Context) {
	images, ok := r.store.list(ctx)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.images = images
}

// describe asks once. The last answer stays when there is none now.
func (r *remote) describe(ctx context.Context) error {
	callCtx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	facts, err := r.node.Describe(callCtx)
	if ctx.Err() != nil {
		return err
	}
	r.mu.Lock()
	before := r.err
	r.err = err
	if err == nil {
		r.facts = &facts
	}
	r.mu.Unlock()
	switch class := backend.Class(err); {
	case class == backend.Class(before):
	case err != nil:
		log.G(ctx).WithError(err).WithField("class", class).Warn("the remote does not describe itself")
	default:
		log.G(ctx).Info("the remote describes itself again")
	}
	return err
}

// first asks until there is an answer, for so long, so that a node registers with
// its capacity. A refusal is one after a moment.
func (r *remote) first(ctx context.Context, patience time.Duration) {
	started := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := r.describe(ctx)
		if err == nil {
			break
		}
		if backend.Class(err) == "Denied" && time.Since(started) >= firstDescribe {
			return
		}
		if pause.For(ctx, 100*time.Millisecond) != nil {
			return
		}
	}
	r.refreshImages(ctx)
}

// run asks now and then until the context ends.
func (r *remote) run(ctx context.Context) {
	for {
		wait := describeEvery
		if facts, err := r.get(); facts == nil || err != nil || !facts.NetworkReady {
			wait = describeSoon // pods wait for it to recover
		}
		if pause.For(ctx, wait) != nil {
			return
		}
		// What comes of it stands in the node's conditions.
		if r.describe(ctx) == nil {
			r.refreshImages(ctx)
		}
	}
}

// composer computes the Node that should stand in the API.
type composer struct {
	spec       nodeSpec
	remote     *remote
	lastRelist func() time.Time
	closing    func() bool
	// pressure are the pressure conditions that are true; false while they are not known.
	pressure func() ([]corev1.NodeConditionType, bool)
	started  time.Time

	mu     sync.Mutex
	before corev1.NodeStatus
	// remembered is what the API held of the remote when it was last read.
	remembered *backend.NodeFacts
	restated   time.Time // when messages could last change
}

func (c *composer) compose(now time.Time, inAPI *corev1.Node) *corev1.Node {
	facts, err := c.remote.get()
	obs := observation{
		now: now, started: c.started, lastRelist: c.lastRelist(), facts: facts, factsErr: err,
		images: c.remote.stored(), closing: c.closing(),
	}
	var have corev1.NodeStatus
	if inAPI != nil {
		have = inAPI.Status
	}
	var known bool
	if obs.pressure, known = c.pressure(); !known {
		obs.pressure = pressureIn(have.Conditions)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if facts == nil && inAPI != nil {
		c.remembered = remembered(inAPI)
	}
	obs.remembered = c.remembered
	if obs.restate = now.Sub(c.restated) >= restateEvery; obs.restate {
		c.restated = now
	}
	node := c.spec.build(obs, have, c.before)
	c.before = node.Status
	return node.DeepCopy()
}

// statusLoop pushes the Node whenever the API does not hold what it should. It
// ends with the context.
type statusLoop struct {
	compose func(now time.Time, inAPI *corev1.Node) *corev1.Node
	inAPI   func() (node *corev1.Node, known bool)
	changed <-chan struct{}
	push    func(*corev1.Node)
	// record records Events about what changed.
	record  func(want, have *corev1.Node)
	metrics *metrics
}

func (l statusLoop) run(ctx context.Context) {
	ticker := time.NewTicker(composeEvery)
	defer ticker.Stop()
	var pushed *corev1.Node
	var at time.Time
	for {
		now := time.Now()
		have, known := l.inAPI()
		want := l.compose(now, have)
		l.report(ctx, want, pushed)
		l.record(want, have)
		if due(want, have, pushed, known, now.Sub(at)) {
			pushed, at = want, now
			l.metrics.pushes.Inc()
			// A copy: the framework changes heartbeat times in what it is given.
			l.push(want.DeepCopy())
		}
		select {
		case <-ctx.Done():
			return
		case <-l.changed:
		case <-ticker.C:
		}
	}
}

// due decides whether to push: what is new at once, what the API does not hold
// although it was pushed again after a while, a deleted Node after a moment.
func due(want, have, pushed *corev1.Node, known bool, since time.Duration) bool {
	switch {
	case pushed == nil || !sameNode(want, pushed):
		return true
	case !known:
		return false
	case have == nil:
		return since >= composeEvery
	default:
		return since >= repushEvery && !settled(want, have)
	}
}

// sameNode compares two computed Nodes but for their heartbeats.
func sameNode(a, b *corev1.Node) bool {
	return settled(a, b) && settled(b, a) && equality.Semantic.DeepEqual(a.Status.Addresses, b.Status.Addresses)
}

// report logs and measures changes of readiness.
func (l statusLoop) report(ctx context.Context, want, pushed *corev1.Node) {
	now := condition(want.Status.Conditions, corev1.NodeReady)
	value := 0.0
	if now.Status == corev1.ConditionTrue {
		value = 1
	}
	l.metrics.ready.Set(value)
	if pushed != nil {
		before := condition(pushed.Status.Conditions, corev1.NodeReady)
		if before.Status == now.Status && before.Reason == now.Reason {
			return
		}
	}
	entry := log.G(ctx).WithField("ready", now.Status).WithField("reason", now.Reason)
	if value == 0 {
		entry.WithField("message", now.Message).Warn("node is not ready")
		return
	}
	entry.Info("node is ready")
}
