package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/images/reference"
)

// pullRecords knows which logins have pulled the images on the remote, so that a pod may
// use one that is there only as its own logins allow (kubelet: images/pullmanager, with
// the policy NeverVerifyPreloadedImages). Records are made of pulls with a login alone:
// without a record an image counts as preloaded, and serves every pod, as one does that
// was pulled without a login.
type pullRecords struct {
	store backend.PullRecords // nil: the records end with the process

	// turn holds one token, taken for the calls to the store: waiting for it ends with the
	// caller's context, as waiting for a mutex would not.
	turn chan struct{}

	mu     sync.Mutex
	loaded bool
	known  recorded
	// loadedAt is when the records were read.
	loadedAt time.Time
	// changed is true while the store has something else; pulledAt is when records changed.
	changed  bool
	pulledAt map[string]time.Time
	// underWay counts the pulls of an image with a login.
	underWay map[string]int
}

// recorded is what the store keeps. It holds logins as hashes only.
type recorded struct {
	// Pulled has, by id and repository, who may use the image.
	Pulled map[string]map[string]access `json:"pulled,omitempty"`
	// Pulling has the images whose pull with a login began: what is there of them must
	// not count as preloaded, though the process may have ended before its end.
	Pulling map[string]bool `json:"pulling,omitempty"`
	// Unknown is true after records were damaged, until a listing names the images that they
	// may have been about: no image without a record counts as preloaded.
	Unknown bool `json:"unknown,omitempty"`
}

func newPullRecords(store backend.PullRecords) *pullRecords {
	return &pullRecords{
		store: store, turn: make(chan struct{}, 1), loaded: store == nil, pulledAt: map[string]time.Time{},
		underWay: map[string]int{},
		known:    newRecorded(),
	}
}

func newRecorded() recorded {
	return recorded{Pulled: map[string]map[string]access{}, Pulling: map[string]bool{}}
}

func (p *pullRecords) isLoaded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loaded
}

// take waits for the turn at the store.
func (p *pullRecords) take(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *pullRecords) give() { <-p.turn }

// load reads what earlier processes saved, once.
func (p *pullRecords) load(ctx context.Context) error {
	if p.isLoaded() {
		return nil
	}
	if err := p.take(ctx); err != nil {
		return fmt.Errorf("load records of image pulls: %w", err)
	}
	defer p.give()
	if p.isLoaded() {
		return nil
	}
	data, err := p.store.Load(ctx)
	var known recorded
	if err == nil {
		known, err = decodeRecords(data)
	}
	damaged := errors.Is(err, backend.ErrInvalid)
	switch {
	case damaged:
		log.G(ctx).WithError(err).Warn("the records of image pulls are damaged: " +
			"pods may use the images that are there only after a pull that asks the registry")
		known = newRecorded()
		known.Unknown = true
	case err != nil:
		return fmt.Errorf("load records of image pulls: %w", err)
	}
	p.mu.Lock()
	p.known, p.loaded, p.changed = known, true, damaged
	p.loadedAt = time.Now()
	p.mu.Unlock()
	return nil
}

// decodeRecords reads what was saved; nothing before the first save. Errors: Invalid.
func decodeRecords(data []byte) (recorded, error) {
	known := new(newRecorded())
	if len(data) == 0 {
		return *known, nil
	}
	// The decoder's errors quote at most a character or a type of what they read.
	if err := json.Unmarshal(data, &known); err != nil {
		return recorded{}, backend.Classed(backend.ErrInvalid, err)
	}
	if known == nil || known.Pulled == nil || known.Pulling == nil {
		return recorded{}, backend.Errorf(backend.ErrInvalid, "there is null in the place of records")
	}
	return *known, nil
}

// save writes what changed.
func (p *pullRecords) save(ctx context.Context) error {
	if p.store == nil {
		return nil
	}
	if err := p.take(ctx); err != nil {
		return fmt.Errorf("save records of image pulls: %w", err)
	}
	defer p.give()
	p.mu.Lock()
	changed := p.changed
	data, err := json.Marshal(p.known)
	p.changed = false
	p.mu.Unlock()
	if err == nil && changed {
		err = p.store.Save(ctx, data)
	}
	if err != nil {
		p.mu.Lock()
		p.changed = true
		p.mu.Unlock()
		return fmt.Errorf("save records of image pulls: %w", err)
	}
	return nil
}

// mayUse is true where a pod with these logins may use an image that is there, without a
// pull that asks the registry. The records are loaded.
func (p *pullRecords) mayUse(ref reference.Reference, id string, creds []backend.Credential) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	byRepository, pulled := p.known.Pulled[id]
	if !pulled {
		return !p.known.Unknown && !p.maybePulling(ref)
	}
	a := byRepository[ref.Repository]
	return a.Everyone || slices.ContainsFunc(holders(creds), func(h holder) bool {
		return slices.ContainsFunc(a.Logins, h.equals)
	})
}

