package metered

import (
	"context"
	"io"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// Wrap puts metrics around every field of b that calls the remote.
func Wrap(b backend.Backend, m *Metrics) backend.Backend {
	w := b
	if b.Pods != nil {
		w.Pods = pods{b.Pods, m}
	}
	if b.Containers != nil {
		w.Containers = containers{b.Containers, m}
	}
	if b.Resize != nil {
		w.Resize = resizer{b.Resize, m}
	}
	if b.Files != nil {
		w.Files = files{b.Files, m}
	}
	if b.Refresh != nil {
		w.Refresh = refresher{b.Refresh, m}
	}
	if b.Images != nil {
		w.Images = images{b.Images, m}
	}
	if b.Store != nil {
		w.Store = store{b.Store, m}
	}
	if b.Events != nil {
		w.Events = events{b.Events, m}
	}
	if b.Costs != nil {
		m.costs.add(b.Name, b.Costs)
	}
	m.info.WithLabelValues(b.Name).Set(1)
	m.ways.add(b)
	wrapAccess(&w, b, m)
	return w
}

// wrapAccess is for what looks at pods or into them.
func wrapAccess(w *backend.Backend, b backend.Backend, m *Metrics) {
	if b.Exec != nil {
		w.Exec = execs{b.Exec, m}
	}
	if b.Attach != nil {
		w.Attach = attacher{b.Attach, m}
	}
	if b.Forward != nil {
		w.Forward = forwarder{b.Forward, m}
	}
	if b.Logs != nil {
		w.Logs = logs{b.Logs, m}
	}
	if b.Dial != nil {
		w.Dial = dialer{b.Dial, m}
	}
	if b.Stats != nil {
		w.Stats = stats{b.Stats, m}
	}
	if b.Node != nil {
		w.Node = node{b.Node, m}
	}
}

type pods struct {
	inner   backend.Pods
	metrics *Metrics
}

func (p pods) Launch(ctx context.Context, spec backend.LaunchSpec) error {
	return act(ctx, p.metrics, podsLaunch, func() error { return p.inner.Launch(ctx, spec) })
}

func (p pods) Stop(ctx context.Context, ref backend.Ref, grace time.Duration) error {
	return act(ctx, p.metrics, podsStop, func() error { return p.inner.Stop(ctx, ref, grace) })
}

func (p pods) Remove(ctx context.Context, ref backend.Ref) error {
	return act(ctx, p.metrics, podsRemove, func() error { return p.inner.Remove(ctx, ref) })
}

func (p pods) List(ctx context.Context) ([]backend.PodFacts, error) {
	return call(ctx, p.metrics, podsList, func() ([]backend.PodFacts, error) { return p.inner.List(ctx) })
}

func (p pods) Inspect(ctx context.Context, uids []types.UID) ([]backend.PodFacts, error) {
	return call(ctx, p.metrics, podsInspect, func() ([]backend.PodFacts, error) { return p.inner.Inspect(ctx, uids) })
}

type containers struct {
	inner   backend.Containers
	metrics *Metrics
}

func (c containers) Start(ctx context.Context, ref backend.Ref, spec backend.ContainerSpec) error {
	return act(ctx, c.metrics, containersStart, func() error { return c.inner.Start(ctx, ref, spec) })
}

func (c containers) Stop(ctx context.Context, ref backend.ContainerRef, grace time.Duration) error {
	return act(ctx, c.metrics, containersStop, func() error { return c.inner.Stop(ctx, ref, grace) })
}

func (c containers) Remove(ctx context.Context, ref backend.ContainerRef) error {
	return act(ctx, c.metrics, containersRemove, func() error { return c.inner.Remove(ctx, ref) })
}

type files struct {
	inner   backend.Files
	metrics *Metrics
}

func (f files) Place(ctx context.Context, spec backend.VolumeSpec) error {
	start := time.Now()
	err := act(ctx, f.metrics, filesPlace, func() error { return f.inner.Place(ctx, spec) })
	f.metrics.stored(plugin(&spec.Source), volumeMount, start, err)
	return err
}

func (f files) Clear(ctx context.Context, ref backend.Ref) error {
	start := time.Now()
	err := act(ctx, f.metrics, filesClear, func() error { return f.inner.Clear(ctx, ref) })
	f.metrics.stored("", volumeUnmount, start, err) // all of a pod's
	return err
}

func (f files) Volumes(ctx context.Context) ([]backend.VolumeFacts, error) {
	return call(ctx, f.metrics, filesVolumes, func() ([]backend.VolumeFacts, error) { return f.inner.Volumes(ctx) })
}

type refresher struct {
	inner   backend.Refresher
	metrics *Metrics
}

func (r refresher) Refresh(ctx context.Context, ref backend.Ref, volumes []backend.VolumeSpec) error {
	return act(ctx, r.metrics, refreshRefresh, func() error { return r.inner.Refresh(ctx, ref, volumes) })
}

type images struct {
	inner   backend.Images
	metrics *Metrics
}

func (i images) Find(ctx context.Context, image string) (string, error) {
	return call(ctx, i.metrics, imagesFind, func() (string, error) { return i.inner.Find(ctx, image) })
}

func (i images) Pull(ctx context.Context, image string, creds []backend.Credential) (string, error) {
	return call(ctx, i.metrics, imagesPull, func() (string, error) { return i.inner.Pull(ctx, image, creds) })
}

type store struct {
	inner   backend.ImageStore
	metrics *Metrics
}

func (s store) List(ctx context.Context) ([]backend.ImageFacts, error) {
	return call(ctx, s.metrics, storeList, func() ([]backend.ImageFacts, error) { return s.inner.List(ctx) })
}

func (s store) Remove(ctx context.Context, id string) error {
	return act(ctx, s.metrics, storeRemove, func() error { return s.inner.Remove(ctx, id) })
}

func (s store) Disk(ctx context.Context) (backend.FilesystemUsage, error) {
	return call(ctx, s.metrics, storeDisk, func() (backend.FilesystemUsage, error) { return s.inner.Disk(ctx) })
}

type events struct {
	inner   backend.Events
	metrics *Metrics
}

func (e events) Run(ctx context.Context, hints chan<- types.UID) error {
	return act(ctx, e.metrics, eventsRun, func() error { return e.inner.Run(ctx, hints) })
}

type execs struct {
	inner   backend.Exec
	metrics *Metrics
}

func (e execs) Exec(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
	return call(ctx, e.metrics, execExec, func() (int32, error) { return e.inner.Exec(ctx, ref, spec) })
}

type attacher struct {
	inner   backend.Attacher
	metrics *Metrics
}

func (a attacher) Attach(ctx context.Context, ref backend.ContainerRef, spec backend.AttachSpec) error {
	return act(ctx, a.metrics, attachAttach, func() error { return a.inner.Attach(ctx, ref, spec) })
}

type forwarder struct {
	inner   backend.Forwarder
	metrics *Metrics
}

func (f forwarder) Forward(ctx context.Context, pod backend.Ref, port uint16) (net.Conn, error) {
	return call(ctx, f.metrics, forwardForward, func() (net.Conn, error) { return f.inner.Forward(ctx, pod, port) })
}

type logs struct {
	inner   backend.Logs
	metrics *Metrics
}

func (l logs) Open(ctx context.Context, ref backend.ContainerRef, opts backend.LogOptions) (io.ReadCloser, error) {
	return call(ctx, l.metrics, logsOpen, func() (io.ReadCloser, error) { return l.inner.Open(ctx, ref, opts) })
}

type dialer struct {
	inner   backend.Dialer
	metrics *Metrics
}

func (d dialer) Dial(ctx context.Context, pod backend.Ref, address string) (net.Conn, error) {
	return call(ctx, d.metrics, dialDial, func() (net.Conn, error) { return d.inner.Dial(ctx, pod, address) })
}

type stats struct {
	inner   backend.Stats
	metrics *Metrics
}

func (s stats) Stats(ctx context.Context) (backend.StatsFacts, error) {
	return call(ctx, s.metrics, statsStats, func() (backend.StatsFacts, error) { return s.inner.Stats(ctx) })
}

type node struct {
	inner   backend.Node
	metrics *Metrics
}

func (n node) Describe(ctx context.Context) (backend.NodeFacts, error) {
	return call(ctx, n.metrics, nodeDescribe, func() (backend.NodeFacts, error) { return n.inner.Describe(ctx) })
}
