package host

import (
	"context"

	"github.com/burstlet/burstlet/backend/fence"
)

// LeaderRequest is about who leads a node, whose pods stand below Root.
type LeaderRequest struct {
	Root string
	// Node is the node's identity.
	Node string
	fence.Request
}

// Leader says who asks for a change: the host makes those of the node's last leader alone.
// Without a Holder it makes it for anybody.
type Leader struct{ Root, Node, Holder string }

type leaderKey struct{}

// WithLeader returns a context for operations that this leader asks for.
func WithLeader(ctx context.Context, l Leader) context.Context {
	return context.WithValue(ctx, leaderKey{}, l)
}

// LeaderOf is who asks for an operation; the zero value: nobody says.
func LeaderOf(ctx context.Context) Leader {
	l, _ := ctx.Value(leaderKey{}).(Leader)
	return l
}