// maybePulling is true for an image whose pull with a login began. One that is named by its
// digest may come with the pull of any name of its repository: the runtime then has it under
// its digest, too.
func (p *pullRecords) maybePulling(ref reference.Reference) bool {
	if _, digest, has := strings.Cut(ref.Suffix, "@"); has {
		for image := range p.known.Pulling {
			other, err := reference.Parse(image)
			_, otherDigest, pinned := strings.Cut(other.Suffix, "@")
			if err == nil && other.Repository == ref.Repository && (!pinned || otherDigest == digest) {
				return true
			}
		}
	}
	return p.known.Pulling[ref.String()]
}

// forAccounts is true for an image that some ServiceAccount may use.
func (p *pullRecords) forAccounts(ref reference.Reference, id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(
		p.known.Pulled[id][ref.Repository].Logins, func(h holder) bool { return h.ServiceAccount != "" },
	)
}

// begin notes that an image is about to be pulled: an error forbids that. The pull is
// followed by pulled or failed. One without logins leaves nothing that needs a note.
func (p *pullRecords) begin(ctx context.Context, ref reference.Reference, creds []backend.Credential) error {
	if len(creds) == 0 {
		return nil
	}
	if err := p.load(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	p.underWay[ref.String()]++
	if !p.known.Pulling[ref.String()] {
		p.known.Pulling[ref.String()], p.changed = true, true
	}
	p.mu.Unlock()
	if err := p.save(ctx); err != nil {
		p.failed(ref, creds)
		return err
	}
	return nil
}

// failed notes a pull that failed. The note of its begin stays: the remote may have
// finished the pull all the same.
func (p *pullRecords) failed(ref reference.Reference, creds []backend.Credential) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave(ref, creds)
}

// leave is true when no pull of the image with a login is left.
func (p *pullRecords) leave(ref reference.Reference, creds []backend.Credential) bool {
	if len(creds) == 0 {
		return false
	}
	image := ref.String()
	if p.underWay[image]--; p.underWay[image] > 0 {
		return false
	}
	delete(p.underWay, image)
	return true
}

// pulled notes a pull that succeeded. The record holds at once. Where it cannot be saved,
// the note of its begin makes the next process ask the registry.
func (p *pullRecords) pulled(ctx context.Context, ref reference.Reference, id string, creds []backend.Credential) {
	if !p.note(ref, id, creds) {
		return
	}
	if err := p.save(ctx); err != nil {
		log.G(ctx).WithError(err).WithField("image", ref.String()).
			Warn("the record of an image's pull is not saved, the next pull saves it")
	}
}

// note is true where there is something to save: not of a pull without a login, unless
// others had to have one.
func (p *pullRecords) note(ref reference.Reference, id string, creds []backend.Credential) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	byRepository := p.known.Pulled[id]
	if len(creds) == 0 && byRepository == nil && !p.known.Unknown && !p.maybePulling(ref) {
		return false
	}
	if byRepository == nil {
		byRepository = map[string]access{}
		p.known.Pulled[id] = byRepository
	}
	byRepository[ref.Repository] = byRepository[ref.Repository].with(creds)
	p.changed, p.pulledAt[id] = true, time.Now()
	if p.leave(ref, creds) {
		delete(p.known.Pulling, ref.String())
	}
	return true
}

// prune forgets images that a listing which began at a time did not show. It saves
// nothing: whatever is saved next does.
func (p *pullRecords) prune(listed []backend.ImageFacts, began time.Time) {
	ids, repositories := map[string]bool{}, map[string]bool{}
	for i := range listed {
		ids[listed[i].ID] = true
		for _, name := range listed[i].Names {
			if ref, err := reference.Parse(name); err == nil {
				repositories[ref.Repository] = true
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known.Unknown && p.loadedAt.Before(began) {
		p.suspect(ids)
	}
	for id := range p.known.Pulled {
		if !ids[id] && p.pulledAt[id].Before(began) {
			delete(p.known.Pulled, id)
			delete(p.pulledAt, id)
			p.changed = true
		}
	}
	for image := range p.known.Pulling {
		repository, _, _ := strings.Cut(image, "@")
		if ref, err := reference.Parse(image); err == nil {
			repository = ref.Repository
		}
		if p.underWay[image] == 0 && !repositories[repository] {
			delete(p.known.Pulling, image)
			p.changed = true
		}
	}
}

// suspect gives each listed image that has no record one which names nobody: whoever wants
// it asks the registry. Images that come later count as preloaded again.
func (p *pullRecords) suspect(ids map[string]bool) {
	for id := range ids {
		if p.known.Pulled[id] == nil {
			p.known.Pulled[id] = map[string]access{}
		}
	}
	p.known.Unknown, p.changed = false, true
}
