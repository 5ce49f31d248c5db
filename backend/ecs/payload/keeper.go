package payload

import (
	"context"
	"errors"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask"
	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
)

// keeper keeps the payloads of pods, encrypted, under names that intask.SlotNames reads.
type keeper interface {
	// create stores a payload under a name that is new; it may be called again with the
	// same. It waits for its rate with waiting.
	create(ctx, waiting context.Context, ref backend.Ref, name string, sealed []byte) error
	// replace stores a payload whether or not there is one.
	replace(ctx context.Context, ref backend.Ref, name string, sealed []byte) error
	// read returns a payload. Errors: NotFound.
	read(ctx context.Context, name string) ([]byte, error)
	// remove deletes one thing that is stored. One that is not there is no error.
	remove(ctx context.Context, name string) error
	// writableAt is when what was written as its payload says may be written again.
	writableAt(was podfiles.Payload, slots int, every time.Duration, renewal bool, now time.Time) time.Time
}

// inSecrets keeps payloads in Secrets Manager: each in as many secrets as it fills, and
// those that change often in several that are written in turn (quota.go).
type inSecrets struct{ store *secretStore }

func (k inSecrets) create(ctx, waiting context.Context, ref backend.Ref, name string, sealed []byte) error {
	names, parts, err := partsOf(name, sealed)
	if err != nil {
		return err
	}
	for i, part := range parts {
		if _, err := k.store.create(ctx, waiting, names[i], part, podTags(ref)...); err != nil {
			return err
		}
	}
	return nil
}

// replace implements keeper. The first part comes last: with it the others count.
func (k inSecrets) replace(ctx context.Context, ref backend.Ref, name string, sealed []byte) error {
	names, parts, err := partsOf(name, sealed)
	if err != nil {
		return err
	}
	for i := len(parts) - 1; i >= 0; i-- {
		if err := k.store.put(ctx, names[i], parts[i], podTags(ref)...); err != nil {
			return err
		}
	}
	return nil
}

// partsOf are the texts of a payload and their names, of which there may be more.
func partsOf(name string, sealed []byte) (names, parts []string, err error) {
	if names, err = podfiles.PartNames(name); err != nil {
		return nil, nil, err
	}
	if parts, err = split(sealed); err != nil {
		return nil, nil, err
	}
	if len(parts) > len(names) {
		return nil, nil, backend.Errorf(backend.ErrInvalid,
			"they have grown to %d secrets, there is room for %d: recreate the pod", len(parts), len(names))
	}
	return names, parts, nil
}

func (k inSecrets) read(ctx context.Context, name string) ([]byte, error) {
	names, err := podfiles.PartNames(name)
	if err != nil {
		return nil, err
	}
	return podfiles.Join(func(i int) (string, error) {
		if i >= len(names) {
			return "", errors.New("there are more parts than the name says")
		}
		return k.store.value(ctx, ctx, names[i])
	})
}

func (k inSecrets) remove(ctx context.Context, name string) error { return k.store.remove(ctx, name) }

func (inSecrets) writableAt(
	was podfiles.Payload, slots int, every time.Duration, renewal bool, now time.Time,
) time.Time {
	return writable(was, slots, every, renewal, now)
}

// keeperOf is where a payload with this name is, whatever is configured now: a task that
// runs goes on with the name that it was given.
func (p *podSecrets) keeperOf(name string) keeper {
	if _, _, ok := intask.SplitObject(name); ok {
		return p.objects
	}
	return inSecrets{p.store}
}

// newName is <prefix>pod/<uid>/<attempt>.<random>.<parts>, with <random>-<slots> where
// payloads are written in turn. An object is one part, which is written as it comes.
func (p *podSecrets) newName(k identity.Key, c contents) string {
	if p.objects.bucket != "" {
		return p.objects.name(podName(p.store.prefix, k, 1, 1))
	}
	return podName(p.store.prefix, k, c.parts, c.slots)
}
