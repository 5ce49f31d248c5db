package simrpc

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// far is a backend that keeps what it was asked and answers as told.
type far struct {
	mu    sync.Mutex
	asked []any // by the last call
	pods  []backend.PodFacts
	vols  []backend.VolumeFacts
	facts backend.NodeFacts
	stats backend.StatsFacts
	kept  []backend.ImageFacts
	disk  backend.FilesystemUsage
	err   error

	exec func(ctx context.Context, spec backend.ExecSpec) (int32, error)
	join func(ctx context.Context, spec backend.AttachSpec) error
	dial func(ctx context.Context, address string) (net.Conn, error)
	port func(ctx context.Context, port uint16) (net.Conn, error)
	logs func(ctx context.Context) (io.ReadCloser, error)
	hint func(ctx context.Context, hints chan<- types.UID) error
	list func(ctx context.Context) error
}

// backend lends every field.
func (f *far) backend(string) backend.Backend {
	return backend.Backend{
		Name: "far",
		Limits: backend.Limits{
			Runtime: "far", MaxGrace: time.Minute, Settle: 1, Call: 2, Pull: 3, Relist: 4, Supervised: true,
		},
		Pods: farPods{f}, Containers: farContainers{f}, Resize: farResizer{f}, Files: farFiles{f}, Refresh: farRefresher{f},
		Images: farImages{f}, Store: farStore{f},
		Events: farEvents{f}, Exec: farExec{f}, Attach: farAttach{f}, Forward: farForward{f}, Logs: farLogs{f},
		Dial: farDial{f}, Node: farNode{f}, Stats: farStats{f},
		Check: backend.CheckFunc(func(*corev1.Pod) []backend.Refusal { panic("asked over the wire") }),
	}
}

func (f *far) ask(args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = args
	return f.err
}

type farPods struct{ f *far }

func (p farPods) Launch(_, _ context.Context, spec backend.LaunchSpec) error {
	return p.f.ask("launch", spec)
}

func (p farPods) Stop(_ context.Context, ref backend.Ref, grace time.Duration) error {
	return p.f.ask("stop", ref, grace)
}
func (p farPods) Remove(_ context.Context, ref backend.Ref) error { return p.f.ask("remove", ref) }

func (p farPods) List(ctx context.Context) ([]backend.PodFacts, error) {
	if p.f.list != nil {
		return nil, p.f.list(ctx)
	}
	return p.f.pods, p.f.ask("list")
}

func (p farPods) Inspect(_ context.Context, uids []types.UID) ([]backend.PodFacts, error) {
	return p.f.pods, p.f.ask("inspect", uids)
}

type farContainers struct{ f *far }

func (c farContainers) Start(_ context.Context, ref backend.Ref, spec backend.ContainerSpec) error {
	return c.f.ask("start", ref, spec)
}

func (c farContainers) Stop(_ context.Context, ref backend.ContainerRef, grace time.Duration) error {
	return c.f.ask("stop container", ref, grace)
}

func (c farContainers) Remove(_ context.Context, ref backend.ContainerRef) error {
	return c.f.ask("remove container", ref)
}

type farFiles struct{ f *far }

func (v farFiles) Place(_ context.Context, spec backend.VolumeSpec) error {
	return v.f.ask("place", spec)
}
func (v farFiles) Clear(_ context.Context, ref backend.Ref) error { return v.f.ask("clear", ref) }
func (v farFiles) Volumes(context.Context) ([]backend.VolumeFacts, error) {
	return v.f.vols, v.f.ask("volumes")
}

func (v farFiles) Read(_ context.Context, file backend.VolumeFile) ([]byte, error) {
	return []byte("A='1'\x00"), v.f.ask("read", file)
}

type farRefresher struct{ f *far }

func (r farRefresher) Refresh(_ context.Context, ref backend.Ref, volumes []backend.VolumeSpec) error {
	return r.f.ask("refresh", ref, volumes)
}

type farImages struct{ f *far }

func (i farImages) Find(_ context.Context, image string) (string, error) {
	return "id of " + image, i.f.ask("find", image)
}

func (i farImages) Pull(_ context.Context, image string, creds []backend.Credential) (backend.PulledImage, error) {
	return backend.PulledImage{ID: "id of " + image, Size: 5}, i.f.ask("pull", image, creds)
}

type farResizer struct{ f *far }

func (r farResizer) Resize(_ context.Context, ref backend.ContainerRef, spec backend.ContainerSpec) error {
	return r.f.ask("resize", ref, spec)
}

type farStore struct{ f *far }

func (s farStore) List(context.Context) ([]backend.ImageFacts, error) {
	return s.f.kept, s.f.ask("list images")
}
func (s farStore) Remove(_ context.Context, id string) error { return s.f.ask("remove image", id) }
func (s farStore) Disk(context.Context) (backend.FilesystemUsage, error) {
	return s.f.disk, s.f.ask("disk")
}

type farEvents struct{ f *far }

func (e farEvents) Run(ctx context.Context, hints chan<- types.UID) error {
	return e.f.hint(ctx, hints)
}

type farExec struct{ f *far }

func (e farExec) Exec(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
	if err := e.f.ask("exec", ref, spec.Command); err != nil {
		return 0, err
	}
	return e.f.exec(ctx, spec)
}

type farAttach struct{ f *far }

func (a farAttach) Attach(ctx context.Context, ref backend.ContainerRef, spec backend.AttachSpec) error {
	if err := a.f.ask("attach", ref); err != nil {
		return err
	}
	return a.f.join(ctx, spec)
}

type farForward struct{ f *far }

func (p farForward) Forward(ctx context.Context, pod backend.Ref, port uint16) (net.Conn, error) {
	if err := p.f.ask("forward", pod, port); err != nil {
		return nil, err
	}
	return p.f.port(ctx, port)
}

type farLogs struct{ f *far }

func (l farLogs) Open(ctx context.Context, ref backend.ContainerRef, opts backend.LogOptions) (io.ReadCloser, error) {
	if err := l.f.ask("logs", ref, opts); err != nil {
		return nil, err
	}
	return l.f.logs(ctx)
}

type farDial struct{ f *far }

func (d farDial) Dial(ctx context.Context, pod backend.Ref, address string) (net.Conn, error) {
	if err := d.f.ask("dial", pod, address); err != nil {
		return nil, err
	}
	return d.f.dial(ctx, address)
}

type farNode struct{ f *far }

func (n farNode) Describe(context.Context) (backend.NodeFacts, error) {
	return n.f.facts, n.f.ask("describe")
}
