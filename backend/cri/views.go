package cri

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/stats"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// view is one attempt of a pod as two listings show it.
type view struct {
	ref backend.Ref
	// sandbox is nil when only containers are left of the attempt.
	sandbox    *runtimeapi.PodSandbox
	containers []*runtimeapi.Container
}

func (v *view) ready() bool {
	return v.sandbox != nil && v.sandbox.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY
}

// running are the ids of containers that run or may run.
func (v *view) running() []string {
	var ids []string
	for _, c := range v.containers {
		if s := c.GetState(); s == runtimeapi.ContainerState_CONTAINER_RUNNING ||
			s == runtimeapi.ContainerState_CONTAINER_UNKNOWN {
			ids = append(ids, c.GetId())
		}
	}
	return ids
}

func (r *remote) listSandboxes(ctx context.Context, uid types.UID) ([]*runtimeapi.PodSandbox, error) {
	reply, err := r.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: r.convert.Selector(uid)},
	})
	if err != nil {
		return nil, transport.Failed(err, "list sandboxes")
	}
	return reply.GetItems(), nil
}

func (r *remote) listContainers(ctx context.Context, selector map[string]string) ([]*runtimeapi.Container, error) {
	reply, err := r.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{LabelSelector: selector},
	})
	if err != nil {
		return nil, transport.Failed(err, "list containers")
	}
	return reply.GetContainers(), nil
}

// views lists this node's attempts, of one pod unless uid is empty, in the order
// of UID and attempt.
func (r *remote) views(ctx context.Context, uid types.UID) ([]*view, error) {
	var sandboxes []*runtimeapi.PodSandbox
	var containers []*runtimeapi.Container
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		sandboxes, err = r.listSandboxes(gctx, uid)
		return err
	})
	g.Go(func() (err error) {
		containers, err = r.listContainers(gctx, r.convert.Selector(uid))
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(containers, func(c *runtimeapi.Container) bool { return !hasSandbox(sandboxes, c) }) {
		// The two listings are not of one moment: a sandbox made between them
		// is in the later one.
		var err error
		if sandboxes, err = r.listSandboxes(ctx, uid); err != nil {
			return nil, err
		}
	}
	return group(sandboxes, containers)
}

func hasSandbox(sandboxes []*runtimeapi.PodSandbox, c *runtimeapi.Container) bool {
	return slices.ContainsFunc(sandboxes, func(s *runtimeapi.PodSandbox) bool { return s.GetId() == c.GetPodSandboxId() })
}

func group(sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) ([]*view, error) {
	byID := map[string]*view{}
	views := make([]*view, 0, len(sandboxes))
	for _, s := range sandboxes {
		v := &view{ref: convert.SandboxRef(s), sandbox: s}
		byID[s.GetId()] = v
		views = append(views, v)
	}
	for _, c := range containers {
		v := byID[c.GetPodSandboxId()]
		if v == nil {
			ref, err := convert.ContainerPodRef(c)
			if err != nil {
				return nil, fmt.Errorf("find pod of container without sandbox: %w", err)
			}
			v = &view{ref: ref}
			byID[c.GetPodSandboxId()] = v
			views = append(views, v)
		}
		v.containers = append(v.containers, c)
	}
	slices.SortFunc(views, func(a, b *view) int {
		return cmp.Or(
			cmp.Compare(a.ref.UID, b.ref.UID), cmp.Compare(a.ref.Attempt, b.ref.Attempt), cmp.Compare(a.ref.ID, b.ref.ID),
		)
	})
	for _, v := range views {
		slices.SortFunc(v.containers, func(a, b *runtimeapi.Container) int {
			return cmp.Or(cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt()), cmp.Compare(a.GetId(), b.GetId()))
		})
	}
	return views, nil
}

// attempts are all attempts of this node, for package stats.
func (r *remote) attempts(ctx context.Context) ([]stats.Attempt, error) {
	views, err := r.views(ctx, "")
	if err != nil {
		return nil, err
	}
	out := make([]stats.Attempt, len(views))
	for i, v := range views {
		out[i] = stats.Attempt{Ref: v.ref, Sandbox: v.sandbox, Ready: v.ready(), Containers: v.containers}
	}
	return out, nil
}

// split parts the views of one pod into those of the attempt and the others.
func split(views []*view, attempt int) (these, others []*view) {
	for _, v := range views {
		if v.ref.Attempt == attempt {
			these = append(these, v)
		} else {
			others = append(others, v)
		}
	}
	return these, others
}
