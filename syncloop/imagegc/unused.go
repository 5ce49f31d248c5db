package imagegc

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/containerd/log"
)

// DeleteUnused removes every image that nobody uses or wants, but those just pulled
// (kubelet: DeleteUnusedImages). Run does it, once Ready was said, also for a
// caller whose context ends before.
func (c *Collector) DeleteUnused(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case c.unused <- done:
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-done:
		return err
	}
}

func (c *Collector) deleteUnused(ctx context.Context) error {
	facts, err := bounded(ctx, c.cfg.Store.List)
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	now := time.Now()
	c.records.detect(facts, newWanted(c.cfg.Wanted()), now)
	freed, err := c.freeSpace(ctx, math.MaxUint64, now)
	log.G(ctx).WithField("bytes", freed).Info("removed the images that nobody uses")
	return err
}
