package provider

import (
	"context"
	"time"

	"github.com/containerd/log"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// callTimeout bounds one call about the Node or its lease, so that a
	// connection gone dead does not cost the lease.
	callTimeout = 10 * time.Second
	// leaseRetry is the pause between tries to get or create the lease.
	leaseRetry = 2 * time.Second
)

// bound gives a call its deadline and ends it early when the node stops.
type bound func(context.Context) (context.Context, context.CancelFunc)

// boundBy makes calls end with stop as well as with their own context. The
// framework's controllers outlive stop by a moment, in which their calls fail at
// once.
func boundBy(stop context.Context) bound {
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		detach := context.AfterFunc(stop, cancel)
		return ctx, func() {
			detach()
			cancel()
		}
	}
}

// nodeClient bounds those calls that the framework makes of Nodes.
type nodeClient struct {
	corev1client.NodeInterface
	bound bound
}

func (c nodeClient) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Node, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	return c.NodeInterface.Get(ctx, name, opts)
}

func (c nodeClient) Create(ctx context.Context, node *corev1.Node, opts metav1.CreateOptions) (*corev1.Node, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	return c.NodeInterface.Create(ctx, node, opts)
}

func (c nodeClient) Patch(ctx context.Context, name string, kind types.PatchType, data []byte,
	opts metav1.PatchOptions, subresources ...string,
) (*corev1.Node, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	return c.NodeInterface.Patch(ctx, name, kind, data, opts, subresources...)
}

// frameworkNodes are the Nodes that the framework is given. One that was deleted
// between its registration and its first status the framework makes by itself, of an
// object that has neither taints nor restricted labels: again registers it as we do.
type frameworkNodes struct {
	corev1client.NodeInterface
	again func(context.Context) (*corev1.Node, error)
}

func (c frameworkNodes) Create(ctx context.Context, _ *corev1.Node, _ metav1.CreateOptions) (*corev1.Node, error) {
	return c.again(ctx)
}

// leaseClient bounds the framework's calls of leases, and keeps Get and Create
// from failing for anything that waiting may heal: after a failure the framework
// sleeps up to seven seconds without looking at its context.
//
// It also keeps the lease's owner right. The framework sets it once: after the
// Node was deleted and made again the lease would go on naming the old one, until
// the garbage collector deletes it for that. And it says on the lease who has the node,
// and shows each lease that it reads to the watcher.
type leaseClient struct {
	coordinationclient.LeaseInterface
	bound bound
	stop  <-chan struct{}
	owner func() []metav1.OwnerReference
	watch *watcher
}

func (c leaseClient) Update(
	ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	seen := c.seen(ctx)
	return seen(c.LeaseInterface.Update(ctx, c.ours(lease), opts))
}

// seen is to be called before the API is asked; what it returns shows the answer to the
// watcher.
func (c leaseClient) seen(ctx context.Context) func(*coordinationv1.Lease, error) (*coordinationv1.Lease, error) {
	newest := c.watch.newest()
	return func(lease *coordinationv1.Lease, err error) (*coordinationv1.Lease, error) {
		if err == nil {
			c.watch.saw(ctx, lease, newest)
		}
		return lease, err
	}
}

// ours returns the lease as we write it.
func (c leaseClient) ours(lease *coordinationv1.Lease) *coordinationv1.Lease {
	return c.watch.sign(c.owned(lease))
}

func (c leaseClient) Get(ctx context.Context, name string, opts metav1.GetOptions) (*coordinationv1.Lease, error) {
	return c.patiently(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		seen := c.seen(ctx)
		return seen(c.LeaseInterface.Get(ctx, name, opts))
	})
}

func (c leaseClient) Create(
	ctx context.Context, lease *coordinationv1.Lease, opts metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	return c.patiently(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		seen := c.seen(ctx)
		return seen(c.LeaseInterface.Create(ctx, c.ours(lease), opts))
	})
}

func newLease(node string, now time.Time) *coordinationv1.Lease {
	seconds := int32(leaseSeconds)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: corev1.NamespaceNodeLease},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &node, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: now},
		},
	}
}

// owned returns the lease with our Node as its owner, where that is known.
func (c leaseClient) owned(lease *coordinationv1.Lease) *coordinationv1.Lease {
	owner := c.owner()
	if owner == nil || equality.Semantic.DeepEqual(lease.OwnerReferences, owner) {
		return lease
	}
	lease = lease.DeepCopy()
	lease.OwnerReferences = owner
	return lease
}

// reclaim gives the lease to a Node that was made again, so that the garbage
// collector leaves it alone, or makes it anew where that came first. What fails
// here is made good by the framework's next renewal.
func (c leaseClient) reclaim(ctx context.Context, name string) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	seen := c.seen(ctx)
	lease, err := seen(c.LeaseInterface.Get(ctx, name, metav1.GetOptions{}))
	seen = c.seen(ctx)
	switch {
	case err == nil:
		_, err = seen(c.LeaseInterface.Update(ctx, c.ours(lease), metav1.UpdateOptions{}))
	case apierrors.IsNotFound(err):
		_, err = seen(c.LeaseInterface.Create(ctx, c.ours(newLease(name, time.Now())), metav1.CreateOptions{}))
	}
	if err != nil {
		log.G(ctx).WithError(err).Debug("node lease keeps its former owner until it is renewed")
	}
}

// patiently repeats a call until it succeeds, or fails in a way that the
// framework acts on, or the node stops.
func (c leaseClient) patiently(ctx context.Context,
	call func(context.Context) (*coordinationv1.Lease, error),
) (*coordinationv1.Lease, error) {
	for warned := false; ; warned = true {
		callCtx, cancel := c.bound(ctx)
		lease, err := call(callCtx)
		cancel()
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
			return lease, err
		}
		if !warned {
			log.G(ctx).WithError(err).Warn("node lease not kept; trying again")
		}
		timer := time.NewTimer(leaseRetry)
		select {
		case <-ctx.Done():
		case <-c.stop:
		case <-timer.C:
			continue
		}
		timer.Stop()
		return nil, err
	}
}
