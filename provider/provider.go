package provider

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/containerd/log"
	vknode "github.com/virtual-kubelet/virtual-kubelet/node"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/pause"
	"github.com/burstlet/burstlet/provider/inert"
	"github.com/burstlet/burstlet/provider/kubeletapi"
)

const (
	// leaseSeconds is the kubelet's lease duration; it is renewed every quarter.
	leaseSeconds = 40
	// heartbeatEvery is how often the status is written although nothing
	// changed, as a kubelet does.
	heartbeatEvery = 5 * time.Minute
	// notReadyPoll is how often ShutDown reads the informer's store.
	notReadyPoll = 20 * time.Millisecond
	// startRetry is the pause between tries to register.
	startRetry = time.Second
)

// Node is one virtual node: its registration, lease and status, its hand-off of
// pods and its kubelet API.
type Node struct {
	cfg     Config
	metrics *metrics
	api     *kubeletapi.Server
	remote  *remote
	handler *podHandler
	own     cache.SharedIndexInformer
	refusal *firstRefusal
	// changed is signalled when our Node changed, in the API or here.
	changed chan struct{}
	closing atomic.Bool
	watch   *watcher
	// leaves takes why this process has to leave the node.
	leaves chan error
	// cordoned is true where our Node was, when it was last seen.
	cordoned atomic.Bool
	// otherSaid is when a second process was last reported, in Unix nanoseconds.
	otherSaid atomic.Int64
	// uid is the newest UID of our Node that was seen; a types.UID.
	uid atomic.Value
	// current is what Current last returned.
	current atomic.Pointer[currentOf]
}

// New returns a node that does nothing before Run.
func New(cfg Config) (*Node, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	far := &remote{node: cfg.Backend.Node, store: inventory{store: cfg.Backend.Store, most: *cfg.Node.MaxImages}}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(cgroupVersion{far}); err != nil {
			return nil, fmt.Errorf("register metrics of the node: %w", err)
		}
	}
	n := &Node{
		cfg: cfg, metrics: m,
		remote:  far,
		handler: newPodHandler(cfg.Pods.GetStore(), cfg.Enqueue),
		refusal: newFirstRefusal(),
		changed: make(chan struct{}, 1),
		leaves:  make(chan error, 1),
		own:     newNodeInformer(cfg.Client, cfg.NodeName),
	}
	own := cfg.Holder
	own.Stays = !cfg.YieldToOther
	if n.watch, err = newWatcher(own, m.foreign, n.otherProcess); err != nil {
		return nil, err
	}
	n.watch.back = n.wentBack
	if _, err = n.own.AddEventHandler(n.nodeEvents()); err != nil {
		return nil, fmt.Errorf("watch node %s: %w", cfg.NodeName, err)
	}
	if err = cfg.Pods.SetWatchErrorHandlerWithContext(n.refusal.handle); err != nil {
		return nil, fmt.Errorf("configure pod informer: %w", err)
	}
	if cfg.API != nil {
		n.api, err = kubeletapi.New(kubeletapi.Config{
			Options: *cfg.API, NodeName: cfg.NodeName, IPs: []net.IP{net.ParseIP(cfg.Node.InternalIP)},
			Client: cfg.Client, Engine: cfg.Engine, Gatherer: cfg.Gatherer, Registerer: cfg.Registerer,
			Probes: cfg.Probes, ConfigZ: cfg.ConfigZ, FlagZ: cfg.FlagZ,
			Machine: func() *backend.NodeFacts { facts, _ := n.remote.get(); return facts },
		})
		if err != nil {
			return nil, err
		}
	}
	return n, nil
}

// Described takes what the remote said of itself a moment ago: then Run registers the node
// without asking it first.
func (n *Node) Described(facts backend.NodeFacts) { n.remote.set(facts) }

// ShutDown makes the node not ready, as a kubelet whose host goes down, until the
// end of Run. It does nothing to the pods. It returns when the API says so, or
// with the context.
func (n *Node) ShutDown(ctx context.Context) {
	n.closing.Store(true)
	n.signal()
	for {
		if node, _ := ownNode(n.own, n.cfg.NodeName); node != nil {
			if c := condition(node.Status.Conditions, corev1.NodeReady); c != nil && c.Status == corev1.ConditionFalse {
				return
			}
		}
		if pause.For(ctx, notReadyPoll) != nil {
			return
		}
	}
}

// SetShuttingDown says whether the pods' host is being shut down: until it no longer is,
// the node is not ready. It does nothing to the pods, and does not wait.
func (n *Node) SetShuttingDown(begun bool) {
	n.closing.Store(begun)
	n.signal()
}

func (n *Node) signal() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

func (n *Node) nodeEvents() cache.ResourceEventHandler {
	signal := func(obj any) {
		if node, ok := obj.(*corev1.Node); ok {
			n.uid.Store(node.UID)
			n.cordoned.Store(node.Spec.Unschedulable)
		}
		n.signal()
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: signal, DeleteFunc: func(any) { n.signal() }, UpdateFunc: func(_, obj any) { signal(obj) },
	}
}

