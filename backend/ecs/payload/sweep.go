package payload

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// Sweeper deletes all secrets and objects of a node that is taken away, and proves that none
// is left. Nothing may be made for the node meanwhile.
//
// ListSecrets is up to ListLag late. What a process made that ended well stands in the
// definitions of the node, or in tasks, with which it goes. What one made that was killed
// only a listing shows that began ListLag after it was seen to be dead.
type Sweeper struct {
	store *Store
	// complete is when a listing shows all that was ever made, known once that was asked.
	complete time.Time
	known    bool
	// listed is true once all that was listed is deleted.
	listed bool
	// none is true of a node that never had a secret, gone are ARNs of those that listings
	// may still show.
	none bool
	gone map[string]bool
}

// Sweeper returns one.
func (p *Store) Sweeper() *Sweeper { return &Sweeper{store: p, gone: map[string]bool{}} }

// Waiting is Throttled while no listing would show more than the last one did.
func (s *Sweeper) Waiting() error {
	if !s.listed || !time.Now().Before(s.complete) {
		return nil
	}
	return backend.Errorf(backend.ErrThrottled, "a process of this node that did not end well may have left secrets "+
		"that Secrets Manager does not list yet: they are looked for again at %s UTC", s.complete.UTC().Format(time.TimeOnly))
}

// Sweep deletes what it finds and returns the names, where named, by ARN, are the secrets
// that definitions name. It is repeated until it returns none. Errors: Throttled while more
// may be there that is not listed yet.
func (s *Sweeper) Sweep(ctx context.Context, named []string) (removed []string, err error) {
	if err := s.ask(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	found, err := s.store.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, arn := range named {
		if _, name, ok := strings.Cut(arn, ":secret:"); ok && strings.HasPrefix(name, s.store.store.prefix) {
			found = append(found, Secret{Name: arn, ARN: arn})
		}
	}
	for _, f := range found {
		if f.Name == s.store.saltName() || s.gone[f.ARN] {
			continue
		}
		name, err := s.remove(ctx, f)
		if err != nil {
			return removed, err
		}
		if name != "" {
			removed = append(removed, name)
		}
	}
	if len(removed) > 0 || s.none {
		return removed, nil
	}
	s.listed = true
	if began.Before(s.complete) {
		return nil, s.Waiting()
	}
	// The salt goes last: it says what there may be.
	name, err := s.remove(ctx, Secret{Name: s.store.saltName()})
	if name != "" {
		removed = []string{name}
	}
	return removed, err
}

// ask asks the salt what there may be.
func (s *Sweeper) ask(ctx context.Context) error {
	if s.known {
		return nil
	}
	until, err := s.store.unlisted(ctx, ctx)
	if s.none = errors.Is(err, backend.ErrNotFound); err != nil && !s.none {
		return err
	}
	if !until.IsZero() {
		// Whoever sweeps after this one need not wait anew.
		if err := s.store.store.tag(ctx, ctx, s.store.saltName(), tagUnlisted, unlistedBy(until)); err != nil {
			return err
		}
		s.complete = until.Add(ListLag)
	}
	s.known = true
	return nil
}

// remove deletes a secret or an object, and returns its name if it was there.
func (s *Sweeper) remove(ctx context.Context, f Secret) (string, error) {
	keeper := s.store.pods.keeperOf(f.Name)
	if _, object := keeper.(*objectStore); object {
		return f.Name, keeper.remove(ctx, f.Name)
	}
	by := f.Name
	if f.ARN != "" {
		by = f.ARN
	}
	there, err := s.store.store.describe(ctx, ctx, by)
	if errors.Is(err, backend.ErrNotFound) {
		s.gone[f.ARN] = true
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if err := keeper.remove(ctx, by); err != nil {
		return "", err
	}
	s.gone[*there.ARN] = true
	return *there.Name, nil
}
