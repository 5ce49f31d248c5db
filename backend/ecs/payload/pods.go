package payload

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	smtypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask"
	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
)

// podSecrets are the files of single pods, each under a random key that stands in
// the overrides of its task alone: neither who may read the store nor who may
// describe tasks can read them. The key is remembered, so that a repeated launch
// of this process asks for the same. After a crash it is lost: the next launch has
// another, and ECS answers Conflict with the task that has the first.
type podSecrets struct {
	store   *secretStore
	objects *objectStore

	mu      sync.Mutex
	entries map[identity.Key][]*podSecret
}

// podSecret is one payload of an attempt. There is more than one if the contents
// changed (a new token) between two launches of it.
type podSecret struct {
	// name is that of the first part.
	name string
	// sum and key are of what this process stored; of another's, neither is known.
	sum [sha256.Size]byte
	key string
	// known is true of another's: its key, if it has one, is read from its task.
	known bool
	// made is true once all parts are stored, and stored once any may be.
	made, stored bool
	used         time.Time
	// wait is until when changes wait for Secrets Manager's quota.
	wait time.Time
}

// ensure stores what is packed, if anything is. It says the same for the same contents. In
// a bucket something always is: the task, which need not be allowed to list it, could not
// tell an object that is not there from one that it may not read.
func (p *podSecrets) ensure(ctx, waiting context.Context, ref backend.Ref, c contents) (name, secretKey string,
	err error,
) {
	entry := p.entry(ref, c)
	packed := c.own
	if packed == nil {
		if _, _, ok := intask.SplitObject(entry.name); !ok {
			return entry.name, entry.key, nil
		}
		if packed, err = pack(nil); err != nil {
			return "", "", err
		}
	}
	sealed, err := podfiles.Seal(entry.key, entry.name, packed)
	if err != nil {
		return "", "", err
	}
	if !p.isMade(entry) {
		p.stores(entry)
		if err := p.keeperOf(entry.name).create(ctx, waiting, ref, entry.name, sealed); err != nil {
			return "", "", err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	entry.made, entry.used = true, time.Now()
	return entry.name, entry.key, nil
}

// entry is that of these contents, a new one if there is none.
func (p *podSecrets) entry(ref backend.Ref, c contents) *podSecret {
	sum := sha256.Sum256(c.own)
	p.mu.Lock()
	defer p.mu.Unlock()
	k := identity.KeyOf(ref)
	for _, e := range p.entries[k] {
		if !e.known && e.sum == sum {
			e.used = time.Now()
			p.last(k, e)
			return e
		}
	}
	e := &podSecret{name: p.newName(k, c), sum: sum, key: podfiles.NewKey(), used: time.Now()}
	p.entries[k] = append(p.entries[k], e)
	return e
}

// last puts an entry last: it is the one that the attempt has. The caller holds the
// lock.
func (p *podSecrets) last(k identity.Key, e *podSecret) {
	es := slices.DeleteFunc(p.entries[k], func(other *podSecret) bool { return other == e })
	p.entries[k] = append(es, e)
}

// stores notes that something may be stored under an entry's name.
func (p *podSecrets) stores(e *podSecret) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.stored = true
}

func (p *podSecrets) isMade(e *podSecret) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return e.made
}

// podName is a name as newName makes it, of a secret.
func podName(prefix string, k identity.Key, parts, slots int) string {
	return prefix + kindPod + "/" + string(safeUID(k.UID)) + "/" + strconv.Itoa(k.Attempt) + "." +
		podfiles.WithSlots(strings.ToLower(rand.Text())[:12], slots) + "." + strconv.Itoa(parts)
}

// podKey is the attempt that a name of newName, or of a part, is of; false for another
// node's.
func (p *podSecrets) podKey(name string) (identity.Key, bool) {
	if _, key, ok := intask.SplitObject(name); ok { // whatever the prefix of keys was
		name = key[max(strings.Index(key, p.store.prefix), 0):]
	}
	rest, ok := strings.CutPrefix(name, p.store.prefix+kindPod+"/")
	uid, rest, both := strings.Cut(rest, "/")
	number, _, dot := strings.Cut(rest, ".")
	attempt, err := strconv.Atoi(number)
	return identity.Key{UID: ktypes.UID(uid), Attempt: attempt}, ok && both && dot && err == nil
}