// Run registers the node and serves it until the context ends; then it returns
// nil and leaves the Node and its pods as they are. It returns an error when the
// port of the kubelet API cannot be opened, or when the API server cannot be
// reached or refuses the credential at the start.
func (n *Node) Run(ctx context.Context) error {
	outer := ctx
	ctx = log.WithLogger(ctx, log.G(ctx).WithField("node", n.cfg.NodeName))
	if n.api != nil {
		if err := n.api.Listen(ctx); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	if n.api != nil {
		group.Go(func() error { return n.api.Run(ctx) })
	}
	group.Go(func() error { return n.start(ctx, group) })
	err := group.Wait()
	if outer.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return nil
	}
	return err
}

// start brings the parts up in their order, each running in the group.
func (n *Node) start(ctx context.Context, group *errgroup.Group) error {
	started := time.Now()
	if n.cfg.YieldToOther {
		if err := n.free(ctx); err != nil {
			return err
		}
	}
	group.Go(func() error { return n.untilLeft(ctx) })
	if n.remote.known() {
		n.remote.refreshImages(ctx)
	} else {
		n.remote.first(ctx, n.patience(ctx))
	}
	spec := nodeSpec{
		name: n.cfg.NodeName, backend: n.cfg.Backend.Name, NodeOptions: n.cfg.Node, features: declaredFeatures(n.cfg.Backend),
		holder: n.watch.text,
	}
	if n.api != nil {
		spec.port = n.api.Port()
	}
	composer := &composer{
		spec: spec, remote: n.remote, lastRelist: n.cfg.Engine.LastRelist,
		closing: n.closing.Load, pressure: n.cfg.Pressure, started: started,
	}
	deadline, cancel := context.WithTimeout(ctx, n.cfg.StartTimeout)
	defer cancel()
	inAPI, err := n.register(deadline, composer)
	switch {
	case ctx.Err() != nil:
		return nil // its cause is reported elsewhere
	case err != nil:
		return err
	}
	n.uid.Store(inAPI.UID)
	group.Go(func() error { n.remote.run(ctx); return nil })
	group.Go(func() error { n.own.RunWithContext(ctx); return nil })
	ready := make(chan struct{})
	group.Go(func() error { return n.runNode(ctx, composer, inAPI, ready) })
	select {
	case <-ctx.Done():
		return nil
	case <-ready:
	}
	return n.startPods(ctx, group)
}

// patience is how long registration waits for the remote to answer.
func (n *Node) patience(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, firstDescribe)
	defer cancel()
	node, err := n.cfg.Heartbeats.CoreV1().Nodes().Get(ctx, n.cfg.NodeName, metav1.GetOptions{})
	if err != nil {
		return firstDescribe // registration reports the error
	}
	if c := condition(node.Status.Conditions, corev1.NodeReady); c == nil || c.Status != corev1.ConditionTrue {
		return firstDescribe
	}
	return standingDescribe
}

// startPods syncs the pod informer and starts the hand-off.
func (n *Node) startPods(ctx context.Context, group *errgroup.Group) error {
	ours, err := n.cfg.Pods.AddEventHandler(podEvents(n.cfg.Enqueue, n.handler.forget))
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	group.Go(func() error { n.cfg.Pods.RunWithContext(ctx); return nil })
	synced, err := n.refusal.wait(ctx, n.cfg.Pods.HasSynced, ours.HasSynced)
	switch {
	case err != nil:
		return explain(n.cfg.Server, n.cfg.NodeName, "list pods of node "+n.cfg.NodeName, err)
	case !synced:
		return nil
	}
	if n.cfg.Synced != nil {
		n.cfg.Synced()
	}
	writes := inert.Pods{
		Dropped: func(verb string) { n.metrics.dropped.WithLabelValues(verb).Inc() },
		Enqueue: n.cfg.Enqueue,
	}
	group.Go(func() error {
		return runPods(ctx, podControllerConfig(n.cfg.Client, n.cfg.Pods, n.handler, writes))
	})
	return nil
}

func (n *Node) registrar(b bound) registrar {
	return registrar{
		nodes:      nodeClient{n.cfg.Heartbeats.CoreV1().Nodes(), b},
		taints:     n.cfg.Node.Taints,
		restricted: nodeSpec{NodeOptions: n.cfg.Node}.restrictedLabels(),
	}
}

// register makes the Node, trying until the context ends.
func (n *Node) register(ctx context.Context, c *composer) (*corev1.Node, error) {
	r := n.registrar(boundBy(ctx))
	var last error
	for {
		node, err := r.ensure(ctx, c.compose(time.Now(), nil))
		if err == nil {
			return node, nil
		}
		if errors.Is(err, errForeign) || errors.Is(err, errIdentity) {
			return nil, fmt.Errorf("register node: %w", err)
		}
		if last == nil || ctx.Err() == nil {
			last = err // not the end of the time itself
		}
		if refused(err) || pause.For(ctx, startRetry) != nil {
			return nil, explain(n.cfg.Server, n.cfg.NodeName, "register node "+n.cfg.NodeName, last)
		}
	}
}

