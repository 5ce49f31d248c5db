package ecs

import (
	"context"
	"fmt"

	"github.com/burstlet/burstlet/backend"
)

// refresher is backend.Refresher by the pod's own secret, which burstlet-agent reads.
type refresher struct{ pods *pods }

// Refresh implements backend.Refresher.
func (r refresher) Refresh(ctx context.Context, ref backend.Ref, volumes []backend.VolumeSpec) error {
	id, live := r.pods.known.LiveIdentity(ref)
	if !live {
		return backend.Errorf(
			backend.ErrNotFound, "refresh volumes of pod %s/%s: no task of it is live", ref.Namespace, ref.Name,
		)
	}
	if err := r.pods.payloads.Refresh(ctx, ref, id.Files, volumes); err != nil {
		return fmt.Errorf("refresh volumes of pod %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	return nil
}
