package ecs

import (
	"context"
	"sync"
	"time"
)

// imagePull is the pull of an image for the containers of a task that have it.
type imagePull struct {
	// done is closed when digest and err stand.
	done   chan struct{}
	digest string
	err    error
}

// failed is true once it did.
func (p *imagePull) failed() bool {
	select {
	case <-p.done:
		return p.err != nil
	default:
		return false
	}
}

// pullAll pulls every image. What could not be pulled ends the task when the container
// would start.
func (d *driver) pullAll(ctx context.Context) {
	var all sync.WaitGroup
	for i := range d.parts {
		all.Go(func() { _ = d.pull(ctx, i) }) // start asks again
	}
	all.Wait()
}

// pull returns when the image of container i is there: at once if the task has it. One
// that could not be pulled is pulled again by who has credentials.
func (d *driver) pull(ctx context.Context, i int) error {
	image, login := d.parts[i].spec.Image, d.login(i)
	for {
		d.s.mu.Lock()
		p := d.images[image]
		own := p == nil || login != nil && p.failed()
		if own {
			p = &imagePull{done: make(chan struct{})}
			d.images[image] = p
		}
		d.s.mu.Unlock()
		if own {
			d.pullNow(ctx, p, image, login)
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if p.err == nil || own || login == nil {
			d.note(func(time.Duration) { d.t.life.containers[i].digest = p.digest })
			return p.err
		}
	}
}

// pullNow pulls, unless the task is to end meanwhile.
func (d *driver) pullNow(ctx context.Context, p *imagePull, image string, login *Login) {
	defer close(p.done)
	if !d.pause(ctx, d.s.cfg.pullOf(image)) {
		p.err = context.Canceled
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-d.halt:
			cancel()
		case <-ctx.Done():
		}
	}()
	p.digest, p.err = d.run.Pull(ctx, image, login)
	d.note(func(now time.Duration) { d.t.life.pulled = now })
}

// login are a container's credentials for its registry, nil without any.
func (d *driver) login(i int) *Login {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	rc := d.t.def.ContainerDefinitions[i].RepositoryCredentials
	if rc == nil {
		return nil
	}
	at, _ := parseSecret(*rc.CredentialsParameter) // checked at registration
	login, _ := d.s.loginOf(at)
	return login
}