// runNode runs the framework's NodeController, and pushes the status to it, until
// the context ends. ready is closed when the first status stands and the lease is
// being kept.
func (n *Node) runNode(ctx context.Context, c *composer, inAPI *corev1.Node, ready chan<- struct{}) error {
	// The controller outlives the loop that pushes to it: its channel would block
	// a pusher forever. Its calls end with ctx.
	controlCtx, stop := context.WithCancel(withNodeLogger(context.WithoutCancel(ctx)))
	defer stop()
	deadline, cancel := context.WithTimeout(ctx, n.cfg.StartTimeout)
	defer cancel()
	for {
		provider, done, err := n.control(ctx, controlCtx, c, inAPI)
		if err == nil {
			close(ready)
			statusLoop{
				compose: c.compose,
				inAPI:   func() (*corev1.Node, bool) { return ownNode(n.own, n.cfg.NodeName) },
				changed: n.changed, push: provider.push, metrics: n.metrics,
				record: (&eventReporter{
					event: n.cfg.Event, closing: n.closing.Load, started: c.started, bootID: inAPI.Status.NodeInfo.BootID,
				}).report,
			}.run(ctx)
			stop()
			return <-done
		}
		if refused(err) || pause.For(deadline, startRetry) != nil {
			if ctx.Err() != nil {
				return nil
			}
			return explain(n.cfg.Server, n.cfg.NodeName, "write status of node "+n.cfg.NodeName, err)
		}
	}
}

// control starts a NodeController under controlCtx and returns when it has
// written the first status; done then receives how it ended.
func (n *Node) control(ctx, controlCtx context.Context, c *composer, inAPI *corev1.Node) (
	provider *nodeProvider, done <-chan error, err error,
) {
	registration := n.registrar(boundBy(ctx))
	leases := leaseClient{
		n.cfg.Heartbeats.CoordinationV1().Leases(corev1.NamespaceNodeLease), boundBy(ctx), ctx.Done(), n.owner, n.watch,
	}
	again := func(callCtx context.Context) (*corev1.Node, error) {
		log.G(ctx).Warn("node was deleted from the API; registering it again")
		// Who cordons a node and deletes it does not want pods on it.
		anew := registration
		anew.unschedulable = n.cordoned.Load()
		node, err := anew.ensure(callCtx, c.compose(time.Now(), nil))
		if err != nil {
			return nil, err
		}
		n.uid.Store(node.UID)
		leases.reclaim(callCtx, node.Name)
		return node, nil
	}
	provider = &nodeProvider{}
	controller, err := vknode.NewNodeController(
		provider, c.compose(time.Now(), inAPI), frameworkNodes{registration.nodes, again},
		vknode.WithNodeEnableLeaseV1(leases, leaseSeconds),
		vknode.WithNodeStatusUpdateInterval(heartbeatEvery),
		vknode.WithNodeStatusUpdateErrorHandler(func(callCtx context.Context, err error) error {
			if apierrors.IsNotFound(err) {
				_, err = again(callCtx)
			}
			return err
		}),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("make node controller: %w", err)
	}
	controlCtx, stop := context.WithCancel(controlCtx)
	ended := make(chan error, 1)
	go func() {
		// A controller that failed to start leaves its pings running.
		defer stop()
		ended <- controller.Run(controlCtx)
	}()
	select {
	case <-controller.Ready():
		return provider, ended, nil
	case err := <-ended:
		return nil, nil, err
	}
}

// owner is the reference that makes our Node the owner of its lease; none while
// the Node's UID is not known.
func (n *Node) owner() []metav1.OwnerReference {
	uid := n.UID()
	if uid == "" {
		return nil
	}
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.cfg.NodeName, UID: uid}}
}

// UID is that of the Node object that was seen last; empty before there is one.
func (n *Node) UID() types.UID {
	uid, _ := n.uid.Load().(types.UID)
	return uid
}

// nodeProvider is what the framework asks about the node.
type nodeProvider struct{ notify func(*corev1.Node) }

var _ vknode.NodeProvider = (*nodeProvider)(nil)

// Ping never fails: a remote that is away is a condition of the node, not a
// reason to give up its lease.
func (*nodeProvider) Ping(context.Context) error { return nil }

// NotifyNodeStatus takes the way to push a status. The framework calls it before
// it is ready, once.
func (p *nodeProvider) NotifyNodeStatus(_ context.Context, notify func(*corev1.Node)) {
	p.notify = notify
}

func (p *nodeProvider) push(node *corev1.Node) { p.notify(node) }
