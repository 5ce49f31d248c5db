package ecs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
)

// payloads keeps, in a store of secrets, what a task needs and may not stand in
// its definition or overrides. secrets.go is the store.
type payloads interface {
	// Ensure stores what the pod needs and says where it stands. Called again for
	// the same attempt with the same contents, by the same process, it says the
	// same to the byte. Errors: Invalid for contents beyond what the store takes.
	Ensure(ctx context.Context, spec backend.LaunchSpec) (taskdef.Refs, error)
	// Refresh stores the files of volumes that an attempt has now, where they are not
	// those of its launch (launched is their FilesTag) or stored since. Others stay. It
	// does nothing for an attempt that was told of no place for them. Errors: Invalid for
	// contents beyond what there is room for.
	Refresh(ctx context.Context, ref backend.Ref, launched string, volumes []backend.VolumeSpec) error
	// Observed notes what a task of an attempt was given, so that it is released
	// with the attempt whichever process made it.
	Observed(ref backend.Ref, task types.Task)
	// Release deletes what belongs to the attempt alone. It is repeated until it
	// returns nil: nothing of the attempt is left.
	Release(ctx context.Context, ref backend.Ref) error
}
