package provider

import (
	"context"
	"time"

	"github.com/containerd/log"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
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

// leaseClient bounds the framework's calls of leases, and keeps Get and Create
// from failing for anything that waiting may heal: after a failure the framework
// sleeps up to seven seconds without looking at its context.
type leaseClient struct {
	coordinationclient.LeaseInterface
	bound bound
	stop  <-chan struct{}
}

func (c leaseClient) Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	return c.LeaseInterface.Update(ctx, lease, opts)
}

func (c leaseClient) Get(ctx context.Context, name string, opts metav1.GetOptions) (*coordinationv1.Lease, error) {
	return c.patiently(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return c.LeaseInterface.Get(ctx, name, opts)
	})
}

func (c leaseClient) Create(ctx context.Context, lease *coordinationv1.Lease, opts metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return c.patiently(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return c.LeaseInterface.Create(ctx, lease, opts)
	})
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
