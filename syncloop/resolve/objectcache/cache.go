package objectcache

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/syncloop/resolve"
)

// callTimeout bounds one request to the API server that is no watch.
const callTimeout = 30 * time.Second

// Config is what a Cache needs.
type Config struct {
	// Client reads with the node's own credential. Each object that pods name costs a
	// list and a watch at first, of which maxCalls are asked for at once: so what else
	// the client is asked for waits for few of them in its rate limit.
	Client kubernetes.Interface
	// Node is the node's name, for the log.
	Node string
	// Changed is called when Objects would return something else for a pod. It is
	// called from many goroutines and must not block. Nil: nobody is told.
	Changed func(types.UID)
	// EphemeralVolumes is true where the backend makes volumes of kind ephemeral by
	// itself: their claims are not read.
	EphemeralVolumes bool
}

// Cache holds what the pods of a node refer to. Make one with New. All methods
// are safe for concurrent use.
type Cache struct {
	client  kubernetes.Interface
	node    string
	changed func(types.UID)
	wake    chan struct{} // Run has something to start
	// unclaimed is Config.EphemeralVolumes.
	unclaimed bool
	// asking has a place for each list, and each watch that has not begun yet.
	asking chan struct{}

	mu         sync.Mutex
	pods       map[types.UID]*podEntry
	configMaps *watched[*corev1.ConfigMap]
	secrets    *watched[*corev1.Secret]
	bundles    map[string]*bundle
	services   services
	starting   []*job
	tasks      queue
}

// podEntry is one pod whose references are wanted.
type podEntry struct {
	pod  *corev1.Pod // the newest
	refs resolve.Refs
	// secrets are refs.Secrets and refs.PullSecrets together.
	secrets []string
	tokens  map[resolve.TokenKey]*token
	claims  map[string]*fetched[resolve.Claim]
	// handlers of RuntimeClasses.
	handlers map[string]*fetched[string]
}

// New returns a cache that is empty; Run fills it.
func New(cfg Config) *Cache {
	c := &Cache{
		client: cfg.Client, node: cfg.Node, changed: cfg.Changed, unclaimed: cfg.EphemeralVolumes,
		wake:    make(chan struct{}, 1),
		asking:  make(chan struct{}, maxCalls),
		pods:    make(map[types.UID]*podEntry),
		bundles: make(map[string]*bundle),
	}
	if c.changed == nil {
		c.changed = func(types.UID) {}
	}
	c.configMaps = newWatched(c, configMapKind(cfg.Client))
	c.secrets = newWatched(c, secretKind(cfg.Client))
	return c
}

// Run does the reading until ctx ends, and returns when all of it has ended. It
// is called once; what was Set before it is read when it starts.
func (c *Cache) Run(ctx context.Context) error {
	ctx = log.WithLogger(ctx, log.G(ctx).WithField("node", c.node))
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if wait, ok := c.dispatch(ctx, &wg); ok {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		case <-timer.C:
		}
	}
}

// Set says that what the pod refers to is wanted from now on. It is called with
// every change of a pod, is cheap when the references are the same, and does not
// block.
func (c *Cache) Set(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(pod)
}

// Forget says that nothing of the pod is wanted any more. What no other pod uses
// is dropped and no longer watched.
func (c *Cache) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.pods[uid]
	if e == nil {
		return
	}
	c.apply(e, resolve.Refs{})
	delete(c.pods, uid)
}

// Objects is what is known now of all that the pod refers to. It is empty for a
// pod that is not Set.
func (c *Cache) Objects(pod *corev1.Pod) resolve.Objects {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.pods[pod.UID]
	if e == nil {
		return resolve.Objects{}
	}
	o := resolve.Objects{
		ConfigMaps:      c.configMaps.snapshot(e, e.refs.ConfigMaps),
		Secrets:         c.secrets.snapshot(e, e.secrets),
		Bundles:         c.bundleSnapshot(e),
		Claims:          snapshot(e.claims),
		RuntimeHandlers: snapshot(e.handlers),
	}
	o.Tokens, o.Kept = tokenSnapshot(e, time.Now())
	if e.refs.Services {
		o.Services, o.ServicesSynced = c.services.list(pod.Namespace)
	}
	return o
}

// set is Set with the lock held.
func (c *Cache) set(pod *corev1.Pod) *podEntry {
	e := c.pods[pod.UID]
	if e == nil {
		e = &podEntry{
			pod:      pod,
			tokens:   make(map[resolve.TokenKey]*token),
			claims:   make(map[string]*fetched[resolve.Claim]),
			handlers: make(map[string]*fetched[string]),
		}
		c.pods[pod.UID] = e
		c.apply(e, c.references(pod))
		return e
	}
	old := e.pod
	e.pod = pod
	if sameSpec(old, pod) {
		return e
	}
	if refs := c.references(pod); !reflect.DeepEqual(refs, e.refs) {
		c.apply(e, refs)
	}
	return e
}

// references are what is to be read for a pod.
func (c *Cache) references(pod *corev1.Pod) resolve.Refs {
	refs := resolve.References(pod)
	if c.unclaimed {
		refs.Claims = slices.DeleteFunc(refs.Claims, func(ref resolve.ClaimRef) bool { return ref.Ephemeral })
	}
	return refs
}

// sameSpec tells without a look at all of it that a pod's spec is what it was.
// An API server before 1.33 counts no generation.
func sameSpec(old, now *corev1.Pod) bool {
	return old == now || now.Generation != 0 && old.Generation == now.Generation &&
		len(old.Spec.EphemeralContainers) == len(now.Spec.EphemeralContainers)
}

// apply makes refs what the pod refers to, and starts and ends what differs from
// before. The lock is held.
func (c *Cache) apply(e *podEntry, refs resolve.Refs) {
	secrets := slices.Concat(refs.Secrets, refs.PullSecrets)
	slices.Sort(secrets)
	secrets = slices.Compact(secrets)
	c.configMaps.use(e, e.refs.ConfigMaps, refs.ConfigMaps)
	c.secrets.use(e, e.secrets, secrets)
	c.useBundles(e, refs.Bundles)
	c.useTokens(e, refs.Tokens)
	c.useClaims(e, refs.Claims)
	c.useRuntimeClasses(e, refs.RuntimeClasses)
	if refs.Services {
		c.useServices()
	}
	e.refs, e.secrets = refs, secrets
}

// notify tells that what these pods refer to has changed. The lock is not held.
func (c *Cache) notify(uids ...types.UID) {
	for _, uid := range uids {
		c.changed(uid)
	}
}

// poke wakes Run.
func (c *Cache) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// difference calls gone for what only before has, and came for what only after
// has. Both are sorted or short.
func difference[T comparable](before, after []T, gone, came func(T)) {
	for _, v := range before {
		if !slices.Contains(after, v) {
			gone(v)
		}
	}
	for _, v := range after {
		if !slices.Contains(before, v) {
			came(v)
		}
	}
}
