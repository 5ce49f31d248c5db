package images

import (
	"context"
	"crypto/sha256"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
)

// Configs looks up what images say of themselves.
type Configs interface {
	// Config returns the configuration of an image for a machine, "amd64" or "arm64",
	// logging in to its registry with each of the credentials in turn, without any
	// anonymously. Any error but the context's is what the registry said, or why it
	// could not be asked.
	Config(ctx context.Context, image, arch string, logins []backend.Credential) (taskdef.ImageConfig, error)
}

// How long is remembered what a registry said: for ever of an image by digest. Registries
// themselves remember of a tag (Known).
const (
	freshFor  = 5 * time.Minute
	failedFor = 20 * time.Second
	// maxImages bounds what is remembered.
	maxImages = 1000
	// lookups is how many go on at a time, and lookupLimit how long each may take.
	lookups     = 8
	lookupLimit = 20 * time.Second
)

// Cache is Configs that asks once for an image that many pods have.
type Cache struct {
	inner Configs
	slots chan struct{}

	// living ends with Run, which waits for running.
	living  context.Context //nolint:containedctx // the life of the cache, not of a call
	end     context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	entries map[string]*entry
}

// entry is a look-up: under way until done is closed.
type entry struct {
	done   chan struct{}
	config taskdef.ImageConfig
	err    error
	// until is when it is to be asked again; zero is never.
	until time.Time
	used  time.Time
}

// remembers is Configs that remembers tags by itself.
type remembers interface{ remembersTags() }

// NewCache returns an empty cache of what inner says, whose look-ups go on until Run's
// context ends.
func NewCache(ctx context.Context, inner Configs) *Cache {
	living, end := context.WithCancel(context.WithoutCancel(ctx))
	return &Cache{
		inner: inner, slots: make(chan struct{}, lookups), living: living, end: end, entries: map[string]*entry{},
	}
}

// errEnded is of a look-up that ended with the backend.
var errEnded = errors.New("the backend has ended")

// Run waits until the context ends, and then for the look-ups under way, which it ends.
// There are none afterwards. It returns nil.
func (c *Cache) Run(ctx context.Context) error {
	<-ctx.Done()
	c.mu.Lock()
	c.end() // under the lock: no look-up begins while those that have are waited for
	c.mu.Unlock()
	c.running.Wait()
	return nil
}

// Config implements Configs. A look-up that has begun goes on without its
// caller, for the next.
func (c *Cache) Config(
	ctx context.Context, image, arch string, logins []backend.Credential,
) (taskdef.ImageConfig, error) {
	e := c.find(ctx, image, arch, logins)
	select {
	case <-e.done:
		return e.config, e.err
	case <-ctx.Done():
		return taskdef.ImageConfig{}, ctx.Err()
	}
}

func (c *Cache) find(ctx context.Context, image, arch string, logins []backend.Credential) *entry {
	key, now := imageKey(image, arch, logins), time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil && e.valid(now) {
		e.used = now
		return e
	}
	e := &entry{done: make(chan struct{}), used: now}
	if c.living.Err() != nil {
		e.err = errEnded
		close(e.done)
		return e
	}
	makeRoom(c.entries, func(e *entry) time.Time { return e.used })
	c.entries[key] = e
	c.running.Go(func() { c.resolve(context.WithoutCancel(ctx), e, image, arch, logins) })
	return e
}

// valid is true of what is under way or not too old. The caller holds the lock of the
// cache, under which until is written.
func (e *entry) valid(now time.Time) bool { return e.until.IsZero() || now.Before(e.until) }

// resolve looks up an image for an entry, which is under way.
func (c *Cache) resolve(ctx context.Context, e *entry, image, arch string, logins []backend.Credential) {
	defer close(e.done)
	config, err := c.ask(ctx, image, arch, logins)
	c.mu.Lock()
	defer c.mu.Unlock()
	e.config, e.err = config, err
	switch {
	case err != nil:
		e.until = time.Now().Add(failedFor)
	case !strings.Contains(image, "@"):
		e.until = time.Now()
		if _, ok := c.inner.(remembers); !ok {
			e.until = e.until.Add(freshFor)
		}
	}
}

// ask asks for an image in its turn.
func (c *Cache) ask(ctx context.Context, image, arch string, logins []backend.Credential) (taskdef.ImageConfig, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-c.living.Done():
	}
	if c.living.Err() != nil {
		return taskdef.ImageConfig{}, errEnded
	}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	defer context.AfterFunc(c.living, cancel)()
	config, err := c.inner.Config(ctx, image, arch, logins)
	if err != nil && c.living.Err() != nil {
		err = errEnded
	}
	return config, err
}

// imageKey is the same for look-ups that must end the same. It holds the logins as a
// hash alone.
func imageKey(image, arch string, logins []backend.Credential) string {
	h := sha256.New()
	for _, l := range logins {
		for _, part := range []string{l.Registry, l.Username, l.Password, l.IdentityToken} {
			_, _ = h.Write([]byte(strconv.Itoa(len(part)) + ":" + part)) // it returns no error
		}
	}
	return image + "\n" + arch + "\n" + string(h.Sum(nil))
}
