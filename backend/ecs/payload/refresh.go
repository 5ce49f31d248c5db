package payload

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
)

// Refresh stores the files of volumes that an attempt has now, where they are not those
// of its launch (launched is their FilesTag) or stored since. Others stay. It does
// nothing for an attempt that was told of no place for them. Errors: Invalid for
// contents beyond what there is room for.
//
// What is stored is read first: only this says what a process before this one has
// stored, and volumes that are not named stay.
func (p *Store) Refresh(ctx context.Context, ref backend.Ref, launched string, volumes []backend.VolumeSpec) error {
	entry, ok := p.pods.current(identity.KeyOf(ref))
	if !ok || len(volumes) == 0 {
		return nil
	}
	now := time.Now()
	if now.Before(entry.wait) {
		return waits(entry.wait, now)
	}
	slots, newest, err := p.pods.stored(ctx, entry)
	if err != nil {
		return err
	}
	before := slots[newest].payload
	changed, err := p.changed(ctx, before, launched, volumes)
	if err != nil {
		return err
	}
	after := podfiles.Payload{Volumes: merged(before.Volumes, packable(changed))}
	after.Due = dueOf(after.Volumes)
	same, err := before.SameFiles(after)
	if err != nil || same || len(changed) == 0 {
		return tooLarge(err)
	}
	next := slots[(newest+1)%len(slots)]
	if !slots[newest].there {
		next = slots[newest]
	}
	renewal := before.Due != 0 && now.Add(dueEarly).Unix() >= before.Due
	if at := p.pods.keeperOf(entry.name).writableAt(next.payload, len(slots), taskdef.RenewEvery(volumes[0].Pod), renewal,
		now); at.After(now) {
		if before.Due != 0 && !renewal { // what waits goes with the next token
			at = earlier(at, time.Unix(before.Due, 0).Add(-dueEarly))
		}
		p.pods.waits(identity.KeyOf(ref), entry.name, at)
		return waits(at, now)
	}
	after.Seq = before.Seq + 1
	after.Wrote, after.Changed = written(next.payload, renewal, now)
	packed, err := after.Pack()
	if err != nil {
		return tooLarge(err)
	}
	return p.pods.replace(ctx, ref, entry, next.name, packed)
}

// dueEarly is how much before it is due a new token may come.
const dueEarly = time.Minute

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// waits is the error of a change that waits for the quota.
func waits(until, now time.Time) error {
	return backend.Errorf(backend.ErrThrottled, "a secret takes about %d versions a day: this change waits %s: %w",
		maxVersions, until.Sub(now).Round(time.Second), awscall.ErrNotSent)
}

// changed are the volumes under their names in the task, without those that the shape
// shares where they are what the attempt was launched with.
func (p *Store) changed(
	ctx context.Context, before podfiles.Payload, launched string, volumes []backend.VolumeSpec,
) ([]backend.VolumeSpec, error) {
	shared, own := taskdef.Files(backend.LaunchSpec{Pod: volumes[0].Pod, Volumes: volumes})
	if len(shared) == 0 {
		return own, nil
	}
	packed, err := pack(shared)
	if err != nil {
		return nil, err
	}
	parts, err := split(packed)
	if err != nil {
		return nil, err
	}
	tag, err := p.filesTag(ctx, ctx, parts)
	if err != nil {
		return nil, err
	}
	if tag == launched {
		shared = slices.DeleteFunc(shared, func(v backend.VolumeSpec) bool {
			return !slices.ContainsFunc(before.Volumes, func(had podfiles.Volume) bool { return had.Name == v.Name })
		})
	}
	return append(shared, own...), nil
}

// merged are volumes with others in the place of those of their names.
func merged(volumes, others []podfiles.Volume) []podfiles.Volume {
	out := slices.Clone(volumes)
	for _, v := range others {
		if i := slices.IndexFunc(out, func(had podfiles.Volume) bool { return had.Name == v.Name }); i >= 0 {
			out[i] = v
		} else {
			out = append(out, v)
		}
	}
	return out
}

