package helper

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/fence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeHost records what it is asked and answers what it is told.
type fakeHost struct {
	mu    sync.Mutex
	calls []fakeCall
	// answer is asked for each operation; nil answers zero values.
	answer func(ctx context.Context, op string, arg any) (any, error)
	log    func(ctx context.Context, r host.LogRequest) (io.ReadCloser, error)
}

type fakeCall struct {
	op  string
	arg any
}

func answer[R any](ctx context.Context, f *fakeHost, op string, arg any) (R, error) {
	f.mu.Lock()
	f.calls = append(f.calls, fakeCall{op, arg})
	f.mu.Unlock()
	var r R
	if f.answer == nil {
		return r, nil
	}
	v, err := f.answer(ctx, op, arg)
	if v != nil {
		r = v.(R)
	}
	return r, err
}

func (f *fakeHost) Facts(ctx context.Context) (host.Facts, error) {
	return answer[host.Facts](ctx, f, opFacts, none{})
}

func (f *fakeHost) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	return answer[[]byte](ctx, f, opReadFile, readFileArgs{path, limit})
}

func (f *fakeHost) Evicted(ctx context.Context, r host.EvictedRequest) ([]host.Eviction, error) {
	return answer[[]host.Eviction](ctx, f, opEvicted, r)
}

func (f *fakeHost) ReadWithin(ctx context.Context, w host.FileWithin) ([]byte, error) {
	return answer[[]byte](ctx, f, opWithin, w)
}

func (f *fakeHost) Call(ctx context.Context, c host.Call) ([]byte, error) {
	return answer[[]byte](ctx, f, opCall, c)
}

func (f *fakeHost) Leader(ctx context.Context, r host.LeaderRequest) (fence.Record, error) {
	return answer[fence.Record](ctx, f, opLeader, r)
}

func (f *fakeHost) Prepare(ctx context.Context, p host.Preparation) (host.Prepared, error) {
	return answer[host.Prepared](ctx, f, opPrepare, p)
}

func (f *fakeHost) Discard(ctx context.Context, d host.Discard) (host.Discarded, error) {
	return answer[host.Discarded](ctx, f, opDiscard, d)
}

func (f *fakeHost) Place(ctx context.Context, v host.Volume) error {
	_, err := answer[none](ctx, f, opPlace, v)
	return err
}

func (f *fakeHost) Clear(ctx context.Context, p host.PodDir) error {
	_, err := answer[none](ctx, f, opClear, p)
	return err
}

func (f *fakeHost) Volumes(ctx context.Context, root, node string) ([]host.Placed, error) {
	return answer[[]host.Placed](ctx, f, opVolumes, volumesArgs{root, node})
}

func (f *fakeHost) Log(ctx context.Context, r host.LogRequest) (io.ReadCloser, error) {
	return f.log(ctx, r)
}

func (f *fakeHost) Rotate(ctx context.Context, r host.Rotation) ([]string, error) {
	return answer[[]string](ctx, f, opRotate, r)
}

func (f *fakeHost) Sweep(ctx context.Context, s host.Sweep) error {
	_, err := answer[none](ctx, f, opSweep, s)
	return err
}

func (f *fakeHost) Strays(ctx context.Context, pods []host.Known) ([]string, error) {
	return answer[[]string](ctx, f, opStrays, pods)
}

func (f *fakeHost) Limit(ctx context.Context, c host.Cgroup) (time.Duration, error) {
	return answer[time.Duration](ctx, f, opLimit, c)
}

func (f *fakeHost) Usage(ctx context.Context, r host.UsageRequest) (host.Usage, error) {
	return answer[host.Usage](ctx, f, opUsage, r)
}

func (f *fakeHost) AwaitShutdown(ctx context.Context, r host.ShutdownRequest) (bool, error) {
	return answer[bool](ctx, f, opShutdown, r)
}

func (f *fakeHost) ShutdownDelay(ctx context.Context) (host.ShutdownDelay, error) {
	return answer[host.ShutdownDelay](ctx, f, opDelay, none{})
}

func (f *fakeHost) AwaitOOM(ctx context.Context, r host.OOMRequest) (host.OOMKills, error) {
	return answer[host.OOMKills](ctx, f, opOOM, r)
}

func (f *fakeHost) SystemLog(ctx context.Context, r host.SystemLogRequest) (io.ReadCloser, error) {
	return answer[io.ReadCloser](ctx, f, opSystem, r)
}

// started is a helper that serves h over a stream, and its client.
func started(t testing.TB, h host.Host) *Client {
	t.Helper()
	here, there := net.Pipe()
	c := NewClient(here)
	served := make(chan error, 1)
	go func() { served <- Serve(context.Background(), there, h) }()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return c
}
