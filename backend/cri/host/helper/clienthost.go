package helper

import (
	"context"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/fence"
)

// Facts implements [host.Host].
func (c *Client) Facts(ctx context.Context) (host.Facts, error) {
	return call[host.Facts](ctx, c, opFacts, none{}, maxReply)
}

// ReadFile implements [host.Host].
func (c *Client) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	return call[[]byte](ctx, c, opReadFile, readFileArgs{Path: path, Max: limit}, maxReply+encodedLen(limit))
}

// ReadWithin implements [host.Host].
func (c *Client) ReadWithin(ctx context.Context, f host.FileWithin) ([]byte, error) {
	return call[[]byte](ctx, c, opWithin, f, maxReply+encodedLen(f.Limit))
}

// Prepare implements [host.Host].
func (c *Client) Prepare(ctx context.Context, p host.Preparation) (host.Prepared, error) {
	return call[host.Prepared](ctx, c, opPrepare, p, maxListing)
}

// Discard implements [host.Host].
func (c *Client) Discard(ctx context.Context, d host.Discard) (host.Discarded, error) {
	return call[host.Discarded](ctx, c, opDiscard, d, maxReply)
}

// Place implements [host.Host].
func (c *Client) Place(ctx context.Context, v host.Volume) error {
	_, err := call[none](ctx, c, opPlace, v, maxReply)
	return err
}

// Clear implements [host.Host].
func (c *Client) Clear(ctx context.Context, pod host.PodDir) error {
	_, err := call[none](ctx, c, opClear, pod, maxReply)
	return err
}

// Volumes implements [host.Host].
func (c *Client) Volumes(ctx context.Context, root, node string) ([]host.Placed, error) {
	return call[[]host.Placed](ctx, c, opVolumes, volumesArgs{Root: root, Node: node}, maxListing)
}

// Rotate implements [host.Host].
func (c *Client) Rotate(ctx context.Context, r host.Rotation) ([]string, error) {
	return call[[]string](ctx, c, opRotate, r, maxListing)
}

// Sweep implements [host.Host].
func (c *Client) Sweep(ctx context.Context, s host.Sweep) error {
	_, err := call[none](ctx, c, opSweep, s, maxReply)
	return err
}

// Strays implements [host.Host].
func (c *Client) Strays(ctx context.Context, pods []host.Known) ([]string, error) {
	return call[[]string](ctx, c, opStrays, pods, maxListing)
}

// Limit implements [host.Host].
func (c *Client) Limit(ctx context.Context, g host.Cgroup) (time.Duration, error) {
	return call[time.Duration](ctx, c, opLimit, g, maxReply)
}

// Usage implements [host.Host].
func (c *Client) Usage(ctx context.Context, r host.UsageRequest) (host.Usage, error) {
	return call[host.Usage](ctx, c, opUsage, r, maxListing)
}

// Evicted implements [host.Host].
func (c *Client) Evicted(ctx context.Context, r host.EvictedRequest) ([]host.Eviction, error) {
	return call[[]host.Eviction](ctx, c, opEvicted, r, maxListing)
}

// AwaitShutdown implements [host.Host].
func (c *Client) AwaitShutdown(ctx context.Context, r host.ShutdownRequest) (bool, error) {
	return call[bool](ctx, c, opShutdown, r, maxReply)
}

// ShutdownDelay implements [host.Host].
func (c *Client) ShutdownDelay(ctx context.Context) (host.ShutdownDelay, error) {
	return call[host.ShutdownDelay](ctx, c, opDelay, none{}, maxReply)
}

// AwaitOOM implements [host.Host].
func (c *Client) AwaitOOM(ctx context.Context, r host.OOMRequest) (host.OOMKills, error) {
	return call[host.OOMKills](ctx, c, opOOM, r, maxListing)
}

// Leader implements [host.Host].
func (c *Client) Leader(ctx context.Context, r host.LeaderRequest) (fence.Record, error) {
	return call[fence.Record](ctx, c, opLeader, r, maxReply)
}

// Call implements [host.Host].
func (c *Client) Call(ctx context.Context, r host.Call) ([]byte, error) {
	return call[[]byte](ctx, c, opCall, r, maxRuntimeReply)
}

// encodedLen is what that many bytes take in JSON.
func encodedLen(n int64) int64 { return (min(max(n, 0), maxListing) + 2) / 3 * 4 }