// current is the entry that an attempt's task was given; false for one without.
func (p *podSecrets) current(k identity.Key) (podSecret, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	es := p.entries[k]
	if len(es) == 0 || es[len(es)-1].key == "" {
		return podSecret{}, false
	}
	return *es[len(es)-1], true
}

// slot is one of the payloads of a pod that are written in turn.
type slot struct {
	name    string
	payload podfiles.Payload
	// there is false for one that was never written.
	there bool
}

// stored are all payloads under an entry's name, and which is the newest: the first where
// none is there.
func (p *podSecrets) stored(ctx context.Context, e podSecret) (slots []slot, newest int, err error) {
	names, err := podfiles.SlotNames(e.name)
	if err != nil {
		return nil, 0, err
	}
	for i, name := range names {
		s := slot{name: name}
		if s.payload, s.there, err = p.contents(ctx, e.key, name); err != nil {
			return nil, 0, err
		}
		slots = append(slots, s)
		if s.there && (!slots[newest].there || s.payload.Seq > slots[newest].payload.Seq) {
			newest = i
		}
	}
	return slots, newest, nil
}

// contents are what is stored under the name of a payload; false if nothing is.
func (p *podSecrets) contents(ctx context.Context, key, name string) (podfiles.Payload, bool, error) {
	sealed, err := p.keeperOf(name).read(ctx, name)
	if errors.Is(err, backend.ErrNotFound) {
		return podfiles.Payload{}, false, nil
	}
	if err != nil {
		return podfiles.Payload{}, false, err
	}
	packed, err := podfiles.Open(key, name, sealed)
	if err != nil {
		return podfiles.Payload{}, false, err
	}
	out, err := podfiles.Unpack(packed)
	return out, err == nil, err
}

// waits notes until when changes of an attempt wait.
func (p *podSecrets) waits(k identity.Key, name string, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries[k] {
		if e.name == name {
			e.wait = until
		}
	}
}

// replace stores other contents under the name of a payload.
func (p *podSecrets) replace(ctx context.Context, ref backend.Ref, e podSecret, name string, packed []byte) error {
	sealed, err := podfiles.Seal(e.key, name, packed)
	if err != nil {
		return err
	}
	p.mu.Lock()
	for _, mine := range p.entries[identity.KeyOf(ref)] {
		if mine.name == e.name {
			mine.stored, mine.used = true, time.Now()
		}
	}
	p.mu.Unlock()
	return p.keeperOf(name).replace(ctx, ref, name, sealed)
}

// dueMargin is how long after it is due a new token may take to be stored.
const dueMargin = 15 * time.Second

// dueOf is when burstlet-agent is to look again, in seconds since 1970: when the first
// of the tokens is replaced (kubelet: when 80 % of its life are over). 0: never.
func dueOf(volumes []podfiles.Volume) int64 {
	due := int64(0)
	for _, v := range volumes {
		for _, f := range v.Files {
			if at := tokenDue(f.Data); at != 0 && (due == 0 || at < due) {
				due = at
			}
		}
	}
	return due
}

// tokenDue is when a token is replaced; 0 for data that is none (RFC 7519).
func tokenDue(data []byte) int64 {
	const longest = 16 << 10
	if len(data) > longest || !bytes.HasPrefix(data, []byte("ey")) {
		return 0
	}
	parts := strings.Split(string(data), ".")
	if len(parts) != 3 {
		return 0
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return 0
	}
	var claims struct {
		IssuedAt int64 `json:"iat"`
		Expires  int64 `json:"exp"`
	}
	if json.Unmarshal(text, &claims) != nil || claims.Expires <= claims.IssuedAt || claims.IssuedAt <= 0 {
		return 0
	}
	return claims.IssuedAt + (claims.Expires-claims.IssuedAt)*4/5 + int64(dueMargin/time.Second)
}
