package ecs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
)

// ImageConfigs looks up what images say of themselves.
type ImageConfigs interface {
	// Config returns the configuration of an image for a machine, "amd64" or "arm64",
	// logging in to its registry with each of the credentials in turn, without any
	// anonymously. Any error but the context's is what the registry said, or why it
	// could not be asked.
	Config(ctx context.Context, image, arch string, logins []backend.Credential) (taskdef.ImageConfig, error)
}

// How long is remembered what a registry said: for ever of an image by digest.
const (
	imageFresh  = 5 * time.Minute
	imageFailed = 20 * time.Second
	// maxImages bounds what is remembered.
	maxImages = 1000
	// imageLookups is how many go on at a time, and imageLookup how long each may take.
	imageLookups = 8
	imageLookup  = 20 * time.Second
)

// imageCache asks once for an image that many pods have.
type imageCache struct {
	inner ImageConfigs
	slots chan struct{}

	mu      sync.Mutex
	entries map[string]*imageEntry
}

// imageEntry is a look-up: under way until done is closed.
type imageEntry struct {
	done   chan struct{}
	config taskdef.ImageConfig
	err    error
	// until is when it is to be asked again; zero is never.
	until time.Time
	used  time.Time
}

func newImageCache(inner ImageConfigs) *imageCache {
	return &imageCache{inner: inner, slots: make(chan struct{}, imageLookups), entries: map[string]*imageEntry{}}
}

// Config implements ImageConfigs. A look-up that has begun goes on without its
// caller, for the next.
func (c *imageCache) Config(ctx context.Context, image, arch string, logins []backend.Credential) (taskdef.ImageConfig, error) {
	e := c.entry(ctx, image, arch, logins)
	select {
	case <-e.done:
		return e.config, e.err
	case <-ctx.Done():
		return taskdef.ImageConfig{}, ctx.Err()
	}
}

func (c *imageCache) entry(ctx context.Context, image, arch string, logins []backend.Credential) *imageEntry {
	key, now := imageKey(image, arch, logins), time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil && e.valid(now) {
		e.used = now
		return e
	}
	c.makeRoom()
	e := &imageEntry{done: make(chan struct{}), used: now}
	c.entries[key] = e
	go c.look(context.WithoutCancel(ctx), e, image, arch, logins)
	return e
}

// valid is true of what is under way or not too old. The caller holds the lock of the
// cache, under which until is written.
func (e *imageEntry) valid(now time.Time) bool { return e.until.IsZero() || now.Before(e.until) }

func (c *imageCache) look(ctx context.Context, e *imageEntry, image, arch string, logins []backend.Credential) {
	defer close(e.done)
	c.slots <- struct{}{}
	defer func() { <-c.slots }()
	ctx, cancel := context.WithTimeout(ctx, imageLookup)
	defer cancel()
	config, err := c.inner.Config(ctx, image, arch, logins)
	c.mu.Lock()
	defer c.mu.Unlock()
	e.config, e.err = config, err
	switch {
	case err != nil:
		e.until = time.Now().Add(imageFailed)
	case !strings.Contains(image, "@"):
		e.until = time.Now().Add(imageFresh)
	}
}

// makeRoom forgets the entry that was used longest ago.
func (c *imageCache) makeRoom() {
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

// lookUp asks for the images of a launch whose containers are supervised. Errors: a
// ContainerError for an image that must be known and is not, or whose user is not
// allowed; Throttled for one that was given up with the context.
func lookUp(ctx context.Context, cfg taskdef.Config, images ImageConfigs, spec backend.LaunchSpec) (taskdef.Images, error) {
	if cfg.TaskImage == "" {
		return nil, nil
	}
	arch, err := taskdef.Arch(cfg, spec.Pod)
	if err != nil {
		return nil, err
	}
	out := taskdef.Images{}
	for _, c := range spec.Containers {
		found, err := lookUpOne(ctx, images, arch, c)
		switch {
		case err == nil:
			out[c.Container.Name] = found
		case ctx.Err() != nil:
			return nil, backend.Errorf(backend.ErrThrottled, "look up image %q: %w", c.Container.Image, err)
		case taskdef.NeedsImage(spec.Pod, c.Container):
			return nil, &backend.ContainerError{Container: c.Container.Name, Reason: imageReason(err), Err: err}
		}
	}
	for _, c := range spec.Containers {
		if err := taskdef.NonRoot(spec.Pod, c.Container, out); err != nil {
			return nil, &backend.ContainerError{Container: c.Container.Name, Reason: reasonConfig, Err: err}
		}
		if taskdef.Argv(c, out) == nil {
			return nil, &backend.ContainerError{Container: c.Container.Name, Reason: reasonCreate, Err: taskdef.ErrNoCommand}
		}
	}
	return out, nil
}

var errImageName = errors.New("InvalidImageName")

func imageReason(err error) string {
	if errors.Is(err, errImageName) {
		return errImageName.Error()
	}
	return reasonImagePull
}

func lookUpOne(ctx context.Context, images ImageConfigs, arch string, c backend.ContainerSpec) (taskdef.ImageConfig, error) {
	image := c.Container.Image
	if _, err := name.ParseReference(image); err != nil {
		return taskdef.ImageConfig{}, fmt.Errorf("%w: Failed to apply default image tag %q: %w", errImageName, image, err)
	}
	config, err := images.Config(ctx, image, arch, c.Credentials)
	if err != nil {
		return taskdef.ImageConfig{}, fmt.Errorf("look up image %q: %w", image, err)
	}
	return config, nil
}
