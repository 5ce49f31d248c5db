package intercept

import (
	"context"
	"io"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// The wrappers of what reaches into pods and describes them.

type events struct {
	inner backend.Events
	around
}

func (e events) Run(ctx context.Context, hints chan<- types.UID) error {
	next := func(ctx context.Context) error { return e.inner.Run(ctx, hints) }
	return act(ctx, e.around, EventsRun, next, &hints)
}

type execs struct {
	inner backend.Exec
	around
}

func (e execs) Exec(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
	next := func(ctx context.Context) (int32, error) { return e.inner.Exec(ctx, ref, spec) }
	return ask(ctx, e.around, ExecExec, next, &ref, &spec)
}

type attacher struct {
	inner backend.Attacher
	around
}

func (a attacher) Attach(ctx context.Context, ref backend.ContainerRef, spec backend.AttachSpec) error {
	next := func(ctx context.Context) error { return a.inner.Attach(ctx, ref, spec) }
	return act(ctx, a.around, AttachAttach, next, &ref, &spec)
}

type forwarder struct {
	inner backend.Forwarder
	around
}

func (p forwarder) Forward(ctx context.Context, pod backend.Ref, port uint16) (net.Conn, error) {
	next := func(ctx context.Context) (net.Conn, error) { return p.inner.Forward(ctx, pod, port) }
	return ask(ctx, p.around, ForwardForward, next, &pod, &port)
}

type logs struct {
	inner backend.Logs
	around
}

func (l logs) Open(ctx context.Context, ref backend.ContainerRef, opts backend.LogOptions) (io.ReadCloser, error) {
	next := func(ctx context.Context) (io.ReadCloser, error) { return l.inner.Open(ctx, ref, opts) }
	return ask(ctx, l.around, LogsOpen, next, &ref, &opts)
}

type dialer struct {
	inner backend.Dialer
	around
}

func (d dialer) Dial(ctx context.Context, pod backend.Ref, address string) (net.Conn, error) {
	next := func(ctx context.Context) (net.Conn, error) { return d.inner.Dial(ctx, pod, address) }
	return ask(ctx, d.around, DialDial, next, &pod, &address)
}

type stats struct {
	inner backend.Stats
	around
}

func (s stats) Stats(ctx context.Context) (backend.StatsFacts, error) {
	next := func(ctx context.Context) (backend.StatsFacts, error) { return s.inner.Stats(ctx) }
	return ask(ctx, s.around, StatsStats, next)
}

type signals struct {
	inner backend.Signals
	around
}

func (s signals) Signals(ctx context.Context) (backend.SignalFacts, error) {
	next := func(ctx context.Context) (backend.SignalFacts, error) { return s.inner.Signals(ctx) }
	return ask(ctx, s.around, SignalsSignals, next)
}

type shutdown struct {
	inner backend.Shutdown
	around
}

func (s shutdown) Await(ctx context.Context, was bool) (bool, error) {
	next := func(ctx context.Context) (bool, error) { return s.inner.Await(ctx, was) }
	return ask(ctx, s.around, ShutdownAwait, next, &was)
}

type systemOOMs struct {
	inner backend.SystemOOMs
	around
}

func (o systemOOMs) Await(ctx context.Context, after string) (backend.OOMKills, error) {
	next := func(ctx context.Context) (backend.OOMKills, error) { return o.inner.Await(ctx, after) }
	return ask(ctx, o.around, SystemOOMsAwait, next, &after)
}

type checkpointer struct {
	inner backend.Checkpointer
	around
}

func (c checkpointer) Checkpoint(ctx context.Context, ref backend.ContainerRef, timeout time.Duration) (string, error) {
	next := func(ctx context.Context) (string, error) { return c.inner.Checkpoint(ctx, ref, timeout) }
	return ask(ctx, c.around, CheckpointCheckpoint, next, &ref, &timeout)
}

type systemLogs struct {
	inner backend.SystemLogs
	around
}

func (l systemLogs) Open(ctx context.Context, q backend.SystemLogQuery) (io.ReadCloser, error) {
	next := func(ctx context.Context) (io.ReadCloser, error) { return l.inner.Open(ctx, q) }
	return ask(ctx, l.around, SystemLogsOpen, next, &q)
}

type node struct {
	inner backend.Node
	around
}

func (n node) Describe(ctx context.Context) (backend.NodeFacts, error) {
	next := func(ctx context.Context) (backend.NodeFacts, error) { return n.inner.Describe(ctx) }
	return ask(ctx, n.around, NodeDescribe, next)
}
