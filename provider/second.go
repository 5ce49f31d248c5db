package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/log"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend/pause"
)

const (
	// otherRenews is how long a start waits to see whether another process renews the lease,
	// which it does every quarter of the lease's duration.
	otherRenews = leaseSeconds/4*time.Second + 5*time.Second
	// otherPoll is how often it looks.
	otherPoll = 2 * time.Second
	// saidAgain is how often a second process is reported while it lives.
	saidAgain = 5 * time.Minute
)

// otherProcess is told of the process that renews the node's lease beside this one.
func (n *Node) otherProcess(ctx context.Context, other *Holder) {
	now := time.Now().UnixNano()
	last := n.otherSaid.Load()
	if last == 0 || now-last >= int64(saidAgain) {
		n.otherSaid.Store(now)
		n.sayHeld(ctx, other)
	}
	if n.cfg.YieldToOther && n.watch.own.yieldsTo(other) {
		n.leave(heldError(n.cfg.NodeName, other))
	}
}

// sayHeld tells users that two processes have the node.
func (n *Node) sayHeld(ctx context.Context, other *Holder) {
	message := fmt.Sprintf("Node %s has two processes: its lease is also renewed by %s; this is %s. "+
		"End one of them, or give its node another name.", n.cfg.NodeName, other, &n.watch.own)
	log.G(ctx).WithField("other", other.String()).Warn("another process has this node too")
	if n.cfg.Event != nil {
		n.cfg.Event(NodeReference(n.cfg.NodeName), corev1.EventTypeWarning, reasonOtherProcess, message)
	}
}

func heldError(node string, other *Holder) error {
	return fmt.Errorf("%w: the lease of node %s is renewed by %s: end that one, or give this node another name; "+
		"this process ends for it, as node.onOtherProcess says", errHeld, node, other)
}

// free waits to see that no other process renews the node's lease, before anything is
// written. Where the last holder led by our election, or there is no lease, nobody does.
func (n *Node) free(ctx context.Context) error {
	leases := n.cfg.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	read := func() (*coordinationv1.Lease, error) {
		callCtx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		return leases.Get(callCtx, n.cfg.NodeName, metav1.GetOptions{})
	}
	started := time.Now()
	var first *coordinationv1.Lease // as it was at firstAt
	var firstAt time.Time
	for {
		lease, err := read()
		switch {
		case refused(err), apierrors.IsNotFound(err) && first == nil:
			return nil // registration makes the same calls, and reports an error
		case err != nil:
			if since := time.Since(started); since >= n.cfg.StartTimeout && since >= otherRenews {
				return explain(n.cfg.Server, n.cfg.NodeName, "read the lease of node "+n.cfg.NodeName, err)
			}
		case first == nil:
			if n.watch.own.succeeds(holderOf(lease.Annotations)) {
				return nil
			}
			first, firstAt = lease, time.Now()
		case !renewal(lease).Equal(renewal(first)):
			other := holderOf(lease.Annotations)
			n.sayHeld(ctx, other)
			return heldError(n.cfg.NodeName, other)
		case time.Since(firstAt) >= otherRenews:
			return nil
		}
		if pause.For(ctx, otherPoll) != nil {
			return nil //nolint:nilerr // the node is to end
		}
	}
}
