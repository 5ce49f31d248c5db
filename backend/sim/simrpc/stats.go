package simrpc

import (
	"context"

	"github.com/burstlet/burstlet/backend"
)

type statsClient struct{ c *client }

// Stats measures the pods of the node.
func (s statsClient) Stats(ctx context.Context) (backend.StatsFacts, error) {
	var facts backend.StatsFacts
	if err := s.c.invoke(ctx, statsStats, none{}, &facts); err != nil {
		return backend.StatsFacts{}, err
	}
	return facts, nil
}
