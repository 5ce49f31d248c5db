package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/log"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/gate"
	"github.com/burstlet/burstlet/cmd/burstlet/access"
	"github.com/burstlet/burstlet/cmd/burstlet/backends"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider"
	"github.com/burstlet/burstlet/provider/election"
	"github.com/burstlet/burstlet/syncloop"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// taker takes a node over, to end its pods.
type taker struct {
	cfg    config.Configuration
	access *rest.Config
	// elections are those of all nodes that are removed.
	elections *elections
	// keep is true where pods are not to end.
	keep bool
}

// holding is what is done while the node is held.
type holding func(context.Context, backend.Backend) error

// removalRelist is how often the remote is listed: an orphan is one when two listings
// showed it, and somebody waits.
const removalRelist = time.Second

// take implements removal.Takeover.
func (t *taker) take(ctx context.Context, do func(context.Context, backend.Backend) error) error {
	ctx = log.WithLogger(ctx, log.G(ctx).WithField("node", t.cfg.Node.Name))
	if !t.cfg.LeaderElection.Enabled {
		return t.hold(ctx, gate.Always(), "", do)
	}
	lease, err := t.elections.lease(t.cfg)
	if err != nil {
		return err
	}
	elector, err := election.New(election.Config{Lease: lease, Former: nodeExists(t.access, t.cfg.Node.Name)})
	if err != nil {
		return err
	}
	led := false
	err = elector.Run(ctx, func(ctx context.Context, held *gate.Gate) error {
		err := t.hold(ctx, held, leaderName(t.elections.id), do)
		led = err == nil
		return err
	})
	if err == nil && !led {
		err = fmt.Errorf("wait for lease %s: %w", lease, context.Cause(ctx))
	}
	return err
}

// hold does it with the node's remote.
func (t *taker) hold(ctx context.Context, held *gate.Gate, leader string, do holding) error {
	server := rest.CopyConfig(t.access)
	server.Wrap(held.Transport)
	client, err := kubernetes.NewForConfig(server)
	if err != nil {
		return fmt.Errorf("make a client for the API server: %w", err)
	}
	id, err := access.NodeIdentity(ctx, client, t.cfg, server.Host)
	if err != nil {
		return err
	}
	b, err := backends.New(ctx, backends.Node{
		Config: t.cfg, Identity: id, Version: programVersion(), May: held.Permit, Leader: leader,
	})
	if t.keep {
		if err != nil {
			log.G(ctx).WithError(err).Warn("the remote cannot be asked what stays there")
			return do(ctx, backend.Backend{})
		}
		return withRemote(ctx, held.Wrap(b), backends.Away(t.cfg.Backend), do)
	}
	if err != nil {
		return err
	}
	host := &hostMemory{Node: b.Node}
	b.Node, b.Pods = host, endOnly{b.Pods}
	b.Limits.Relist = removalRelist
	e, err := newEnder(ctx, t.cfg, client, held.Wrap(b), host)
	if err != nil {
		return err
	}
	return e.run(ctx, do)
}

// withRemote does something while the remote's own parts run. One that cannot be
// reached has no pods to tell of.
func withRemote(ctx context.Context, b backend.Backend, away bool, do holding) error {
	parts, stop := context.WithCancel(ctx)
	defer stop()
	g, parts := errgroup.WithContext(parts)
	if b.Run != nil {
		g.Go(func() error { return b.RunFreely(parts) })
	}
	g.Go(func() error {
		defer stop()
		remote := b
		if _, err := probe(parts, b, away, probeAwayTimeout); err != nil {
			remote = backend.Backend{}
		}
		return do(parts, remote)
	})
	return g.Wait()
}

// endOnly launches nothing: the node is being removed.
type endOnly struct{ backend.Pods }

// Launch refuses, so that the pod waits for its end.
func (endOnly) Launch(context.Context, context.Context, backend.LaunchSpec) error {
	return backend.Unmade(backend.Errorf(backend.ErrThrottled, "the node is being removed and starts no pods"))
}

// nothing is what pods refer to, never to be known: what runs goes on, but nothing is
// started with it and no volume renewed. So the removal reads no Secret.
type nothing struct{}

func (nothing) Set(*corev1.Pod)                            {}
func (nothing) Forget(types.UID)                           {}
func (nothing) Adopt(*corev1.Pod, map[string]time.Time)    {}
func (nothing) Objects(*corev1.Pod) (none resolve.Objects) { return none }

// ender is an engine that ends a node's pods.
type ender struct {
	cfg config.Configuration
	*podEngine
}

func newEnder(
	ctx context.Context, cfg config.Configuration, client kubernetes.Interface, b backend.Backend, host *hostMemory,
) (*ender, error) {
	current, err := lastCurrent(ctx, client, cfg.Node.Name)
	if err != nil {
		return nil, err
	}
	e, err := newPodEngine(engineConfig{
		cfg: cfg, client: client, events: client, remote: b, host: host,
		current: func() provider.Current { return current }, engine: syncloop.Config{Objects: nothing{}},
	})
	if err != nil {
		return nil, err
	}
	e.static.Set(nil)
	enqueue := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			e.source.Enqueue(key)
		}
	}
	if _, err = e.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }, DeleteFunc: enqueue,
	}); err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	return &ender{cfg, e}, nil
}

// lastCurrent is the node as it stands in the API. It is only to refuse no pod, for
// none is started.
func lastCurrent(ctx context.Context, client kubernetes.Interface, name string) (provider.Current, error) {
	most := resource.MustParse("1E")
	now := provider.Current{Allocatable: corev1.ResourceList{}, SupplementalGroupsPolicy: true}
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		now.Labels, now.OS, now.Kernel = node.Labels, node.Status.NodeInfo.OperatingSystem, node.Status.NodeInfo.KernelVersion
		for resource := range node.Status.Allocatable {
			now.Allocatable[resource] = most
		}
	case !apierrors.IsNotFound(err):
		return now, fmt.Errorf("read node %s: %w", name, err)
	}
	for _, resource := range []corev1.ResourceName{
		corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
	} {
		now.Allocatable[resource] = most
	}
	return now, nil
}

// run runs the parts while it is done.
func (e *ender) run(ctx context.Context, do holding) error {
	parts, stop := context.WithCancel(ctx)
	defer stop()
	g, parts := errgroup.WithContext(parts)
	if e.backend.Run != nil {
		g.Go(func() error { return e.backend.RunFreely(parts) })
	}
	away, timeout := backends.Away(e.cfg.Backend), probeRemovalTimeout
	if away {
		timeout = probeAwayTimeout // then it goes on without it
	}
	if _, err := probe(parts, e.backend, away, timeout); err != nil {
		stop()
		return errors.Join(err, g.Wait())
	}
	e.start(parts, g)
	g.Go(func() error { e.pods.RunWithContext(parts); return nil })
	g.Go(func() error {
		defer stop()
		if !cache.WaitForCacheSync(parts.Done(), e.pods.HasSynced) {
			return fmt.Errorf("list the pods of node %s: %w", e.cfg.Node.Name, context.Cause(parts))
		}
		e.source.EnqueueAll()
		if err := do(parts, e.backend); err != nil {
			return err
		}
		flush, cancel := context.WithTimeout(context.WithoutCancel(parts), e.cfg.Shutdown.FlushTimeout.Duration)
		defer cancel()
		if err := e.status.Flush(flush); err != nil {
			return fmt.Errorf("write the last statuses: %w", err)
		}
		return nil
	})
	return g.Wait()
}
