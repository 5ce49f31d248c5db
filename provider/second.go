package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
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
	read := func() (time.Time, *Holder, error) {
		callCtx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		lease, err := leases.Get(callCtx, n.cfg.NodeName, metav1.GetOptions{})
		if err != nil {
			return time.Time{}, nil, err
		}
		return renewal(lease), holderOf(lease.Annotations), nil
	}
	// Errors are registration's to report: it makes the same calls next.
	first, other, err := read()
	if err != nil || n.watch.own.succeeds(other) {
		return nil //nolint:nilerr // as said
	}
	for began := time.Now(); time.Since(began) < otherRenews; {
		if pause.For(ctx, otherPoll) != nil {
			return nil //nolint:nilerr // the node is to end
		}
		now, other, err := read()
		if err != nil || now.Equal(first) {
			continue
		}
		n.sayHeld(ctx, other)
		return heldError(n.cfg.NodeName, other)
	}
	return nil
}
