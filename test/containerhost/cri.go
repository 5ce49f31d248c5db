package containerhost

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// pollInterval is how often readiness is looked at.
	pollInterval = 20 * time.Millisecond
	// maxMessage is containerd's own bound, in bytes.
	maxMessage = 16 << 20
	// removers is how many sandboxes are removed at a time.
	removers = 8
)

// connect makes the clients; nothing is dialled before the first call.
func (h *Host) connect() error {
	conn, err := grpc.NewClient(h.Socket(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		// Nobody else waits for this socket, so ask often.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: pollInterval, Multiplier: 1.5, MaxDelay: 10 * pollInterval},
		}))
	if err != nil {
		return fmt.Errorf("make CRI client: %w", err)
	}
	h.conn = conn
	h.runtime = runtimeapi.NewRuntimeServiceClient(conn)
	h.images = runtimeapi.NewImageServiceClient(conn)
	return nil
}

// poll calls check until it succeeds, containerd is gone or ctx ends.
func (h *Host) poll(ctx context.Context, what string, check func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if !h.supervisor.running() {
			return fmt.Errorf("wait for %s: containerd ended:\n%s", what, h.supervisor.log.String())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last: %w", what, ctx.Err(), err)
		}
	}
}

func (h *Host) awaitReady(ctx context.Context) error {
	return h.poll(ctx, "CRI", func(ctx context.Context) error {
		if _, err := h.runtime.Version(ctx, &runtimeapi.VersionRequest{}); err != nil {
			return fmt.Errorf("get CRI version: %w", err)
		}
		reply, err := h.runtime.Status(ctx, &runtimeapi.StatusRequest{})
		if err != nil {
			return fmt.Errorf("get CRI status: %w", err)
		}
		ready := map[string]bool{}
		for _, condition := range reply.GetStatus().GetConditions() {
			ready[condition.GetType()] = condition.GetStatus()
		}
		if !ready[runtimeapi.RuntimeReady] || !ready[runtimeapi.NetworkReady] {
			return fmt.Errorf("not ready: %v", reply.GetStatus().GetConditions())
		}
		return nil
	})
}

// awaitImage waits until CRI has heard of an image that was imported beside it.
func (h *Host) awaitImage(ctx context.Context, ref string) error {
	return h.poll(ctx, "image "+ref, func(ctx context.Context) error {
		reply, err := h.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
		if err != nil {
			return fmt.Errorf("get image status: %w", err)
		}
		if reply.GetImage() == nil {
			return errors.New("image is not known")
		}
		return nil
	})
}

// removeSandboxes removes every sandbox with its containers, at once and
// without grace.
func (h *Host) removeSandboxes(ctx context.Context) error {
	list, err := h.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("list sandboxes: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(removers)
	for _, sandbox := range list.GetItems() {
		group.Go(func() error {
			id := sandbox.GetId()
			if _, err := h.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
				return fmt.Errorf("stop sandbox %s: %w", id, err)
			}
			if _, err := h.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
				return fmt.Errorf("remove sandbox %s: %w", id, err)
			}
			return nil
		})
	}
	return group.Wait()
}
