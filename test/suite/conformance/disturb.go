package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Disturbance is what happens over and over while tests run.
type Disturbance struct {
	// KillEvery is how often burstlet is killed (SIGKILL) and started again; 0: never.
	KillEvery time.Duration
	// CutEvery is how often the way to the host is cut for CutFor, after which what was
	// connected is reset; 0: never.
	CutEvery, CutFor time.Duration
}

// Disturb disturbs until the function that it returns is called, or ctx ends. That
// function returns when all is whole again, with what could not be done.
func (c *Cluster) Disturb(ctx context.Context, d Disturbance) (undisturbed func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var disturbing sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	every := func(period time.Duration, what string, f func(context.Context) error) {
		if period <= 0 {
			return
		}
		disturbing.Go(func() {
			ticker := time.NewTicker(period)
			defer ticker.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				if err := f(ctx); err != nil {
					mu.Lock()
					errs = append(errs, fmt.Errorf("%s: %w", what, err))
					mu.Unlock()
					return
				}
			}
		})
	}
	every(d.KillEvery, "kill burstlet", func(context.Context) error {
		if err := c.node.kill(); err != nil {
			return err
		}
		return c.node.start()
	})
	every(d.CutEvery, "cut the link", func(ctx context.Context) error { return c.cut(ctx, d.CutFor) })
	return func() error {
		cancel()
		disturbing.Wait()
		return errors.Join(errs...)
	}
}

// cut makes the way to the host a black hole for a time.
func (c *Cluster) cut(ctx context.Context, length time.Duration) error {
	restore, err := c.remote.cut()
	if err != nil {
		return err
	}
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	restore()
	return nil
}
