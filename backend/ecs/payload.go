package ecs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/backend"
)

// payloads keeps, in a store of secrets, what a task needs and may not stand in
// its definition or overrides. secrets.go is the store.
type payloads interface {
	// Ensure stores what the pod needs and says where it stands. Called again for
	// the same attempt with the same contents, by the same process, it says the
	// same to the byte. Errors: Invalid for contents beyond what the store takes.
	Ensure(ctx context.Context, spec backend.LaunchSpec) (payloadRefs, error)
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

// payloadRefs say where the parts of a pod's payload stand. What is empty is not
// needed. All but PodName and PodKey are the same for all pods of one shape, and
// stand in the definition.
type payloadRefs struct {
	// EnvARN is the full ARN of the secret with the values of variables that were
	// made of Secrets, as JSON (secretEnvOf).
	EnvARN string
	// FilesARNs are the full ARNs of the parts of the files that the shape shares,
	// in order. They are given to burstlet-init as intask.FilesEnv(i).
	FilesARNs []string
	// PullARNs are, by container name, the full ARNs of registry logins.
	PullARNs map[string]string
	// FilesTag is short for what the shape shares: another for other files.
	FilesTag string
	// PodName is the name of the secret with the files of this pod alone, and of those
	// that changed since its launch; PodKey is what it is encrypted with. They travel in
	// overrides. Empty where the pod has no files.
	PodName, PodKey string
	// PodStored is true where there are files of this pod alone at its launch.
	PodStored bool
}

// filesTag is how long FilesTag is.
const filesTag = 8
