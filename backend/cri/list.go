package cri

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
)

// detailCalls is how many details are asked for at once.
const detailCalls = 8

// reasonSandboxDied is for a sandbox that ended while containers of it run.
const reasonSandboxDied = backend.SandboxNotReady

// List makes two calls, and one more for each sandbox or container that has
// changed since it was last looked at.
func (p pods) List(ctx context.Context) ([]backend.PodFacts, error) {
	known, begin := p.details.snapshot(), time.Now()
	views, err := p.views(ctx, "")
	if err != nil {
		return nil, err
	}
	facts, err := p.facts(ctx, views)
	if err != nil {
		return nil, err
	}
	p.details.prune(known, views)
	p.hostLogs.listed(p.remote, begin, views)
	return facts, nil
}

// Inspect selects one pod by its label; for several, listing all costs no more.
// Containers that were just started are asked for their details beside the listings,
// not after them.
func (p pods) Inspect(ctx context.Context, uids []types.UID) ([]backend.PodFacts, error) {
	if len(uids) == 0 {
		return nil, nil
	}
	var only types.UID
	if len(uids) == 1 {
		only = uids[0]
	}
	var views []*view
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(1 + detailCalls)
	g.Go(func() (err error) {
		views, err = p.views(gctx, only)
		return err
	})
	for _, id := range p.details.started(uids) {
		g.Go(func() error {
			_, err := p.askContainer(gctx, id)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	views = slices.DeleteFunc(views, func(v *view) bool { return !slices.Contains(uids, v.ref.UID) })
	return p.facts(ctx, views)
}

// facts fetches the missing details of the views, a few at a time.
func (p pods) facts(ctx context.Context, views []*view) ([]backend.PodFacts, error) {
	facts := make([]backend.PodFacts, len(views))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(detailCalls)
	for i, v := range views {
		p.ownView(v)
		facts[i] = p.podFacts(v)
		if v.ready() {
			g.Go(func() (err error) {
				facts[i].IPs, err = p.sandboxIPs(gctx, v.ref.ID)
				return err
			})
		}
		facts[i].Containers = make([]backend.ContainerFacts, len(v.containers))
		for j, c := range v.containers {
			g.Go(func() (err error) {
				facts[i].Containers[j], err = p.containerFacts(gctx, c)
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("fetch details: %w", err)
	}
	if len(views) == 0 {
		return facts, nil
	}
	evicted, err := p.evicted(ctx) // after the listing: see there
	if err != nil {
		return nil, err
	}
	for i := range facts {
		facts[i].Evicted = evicted[facts[i].UID]
		// Gone since the listing.
		facts[i].Containers = slices.DeleteFunc(
			facts[i].Containers, func(c backend.ContainerFacts) bool { return c.ID == "" },
		)
	}
	return facts, nil
}

func (p pods) ownView(v *view) {
	if v.sandbox != nil {
		p.details.Own(v.ref.ID, v.ref.UID)
	}
	for _, c := range v.containers {
		p.details.Own(c.GetId(), v.ref.UID)
	}
}

func (r *remote) podFacts(v *view) backend.PodFacts {
	f := backend.PodFacts{Ref: v.ref, Live: v.ready() || len(v.running()) > 0}
	if v.sandbox != nil {
		f.CreatedAt = r.fromNanos(v.sandbox.GetCreatedAt())
	}
	if f.Live && !v.ready() {
		f.Reason, f.Message = reasonSandboxDied, "the sandbox has ended while containers of it still run"
	}
	return f
}

// containerFacts has no ID when the container has gone since the listing.
func (p pods) containerFacts(ctx context.Context, c *runtimeapi.Container) (backend.ContainerFacts, error) {
	round, err := convert.RoundOf(c)
	if err != nil {
		return backend.ContainerFacts{}, err
	}
	f := backend.ContainerFacts{
		Name:      c.GetMetadata().GetName(),
		ID:        c.GetId(),
		Attempt:   int(c.GetMetadata().GetAttempt()),
		Hash:      c.GetAnnotations()[convert.AnnotationHash],
		Round:     round,
		Image:     c.GetAnnotations()[convert.AnnotationImage],
		ImageID:   c.GetImageRef(),
		CreatedAt: p.fromNanos(c.GetCreatedAt()),
	}
	if c.GetState() == runtimeapi.ContainerState_CONTAINER_CREATED {
		return f, nil
	}
	s, err := p.containerStatus(ctx, c)
	if err != nil || s == nil {
		return backend.ContainerFacts{}, err
	}
	if s.GetImageRef() != "" {
		f.ImageID = s.GetImageRef()
	}
	f.StartedAt = p.fromNanos(s.GetStartedAt())
	if u := s.GetUser().GetLinux(); u != nil { // containerd 2.0 and newer
		f.User = &corev1.LinuxContainerUser{UID: u.GetUid(), GID: u.GetGid(), SupplementalGroups: u.GetSupplementalGroups()}
	}
	switch s.GetState() {
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		f.Resources = p.details.resources(c)
		f.StartedAt = orElse(f.StartedAt, f.CreatedAt)
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		f.FinishedAt = orElse(p.fromNanos(s.GetFinishedAt()), orElse(f.StartedAt, f.CreatedAt))
		f.ExitCode = s.GetExitCode()
		f.OOM = s.GetReason() == "OOMKilled"
		f.Reason, f.Message = s.GetReason(), s.GetMessage()
	case runtimeapi.ContainerState_CONTAINER_UNKNOWN:
		f.Reason, f.Message = "ContainerStatusUnknown", s.GetMessage()
	}
	return f, nil
}

// orElse guards against a runtime that does not say when.
func orElse(t, other time.Time) time.Time {
	if t.IsZero() {
		return other
	}
	return t
}
