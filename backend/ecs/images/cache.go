package images

import (
	"context"
	"crypto/sha256"
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

// How long is remembered what a registry said: for ever of an image by digest.
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

// NewCache returns an empty cache of what inner says.
func NewCache(inner Configs) *Cache {
	return &Cache{inner: inner, slots: make(chan struct{}, lookups), entries: map[string]*entry{}}
}

// Config implements Configs. A look-up that has begun goes on without its
// caller, for the next.
func (c *Cache) Config(ctx context.Context, image, arch string, logins []backend.Credential) (taskdef.ImageConfig, error) {
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
	c.makeRoom()
	e := &entry{done: make(chan struct{}), used: now}
	c.entries[key] = e
	go c.resolve(context.WithoutCancel(ctx), e, image, arch, logins)
	return e
}

// valid is true of what is under way or not too old. The caller holds the lock of the
// cache, under which until is written.
func (e *entry) valid(now time.Time) bool { return e.until.IsZero() || now.Before(e.until) }

func (c *Cache) resolve(ctx context.Context, e *entry, image, arch string, logins []backend.Credential) {
	defer close(e.done)
	c.slots <- struct{}{}
	defer func() { <-c.slots }()
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	config, err := c.inner.Config(ctx, image, arch, logins)
	c.mu.Lock()
	defer c.mu.Unlock()
	e.config, e.err = config, err
	switch {
	case err != nil:
		e.until = time.Now().Add(failedFor)
	case !strings.Contains(image, "@"):
		e.until = time.Now().Add(freshFor)
	}
}

// makeRoom forgets the entry that was used longest ago.
func (c *Cache) makeRoom() {
	if len(c.entries) < maxImages {
		return
	}
	oldest := ""
	for key, e := range c.entries {
		if oldest == "" || e.used.Before(c.entries[oldest].used) {
			oldest = key
		}
	}
	delete(c.entries, oldest)
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
