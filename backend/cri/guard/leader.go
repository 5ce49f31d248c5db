package guard

import (
	"context"
	"time"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/criconfig"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/fence"
	"github.com/burstlet/burstlet/backend/pause"
)

// takeRetry is the pause between tries to take the node on its host.
const takeRetry = time.Second

// Leader is the process that leads the node, as its host knows it. The host refuses what
// another asks for, so that a leader who does not see its successor does no harm. Only
// calls of hosts' operations are refused, the runtime's calls that the host makes among
// them: those that go to the runtime directly (commands of probes and hooks, logs opened
// anew, images removed) are permitted for as long as the last confirmation lasts. nil:
// there is no election.
type Leader struct {
	*fence.Taker
	as host.Leader // without its Holder
}

// NewLeader is the process that the configuration names; nil where it names none. may
// permits it to take the node.
func NewLeader(cfg criconfig.Config, h host.Host, may backend.Permit) *Leader {
	if cfg.Leader == "" {
		return nil
	}
	as := host.Leader{Root: cfg.PodsDir, Node: cfg.NodeIdentity}
	ask := func(ctx context.Context, q fence.Request) (fence.Record, error) {
		return h.Leader(ctx, host.LeaderRequest{Root: as.Root, Node: as.Node, Request: q})
	}
	return &Leader{as: as, Taker: fence.NewTaker(cfg.Leader, may.Ask, ask)}
}

// lead returns a context that tells the host who asks, once the node is taken there.
func (l *Leader) lead(ctx context.Context) (context.Context, error) {
	if l == nil {
		return ctx, nil
	}
	as := l.as
	var err error
	if as.Holder, err = l.Holder(ctx); err != nil {
		return ctx, err
	}
	return host.WithLeader(ctx, as), nil
}

// Run takes the node as soon as its host can be reached, whether there is something to
// change or not: so a leader that cannot see this one learns of it.
func (l *Leader) Run(ctx context.Context) error {
	if l == nil {
		return nil
	}
	said := ""
	for {
		holder, err := l.Holder(ctx)
		switch class := backend.Class(err); {
		case err == nil && holder == "":
			log.G(ctx).Warn("the host has no room to record who leads the node: it does not refuse other leaders, " +
				"and this term ends when its lease cannot be renewed")
			return nil
		case err == nil:
			return nil
		case class != said && class != "Unavailable" && class != "Throttled" && ctx.Err() == nil:
			log.G(ctx).WithError(err).Error("the node cannot be taken on its host, and nothing is changed there; trying again")
			said = class
		}
		if pause.For(ctx, takeRetry) != nil {
			return nil //nolint:nilerr // the backend is to end
		}
	}
}
