package payload

import (
	"context"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend/ecs/identity"
)

// Unused is a secret or an object that nobody needs. Remove deletes it, unless it came to be wanted
// meanwhile.
type Unused struct {
	Name   string
	Remove func(context.Context) error
}

// List returns all secrets and objects of the node. An error means unknown.
func (p *Store) List(ctx context.Context) ([]Secret, error) {
	secrets, err := p.store.list(ctx)
	if err != nil {
		return nil, err
	}
	objects, err := p.pods.objects.list(ctx)
	if err != nil {
		return nil, err
	}
	return append(secrets, objects...), nil
}

// UnusedOfPods are those of attempts that are not live and that nothing asked for since
// a time.
func (p *Store) UnusedOfPods(secrets []Secret, live map[identity.Key]bool, before time.Time) []Unused {
	named := map[identity.Key]bool{}
	for k := range live {
		named[identity.Key{UID: safeUID(k.UID), Attempt: k.Attempt}] = true
	}
	var out []Unused
	for _, s := range secrets {
		k, ok := p.pods.podKey(s.Name)
		if !ok || named[k] || s.Created.After(before) || p.pods.usedSince(s.Name, before) {
			continue
		}
		out = append(out, Unused{s.Name, func(ctx context.Context) error {
			if p.pods.usedSince(s.Name, before) {
				return nil
			}
			p.pods.forget(s.Name)
			return p.pods.keeperOf(s.Name).remove(ctx, s.Name)
		}})
	}
	return out
}

// UnusedShared are those that pods of one shape share, if no definition in use names
// their ARN and nothing asked for them since a time. The salt goes when it is the last.
func (p *Store) UnusedShared(secrets []Secret, named map[string]bool, before time.Time) []Unused {
	var out []Unused
	left := 0
	salt := Secret{}
	for _, s := range secrets {
		switch {
		case s.Name == p.saltName():
			salt = s
			continue
		case !strings.HasPrefix(s.Name, p.store.prefix+kindShared+"/"):
			continue
		}
		left++
		if named[s.ARN] || s.Created.After(before) {
			continue
		}
		out = append(out, Unused{s.Name, func(ctx context.Context) error {
			return p.retire(ctx, s.Name, before)
		}})
	}
	if salt.Name != "" && left == 0 && salt.Created.Before(before) {
		out = append(out, Unused{salt.Name, func(ctx context.Context) error {
			return p.retire(ctx, salt.Name, before)
		}})
	}
	return out
}