// plainUID are UIDs as names take them (Secrets Manager API, CreateSecret: Name).
var plainUID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)

// safeUID is a UID as names take it.
func safeUID(uid ktypes.UID) ktypes.UID {
	if plainUID.MatchString(string(uid)) {
		return uid
	}
	return ktypes.UID(identity.Hash([]byte(uid)))
}

func podTags(ref backend.Ref) []smtypes.Tag {
	pair := func(k, v string) smtypes.Tag {
		return smtypes.Tag{Key: aws.String("burstlet/" + k), Value: aws.String(identity.TagValue(v))}
	}
	return []smtypes.Tag{pair("namespace", ref.Namespace), pair("pod", ref.Name), pair("uid", string(ref.UID))}
}

// observed notes the payload that a task was given, if it is of this node.
func (p *podSecrets) observed(ref backend.Ref, t types.Task) {
	name := overridden(t, intask.EnvPayload)
	if _, ours := p.podKey(name); !ours {
		return
	}
	if _, err := podfiles.SlotNames(name); err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	k := identity.KeyOf(ref)
	for _, e := range p.entries[k] {
		if e.name == name {
			p.last(k, e)
			return
		}
	}
	p.entries[k] = append(p.entries[k], &podSecret{
		name: name, key: overridden(t, intask.EnvPayloadKey), known: true, made: true, stored: true, used: time.Now(),
	})
}

// overridden is the value that a task's overrides give to a variable.
func overridden(t types.Task, name string) string {
	if t.Overrides == nil {
		return ""
	}
	for _, c := range t.Overrides.ContainerOverrides {
		for _, kv := range c.Environment {
			if aws.ToString(kv.Name) == name {
				return aws.ToString(kv.Value)
			}
		}
	}
	return ""
}

// release deletes the payloads of an attempt. What could not be deleted stays
// known.
func (p *podSecrets) release(ctx context.Context, ref backend.Ref) error {
	k := identity.KeyOf(ref)
	for {
		e := p.first(k)
		if e == nil {
			return nil
		}
		names, err := podfiles.AllNames(e.name)
		if err != nil {
			return err
		}
		if !p.isStored(e) {
			names = nil
		}
		for _, name := range names {
			if err := p.keeperOf(name).remove(ctx, name); err != nil {
				return err
			}
		}
		p.drop(k, e)
	}
}

func (p *podSecrets) isStored(e *podSecret) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return e.stored
}

func (p *podSecrets) first(k identity.Key) *podSecret {
	p.mu.Lock()
	defer p.mu.Unlock()
	if es := p.entries[k]; len(es) > 0 {
		return es[0]
	}
	return nil
}

func (p *podSecrets) drop(k identity.Key, gone *podSecret) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var rest []*podSecret
	for _, e := range p.entries[k] {
		if e != gone {
			rest = append(rest, e)
		}
	}
	if p.entries[k] = rest; len(rest) == 0 {
		delete(p.entries, k)
	}
}

// usedSince is true if a secret, by the name of a part, was wanted after a time.
func (p *podSecrets) usedSince(name string, t time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, _ := p.podKey(name)
	for mine, es := range p.entries {
		if safeUID(mine.UID) != k.UID || mine.Attempt != k.Attempt {
			continue
		}
		for _, e := range es {
			if (name == e.name || strings.HasPrefix(name, e.name+".")) && e.used.After(t) {
				return true
			}
		}
	}
	return false
}

// forget drops a secret that was collected, by the name of a part, so that a later
// launch makes it anew.
func (p *podSecrets) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, es := range p.entries {
		for _, e := range es {
			if name == e.name || strings.HasPrefix(name, e.name+".") {
				e.made = false
			}
		}
	}
}

// Observed notes what a task of an attempt was given, so that it is released with the
// attempt whichever process made it.
func (p *Store) Observed(ref backend.Ref, task types.Task) { p.pods.observed(ref, task) }

// Release deletes what belongs to the attempt alone. It is repeated until it returns
// nil: nothing of the attempt is left.
func (p *Store) Release(ctx context.Context, ref backend.Ref) error {
	err := p.pods.release(ctx, ref)
	if err == nil {
		p.store.ledger.forget(identity.KeyOf(ref))
	}
	return err
}
