package removal

import (
	"context"
	"errors"
	"sync"

	"github.com/burstlet/burstlet/backend"
)

// Run removes the nodes; deployment, which may be nil, is ended when their pods are
// gone. Nodes wait for each other between steps, so that none is changed before all
// are found to be burstlet's, and the processes of all are there until the last pod
// has ended. An error says how far it came: run again, it goes on from there.
func Run(ctx context.Context, nodes []*Node, deployment *Deployment) error {
	for _, step := range []func(*Node, context.Context) error{
		(*Node).check, (*Node).cordon, (*Node).drainUnlessKept,
	} {
		if err := each(ctx, nodes, step); err != nil {
			return err
		}
	}
	if deployment == nil {
		return each(ctx, nodes, (*Node).takeOut)
	}
	err := deployment.end(ctx)
	if err == nil {
		err = each(ctx, nodes, (*Node).takeOut)
	}
	if err != nil {
		err = errors.Join(err, deployment.restore(context.WithoutCancel(ctx)))
	}
	return err
}

// each does a step for all nodes at once.
func each(ctx context.Context, nodes []*Node, step func(*Node, context.Context) error) error {
	errs := make([]error, len(nodes))
	var group sync.WaitGroup
	for i, n := range nodes {
		group.Go(func() { errs[i] = step(n, ctx) })
	}
	group.Wait()
	return errors.Join(errs...)
}

func (n *Node) drainUnlessKept(ctx context.Context) error {
	if n.cfg.KeepPods {
		return nil
	}
	return n.drain(ctx)
}

// takeOut does what is left when nobody else runs the node any more.
func (n *Node) takeOut(ctx context.Context) error {
	if err := n.awaitEnd(ctx); err != nil {
		return err
	}
	if err := n.cfg.Takeover(ctx, n.asHolder); err != nil {
		return err
	}
	return inTurn(ctx, n.dropElection, n.confirm, n.await)
}

// asHolder does what only who has the node may do.
func (n *Node) asHolder(ctx context.Context, remote backend.Backend) error {
	n.say("taken over")
	if n.cfg.KeepPods {
		n.sayKept(ctx, remote)
		return inTurn(ctx, n.unregister, func(ctx context.Context) error { return n.clear(ctx, true) }, n.dropLease, n.dropRequests)
	}
	return inTurn(ctx, n.finish, n.unregister,
		func(ctx context.Context) error { return n.clear(ctx, false) },
		func(ctx context.Context) error { return n.sweep(ctx, remote) },
		n.dropLease, n.dropRequests)
}

func inTurn(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if ctx.Err() != nil {
			return ended(ctx)
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}
