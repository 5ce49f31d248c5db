package removal

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"

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
		return each(ctx, byLease(nodes), electorate.takeOut)
	}
	err := deployment.end(ctx)
	if err == nil {
		err = each(ctx, byLease(nodes), electorate.takeOut)
	}
	if err != nil {
		err = errors.Join(err, deployment.restore(context.WithoutCancel(ctx)))
	}
	return err
}

// each does a step for all at once.
func each[T any](ctx context.Context, all []T, step func(T, context.Context) error) error {
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, one := range all {
		group.Go(func() { errs[i] = step(one, ctx) })
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

// electorate is the nodes whose leader holds one Lease. They wait for each other: while this
// process has one of them, it holds the Lease of all.
type electorate []*Node

// byLease returns the electorates of the nodes. A node without an election is alone.
func byLease(nodes []*Node) []electorate {
	var all []electorate
	at := map[types.NamespacedName]int{}
	for _, n := range nodes {
		i, found := at[n.cfg.Election]
		if !found || !n.elected() {
			i = len(all)
			at[n.cfg.Election], all = i, append(all, nil)
		}
		all[i] = append(all[i], n)
	}
	return all
}

// takeOut does the rest of the removal once no other process runs the nodes.
func (e electorate) takeOut(ctx context.Context) error {
	of := func(step func(*Node, context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error { return each(ctx, e, step) }
	}
	return inTurn(ctx, of((*Node).awaitEnd), of((*Node).takeOver), of((*Node).dropFormer), e[0].dropElection,
		of((*Node).confirm), of((*Node).await))
}

func (n *Node) takeOver(ctx context.Context) error { return n.cfg.Takeover(ctx, n.asHolder) }

// asHolder does what only who has the node may do.
func (n *Node) asHolder(ctx context.Context, remote backend.Backend) error {
	n.say("taken over")
	if n.cfg.KeepPods {
		n.sayKept(ctx, remote)
		return inTurn(
			ctx, n.unregister, func(ctx context.Context) error { return n.clear(ctx, true) }, n.dropLease, n.dropRequests,
		)
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
