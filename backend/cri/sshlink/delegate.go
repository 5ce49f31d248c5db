package sshlink

import (
	"context"
	"io"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/fence"
)

// delegate is [host.Host] by the helpers that run at the moment of a call.
type delegate struct{ helper, reader *assistant }

var _ host.Host = (*delegate)(nil)

// call makes one call on the helper.
func call[T any](ctx context.Context, d *delegate, f func(host.Host) (T, error)) (T, error) {
	h, err := d.helper.ready(ctx)
	if err != nil {
		var none T
		return none, err
	}
	return f(h)
}

func (d *delegate) Facts(ctx context.Context) (host.Facts, error) {
	return call(ctx, d, func(h host.Host) (host.Facts, error) { return h.Facts(ctx) })
}

func (d *delegate) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	return call(ctx, d, func(h host.Host) ([]byte, error) { return h.ReadFile(ctx, path, limit) })
}

func (d *delegate) ReadWithin(ctx context.Context, f host.FileWithin) ([]byte, error) {
	return call(ctx, d, func(h host.Host) ([]byte, error) { return h.ReadWithin(ctx, f) })
}

func (d *delegate) Prepare(ctx context.Context, p host.Preparation) (host.Prepared, error) {
	return call(ctx, d, func(h host.Host) (host.Prepared, error) { return h.Prepare(ctx, p) })
}

func (d *delegate) Volumes(ctx context.Context, root, node string) ([]host.Placed, error) {
	return call(ctx, d, func(h host.Host) ([]host.Placed, error) { return h.Volumes(ctx, root, node) })
}

func (d *delegate) Rotate(ctx context.Context, r host.Rotation) ([]string, error) {
	return call(ctx, d, func(h host.Host) ([]string, error) { return h.Rotate(ctx, r) })
}

func (d *delegate) Usage(ctx context.Context, r host.UsageRequest) (host.Usage, error) {
	return call(ctx, d, func(h host.Host) (host.Usage, error) { return h.Usage(ctx, r) })
}

func (d *delegate) Evicted(ctx context.Context, r host.EvictedRequest) ([]host.Eviction, error) {
	return call(ctx, d, func(h host.Host) ([]host.Eviction, error) { return h.Evicted(ctx, r) })
}

func (d *delegate) AwaitShutdown(ctx context.Context, r host.ShutdownRequest) (bool, error) {
	return call(ctx, d, func(h host.Host) (bool, error) { return h.AwaitShutdown(ctx, r) })
}

func (d *delegate) ShutdownDelay(ctx context.Context) (host.ShutdownDelay, error) {
	return call(ctx, d, func(h host.Host) (host.ShutdownDelay, error) { return h.ShutdownDelay(ctx) })
}

func (d *delegate) AwaitOOM(ctx context.Context, r host.OOMRequest) (host.OOMKills, error) {
	return call(ctx, d, func(h host.Host) (host.OOMKills, error) { return h.AwaitOOM(ctx, r) })
}

func (d *delegate) Leader(ctx context.Context, r host.LeaderRequest) (fence.Record, error) {
	return call(ctx, d, func(h host.Host) (fence.Record, error) { return h.Leader(ctx, r) })
}

func (d *delegate) Call(ctx context.Context, c host.Call) ([]byte, error) {
	return call(ctx, d, func(h host.Host) ([]byte, error) { return h.Call(ctx, c) })
}

func (d *delegate) Discard(ctx context.Context, discard host.Discard) (host.Discarded, error) {
	return call(ctx, d, func(h host.Host) (host.Discarded, error) { return h.Discard(ctx, discard) })
}

func (d *delegate) Place(ctx context.Context, v host.Volume) error {
	h, err := d.helper.ready(ctx)
	if err != nil {
		return err
	}
	return h.Place(ctx, v)
}

func (d *delegate) Clear(ctx context.Context, pod host.PodDir) error {
	h, err := d.helper.ready(ctx)
	if err != nil {
		return err
	}
	return h.Clear(ctx, pod)
}

func (d *delegate) Sweep(ctx context.Context, s host.Sweep) error {
	h, err := d.helper.ready(ctx)
	if err != nil {
		return err
	}
	return h.Sweep(ctx, s)
}

func (d *delegate) Strays(ctx context.Context, pods []host.Known) ([]string, error) {
	return call(ctx, d, func(h host.Host) ([]string, error) { return h.Strays(ctx, pods) })
}

func (d *delegate) Limit(ctx context.Context, c host.Cgroup) (time.Duration, error) {
	return call(ctx, d, func(h host.Host) (time.Duration, error) { return h.Limit(ctx, c) })
}

// Log is read on the streams connection, so that a large one is in nobody's way, by
// a helper that is started with the first log. Until that is up the control
// connection does as well.
func (d *delegate) Log(ctx context.Context, r host.LogRequest) (io.ReadCloser, error) {
	return d.read(ctx, func(h host.Host) (io.ReadCloser, error) { return h.Log(ctx, r) })
}

// SystemLog is read as a log is.
func (d *delegate) SystemLog(ctx context.Context, r host.SystemLogRequest) (io.ReadCloser, error) {
	return d.read(ctx, func(h host.Host) (io.ReadCloser, error) { return h.SystemLog(ctx, r) })
}

func (d *delegate) read(ctx context.Context, open func(host.Host) (io.ReadCloser, error)) (io.ReadCloser, error) {
	d.reader.want()
	return rereadable(ctx, d.helper.line.signal, func() (io.ReadCloser, error) {
		if h, err := d.reader.current(); err == nil {
			return open(h)
		}
		h, err := d.helper.ready(ctx)
		if err != nil {
			return nil, err
		}
		return open(h)
	})
}
