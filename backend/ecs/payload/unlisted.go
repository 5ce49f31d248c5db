package payload

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
)

// ListLag is how long ListSecrets may not show what was made or deleted: five minutes
// (Secrets Manager API, ListSecrets), and one for clocks that differ.
const ListLag = 6 * time.Minute

// tagUnlisted is the tag of the salt that says which secrets of the node only a listing
// finds, because no task and no definition names them: none (unlistedNone), those made by a
// time (RFC 3339), or those that a process makes until it says something else
// (unlistedOpen; it stays where the process is killed). DescribeSecret shows it at once. A
// salt without it is of an earlier version, and says as much as unlistedOpen.
const (
	tagUnlisted  = "burstlet/unlisted"
	unlistedOpen = "open"
	unlistedNone = "none"
)

// ledger is what tagUnlisted is to say.
type ledger struct {
	mu sync.Mutex
	// open is true once the salt says that this process makes secrets, using is how many
	// calls may be making some.
	open  bool
	using int
	// inherited is until when earlier processes may have made what nothing names.
	inherited time.Time
	// made are the names of what this process made that nothing names yet.
	made map[string]bool
	// uses are the names of what the launch of an attempt names.
	uses map[identity.Key][]string
}

// enter begins to make secrets; leave ends it.
func (l *ledger) enter() (open bool, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.using++
	return l.open, sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.using--
	})
}

func (l *ledger) making(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made == nil {
		l.made = map[string]bool{}
	}
	l.made[name] = true
}

func (l *ledger) removed(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.made, name)
}

// wanted notes what the launch of an attempt will name.
func (l *ledger) wanted(k identity.Key, names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.uses == nil {
		l.uses = map[identity.Key][]string{}
	}
	l.uses[k] = names
}

// named notes that a task names what the launch of its attempt did; the parts of a payload
// follow from its name.
func (l *ledger) named(k identity.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range l.uses[k] {
		for made := range l.made {
			if made == name || strings.HasPrefix(made, name+".") {
				delete(l.made, made)
			}
		}
	}
	delete(l.uses, k)
}

func (l *ledger) forget(k identity.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.uses, k)
}

// abandon is true if the salt may go: nothing is made that it would have to tell of. The
// next that makes something begins anew.
func (l *ledger) abandon() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.using > 0 || len(l.made) > 0 {
		return false
	}
	l.open, l.inherited = false, time.Time{}
	return true
}

// last is what the salt is to say when the process ends; false while secrets are made.
func (l *ledger) last(now time.Time) (value string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open || l.using > 0 {
		return "", false
	}
	l.open = false
	until := l.inherited
	if len(l.made) > 0 {
		until = now
	}
	if now.Sub(until) > ListLag {
		return unlistedNone, true
	}
	return unlistedBy(until), true
}

func unlistedBy(until time.Time) string { return until.UTC().Format(time.RFC3339Nano) }

// begin has the salt say that this process makes secrets, before it makes the first.
func (p *Store) begin(ctx, waiting context.Context) (leave func(), err error) {
	open, leave := p.store.ledger.enter()
	if open {
		return leave, nil
	}
	if err := p.opens(ctx, waiting); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

func (p *Store) opens(ctx, waiting context.Context) error {
	if _, err := p.ensureSalt(ctx, waiting); err != nil {
		return err
	}
	if err := p.take(ctx); err != nil {
		return err
	}
	defer func() { <-p.making }()
	l := p.store.ledger
	l.mu.Lock()
	open := l.open
	l.mu.Unlock()
	if open {
		return nil
	}
	until, err := p.unlisted(ctx, waiting)
	if errors.Is(err, backend.ErrNotFound) { // it was deleted by hand
		p.mu.Lock()
		p.salt = nil
		p.mu.Unlock()
		return backend.Errorf(backend.ErrThrottled, "%w: it is made again", err)
	}
	if err != nil {
		return err
	}
	if err := p.store.tag(ctx, waiting, p.saltName(), tagUnlisted, unlistedOpen); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open, l.inherited = true, until
	return nil
}

// unlisted is until when something may have been made that nothing names, zero for nothing.
// Errors: NotFound where nothing was made since the node was swept.
func (p *Store) unlisted(ctx, waiting context.Context) (time.Time, error) {
	out, err := p.store.describe(ctx, waiting, p.saltName())
	if err != nil {
		return time.Time{}, err
	}
	now := time.Now()
	for _, t := range out.Tags {
		if aws.ToString(t.Key) != tagUnlisted {
			continue
		}
		if aws.ToString(t.Value) == unlistedNone {
			return time.Time{}, nil
		}
		if until, err := time.Parse(time.RFC3339Nano, aws.ToString(t.Value)); err == nil && until.Before(now) {
			return until, nil
		}
	}
	return now, nil
}

func (p *Store) saltName() string { return p.store.prefix + kindSalt }

// Close has the salt say what this process leaves that only a listing finds. It is for a
// process that ends and makes nothing more; without it, and where it fails, whoever sweeps
// the node waits until listings show all.
func (p *Store) Close(ctx context.Context) error {
	value, ok := p.store.ledger.last(time.Now())
	if !ok {
		return nil
	}
	return p.store.tag(ctx, ctx, p.saltName(), tagUnlisted, value)
}

// Launched notes that there is a task of an attempt, which names what was stored for it.
func (p *Store) Launched(ref backend.Ref) { p.store.ledger.named(identity.KeyOf(ref)) }

// namesOf are the names of what refs refer to, in Secrets Manager.
func (p *Store) namesOf(refs taskdef.Refs) []string {
	arns := map[string]bool{refs.EnvARN: true}
	for _, arn := range refs.FilesARNs {
		arns[arn] = true
	}
	for _, arn := range refs.PullARNs {
		arns[arn] = true
	}
	var names []string
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, s := range p.shared {
		if arns[s.arn] {
			names = append(names, name)
		}
	}
	if _, _, object := intask.SplitObject(refs.PodName); !object && refs.PodName != "" {
		names = append(names, refs.PodName)
	}
	return names
}
