package gate

import (
	"context"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// Wrap puts the gate before every call of b that changes something on the
// remote. Reads, probes' and forwarded connections and logs pass.
func (g *Gate) Wrap(b backend.Backend) backend.Backend {
	if b.Pods != nil {
		b.Pods = pods{b.Pods, g}
	}
	if b.Containers != nil {
		b.Containers = containers{b.Containers, g}
	}
	if b.Resize != nil {
		b.Resize = resizer{b.Resize, g}
	}
	if b.Files != nil {
		b.Files = files{b.Files, g}
	}
	if b.Refresh != nil {
		b.Refresh = refresher{b.Refresh, g}
	}
	if b.Images != nil {
		b.Images = images{b.Images, g}
	}
	if b.Store != nil {
		b.Store = store{b.Store, g}
	}
	if b.Exec != nil {
		b.Exec = execs{b.Exec, g}
	}
	if b.Attach != nil {
		b.Attach = attaches{b.Attach, g}
	}
	return b
}

type pods struct {
	backend.Pods
	gate *Gate
}

func (p pods) Launch(ctx context.Context, spec backend.LaunchSpec) error {
	if err := p.gate.pass("launch"); err != nil {
		return err
	}
	return p.Pods.Launch(ctx, spec)
}

func (p pods) Stop(ctx context.Context, ref backend.Ref, grace time.Duration) error {
	if err := p.gate.pass("stop"); err != nil {
		return err
	}
	return p.Pods.Stop(ctx, ref, grace)
}

func (p pods) Remove(ctx context.Context, ref backend.Ref) error {
	if err := p.gate.pass("remove"); err != nil {
		return err
	}
	return p.Pods.Remove(ctx, ref)
}

type containers struct {
	backend.Containers
	gate *Gate
}

func (c containers) Start(ctx context.Context, ref backend.Ref, spec backend.ContainerSpec) error {
	if err := c.gate.pass("start container"); err != nil {
		return err
	}
	return c.Containers.Start(ctx, ref, spec)
}

func (c containers) Stop(ctx context.Context, ref backend.ContainerRef, grace time.Duration) error {
	if err := c.gate.pass("stop container"); err != nil {
		return err
	}
	return c.Containers.Stop(ctx, ref, grace)
}

func (c containers) Remove(ctx context.Context, ref backend.ContainerRef) error {
	if err := c.gate.pass("remove container"); err != nil {
		return err
	}
	return c.Containers.Remove(ctx, ref)
}

type files struct {
	backend.Files
	gate *Gate
}

func (f files) Place(ctx context.Context, spec backend.VolumeSpec) error {
	if err := f.gate.pass("place volume"); err != nil {
		return err
	}
	return f.Files.Place(ctx, spec)
}

func (f files) Clear(ctx context.Context, ref backend.Ref) error {
	if err := f.gate.pass("clear volumes"); err != nil {
		return err
	}
	return f.Files.Clear(ctx, ref)
}

type refresher struct {
	backend.Refresher
	gate *Gate
}

func (r refresher) Refresh(ctx context.Context, ref backend.Ref, volumes []backend.VolumeSpec) error {
	if err := r.gate.pass("refresh volumes"); err != nil {
		return err
	}
	return r.Refresher.Refresh(ctx, ref, volumes)
}

type images struct {
	backend.Images
	gate *Gate
}

func (i images) Pull(ctx context.Context, image string, creds []backend.Credential) (string, error) {
	if err := i.gate.pass("pull"); err != nil {
		return "", err
	}
	return i.Images.Pull(ctx, image, creds)
}

type store struct {
	backend.ImageStore
	gate *Gate
}

func (s store) Remove(ctx context.Context, id string) error {
	if err := s.gate.pass("remove image"); err != nil {
		return err
	}
	return s.ImageStore.Remove(ctx, id)
}

type execs struct {
	inner backend.Exec
	gate  *Gate
}

func (e execs) Exec(ctx context.Context, ref backend.ContainerRef, spec backend.ExecSpec) (int32, error) {
	if err := e.gate.pass("exec"); err != nil {
		return 0, err
	}
	return e.inner.Exec(ctx, ref, spec)
}

type attaches struct {
	inner backend.Attacher
	gate  *Gate
}

func (a attaches) Attach(ctx context.Context, ref backend.ContainerRef, spec backend.AttachSpec) error {
	if err := a.gate.pass("attach"); err != nil {
		return err
	}
	return a.inner.Attach(ctx, ref, spec)
}
