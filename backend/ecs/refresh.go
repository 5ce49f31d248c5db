package ecs

import (
	"context"
	"fmt"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
)

// refresher is backend.Refresher by the pod's own secret, which burstlet-agent reads.
type refresher struct{ pods *pods }

// Refresh implements backend.Refresher.
func (r refresher) Refresh(ctx context.Context, ref backend.Ref, volumes []backend.VolumeSpec) error {
	id, live := r.pods.mem.liveIdentity(ref)
	if !live {
		return backend.Errorf(backend.ErrNotFound, "refresh volumes of pod %s/%s: no task of it is live", ref.Namespace, ref.Name)
	}
	if err := r.pods.payloads.Refresh(ctx, ref, id.Files, volumes); err != nil {
		return fmt.Errorf("refresh volumes of pod %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	return nil
}

// liveIdentity is that of the task of an attempt while it is live.
func (m *memory) liveIdentity(ref backend.Ref) (identity.Task, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, arn := range m.byUID[ref.UID] {
		if e := m.tasks[arn]; e.id.Attempt == ref.Attempt && e.facts.Live {
			return e.id, true
		}
	}
	return identity.Task{}, false
}
