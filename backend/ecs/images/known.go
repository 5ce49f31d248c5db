package images

import (
	"context"
	"sync"
	"time"

	"github.com/burstlet/burstlet/backend/ecs/taskdef"
)

// Known is what registries said of images. All nodes of a process may share one, in all
// their terms: a registry is then asked once for what many of them want.
//
// Of a tag it holds for a while which digest it is, for each set of logins that was let in;
// of a digest what the image says, for ever.
type Known struct {
	mu      sync.Mutex
	tags    map[string]*tag
	configs map[platform]*kept
}

// tag is a name with some logins, as a registry resolved it.
type tag struct {
	// asking is taken by who asks the registry.
	asking chan struct{}
	// digest is empty until it is known; until is when it is asked for again, zero never.
	digest string
	until  time.Time
	used   time.Time
}

// platform is what an image is for: by digest, which may be an index's, and machine.
type platform struct{ digest, arch string }

// kept is what an image says of itself.
type kept struct {
	config taskdef.ImageConfig
	used   time.Time
}

// NewKnown returns an empty one.
func NewKnown() *Known {
	return &Known{tags: map[string]*tag{}, configs: map[platform]*kept{}}
}

// resolve returns the digest of a name, by its key, and asks for it when it is too old: one
// caller at a time. What fails is asked for again.
func (k *Known) resolve(ctx context.Context, key string, forever bool, ask func() (string, error)) (string, error) {
	t := k.tag(key)
	leave, err := t.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	if digest := k.fresh(t); digest != "" {
		return digest, nil
	}
	digest, err := ask()
	if err != nil {
		return "", err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if t.digest = digest; !forever {
		t.until = time.Now().Add(freshFor)
	}
	return digest, nil
}

// inTurn does something for a key while nobody else asks for it.
func (k *Known) inTurn(ctx context.Context, key string, do func() error) error {
	leave, err := k.tag(key).enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return do()
}

// enter waits for the turn at a name, until leave is called.
func (t *tag) enter(ctx context.Context) (leave func(), err error) {
	select {
	case t.asking <- struct{}{}:
		return func() { <-t.asking }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// tag is the entry of a key.
func (k *Known) tag(key string) *tag {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.tags[key]
	if t == nil {
		t = &tag{asking: make(chan struct{}, 1)}
		makeRoom(k.tags, func(t *tag) time.Time { return t.used })
		k.tags[key] = t
	}
	t.used = time.Now()
	return t
}

func (k *Known) fresh(t *tag) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !t.until.IsZero() && !time.Now().Before(t.until) {
		return ""
	}
	return t.digest
}

// config is what an image says, if that is known.
func (k *Known) config(digest, arch string) (taskdef.ImageConfig, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.configs[platform{digest, arch}]
	if c == nil {
		return taskdef.ImageConfig{}, false
	}
	c.used = time.Now()
	return c.config, true
}

// keep notes what an image says.
func (k *Known) keep(digest, arch string, config taskdef.ImageConfig) {
	k.mu.Lock()
	defer k.mu.Unlock()
	makeRoom(k.configs, func(c *kept) time.Time { return c.used })
	k.configs[platform{digest, arch}] = &kept{config, time.Now()}
}

// makeRoom forgets what was used longest ago of a map that is full.
func makeRoom[K comparable, V any](of map[K]V, used func(V) time.Time) {
	if len(of) < maxImages {
		return
	}
	var oldest K
	var at time.Time
	for key, v := range of {
		if t := used(v); at.IsZero() || t.Before(at) {
			oldest, at = key, t
		}
	}
	delete(of, oldest)
}
