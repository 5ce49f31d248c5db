package imagegc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

const (
	// period is how often garbage is looked for (kubelet: ImageGCPeriod).
	period = 5 * time.Minute
	// pause is the least time between two collections, whoever asks for the second.
	pause = 10 * time.Second
	// retry is when it is looked again where the remote did not answer.
	retry = 30 * time.Second
	// callTimeout bounds one call to the store.
	callTimeout = 2 * time.Minute
)

// Why an image was collected (kubelet: image_garbage_collected_total).
const (
	ofAge    = "age"
	forSpace = "space"
)

// Reasons are the values of Config.Removed.
func Reasons() []string { return []string{ofAge, forSpace} }

// The kubelet's reasons of Events on the Node.
const (
	reasonInvalidCapacity = "InvalidDiskCapacity"
	reasonFreeFailed      = "FreeDiskSpaceFailed"
	reasonGCFailed        = "ImageGCFailed"
)

// Config is what a Collector works with.
type Config struct {
	Store  backend.ImageStore
	Policy Policy
	// Wanted returns the images, by name or id, that pods of this node need, whether
	// or not a container was made from them yet.
	Wanted func() []string
	// Event tells users about the Node; nil tells nobody.
	Event func(kind, reason, message string)
	// Removed is told of every image that was removed, with why: "age" or "space".
	Removed func(why string)
	// Listed is told of every listing of the images and when it began; nil tells nobody.
	Listed func(images []backend.ImageFacts, began time.Time)
	// Measured is told of the bytes of the file system that images stand on, whenever
	// they were looked at; nil tells nobody.
	Measured func(used, capacity uint64)
}

// Collector removes images that nobody uses when the disk that they stand on fills,
// or when they are old (kubelet: ImageGCManager). What it knows of their age is from
// its own life.
type Collector struct {
	cfg            Config
	ready, noSpace chan struct{}
	// unused asks Run to remove all that is unused, and to say how that went.
	unused chan chan<- error

	// Below: of Run alone.
	began   time.Time
	records records
	// failed is true when the last collection did.
	failed bool
}

// New returns a collector that does nothing until Run.
func New(cfg Config) *Collector {
	return &Collector{
		cfg: cfg, ready: make(chan struct{}, 1), noSpace: make(chan struct{}, 1), unused: make(chan chan<- error),
		records: records{},
	}
}

// Ready says that Wanted is complete from now on: nothing is removed before.
func (c *Collector) Ready() { signal(c.ready) }

// NoSpace says that a pull found no room. It never blocks.
func (c *Collector) NoSpace() { signal(c.noSpace) }

func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default: // somebody said so already
	}
}

// NoSpace is true for the error of a pull for which the remote has no room.
func NoSpace(err error) bool {
	return err != nil && (errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "no space left on device"))
}

// Run collects now and then until the context ends, and soon after NoSpace.
func (c *Collector) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-c.ready:
	}
	c.began = time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last time.Time
	full := false // a pull found no room since the last collection
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.noSpace:
			full = true
			timer.Reset(time.Until(last.Add(pause)))
			continue
		case done := <-c.unused:
			done <- c.deleteUnused(ctx)
			continue
		case <-timer.C:
		}
		again := c.collectOnce(ctx, full)
		last, full = time.Now(), false
		timer.Reset(max(again, pause))
	}
}

// collectOnce returns when to collect again. That it failed is told only
// when it did so before: the first time may pass.
func (c *Collector) collectOnce(ctx context.Context, full bool) (again time.Duration) {
	again, err := c.collect(ctx, full)
	entry := log.G(ctx).WithError(err)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, backend.ErrUnavailable), errors.Is(err, backend.ErrThrottled):
		entry.Debug("the garbage of images was not collected, trying again")
		return retry
	case err == nil:
		c.failed = false
	case c.failed:
		entry.Error("image garbage collection failed multiple times in a row")
		c.tell(reasonGCFailed, err.Error())
	default:
		entry.Warn("image garbage collection failed")
		c.failed = true
	}
	return again
}

func (c *Collector) tell(reason, message string) {
	if c.cfg.Event != nil {
		c.cfg.Event(corev1.EventTypeWarning, reason, message)
	}
}

// collect removes the images that are too old, and, where the disk is over the high
// threshold or full, as many as take it to the low one.
func (c *Collector) collect(ctx context.Context, full bool) (again time.Duration, err error) {
	now := time.Now()
	facts, err := bounded(ctx, c.cfg.Store.List)
	if err != nil {
		return period, fmt.Errorf("list images: %w", err)
	}
	if c.cfg.Listed != nil {
		c.cfg.Listed(facts, now)
	}
	now = time.Now()
	c.records.detect(facts, newWanted(c.cfg.Wanted()), now)
	if age := c.cfg.Policy.MaxAge; age > 0 && now.Sub(c.began) > age {
		if err := c.freeOld(ctx, now); err != nil {
			return period, err
		}
	}
	disk, err := bounded(ctx, c.cfg.Store.Disk)
	if err != nil {
		return period, fmt.Errorf("measure the file system of images: %w", err)
	}
	if c.cfg.Measured != nil && disk.Capacity != nil && disk.Available != nil {
		// As for the thresholds: what is not available is used.
		c.cfg.Measured(*disk.Capacity-min(*disk.Available, *disk.Capacity), *disk.Capacity)
	}
	excess, err := c.cfg.Policy.excess(disk, full)
	if err != nil {
		c.tell(reasonInvalidCapacity, err.Error())
		return period, err
	}
	if excess == 0 {
		return period, nil
	}
	log.G(ctx).WithField("bytes", excess).Info("the disk of images is over the threshold, removing unused ones")
	freed, err := c.freeSpace(ctx, excess, now)
	switch {
	case err != nil:
		return period, fmt.Errorf(
			"wanted to free %d bytes, but freed %d bytes space with errors in image deletion: %w", excess, freed, err,
		)
	case freed >= excess:
		return period, nil
	}
	if wait := c.records.ripe(c.cfg.Policy.MinAge, now); wait < period {
		return wait, nil // there is more to remove, soon: not all was tried yet
	}
	message := freeFailed(disk, freed)
	c.tell(reasonFreeFailed, message)
	return period, errors.New(message)
}

func bounded[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return call(ctx)
}

// freeOld removes what was not used for longer than MaxAge.
func (c *Collector) freeOld(ctx context.Context, now time.Time) error {
	var errs []error
	for _, image := range c.records.inOrder() {
		if now.Sub(image.lastUsed) > c.cfg.Policy.MaxAge {
			if _, err := c.free(ctx, image, ofAge); err != nil {
				errs = append(errs, err)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf(
			"wanted to free images older than %v, encountered errors in image deletion: %w", c.cfg.Policy.MaxAge, err,
		)
	}
	return nil
}

// freeSpace removes images, those unused for longest first, until so much is freed.
func (c *Collector) freeSpace(ctx context.Context, excess uint64, now time.Time) (freed uint64, err error) {
	var errs []error
	for _, image := range c.records.inOrder() {
		if freed >= excess {
			break
		}
		if now.Sub(image.firstDetected) < c.cfg.Policy.MinAge {
			continue // just pulled, perhaps for a container that is yet to be made
		}
		size, err := c.free(ctx, image, forSpace)
		if err != nil {
			errs = append(errs, err)
		}
		freed += size
	}
	return freed, errors.Join(errs...)
}

// free removes one image, unless a pod has come meanwhile that wants it, and
// returns what it took.
func (c *Collector) free(ctx context.Context, image candidate, why string) (uint64, error) {
	if newWanted(c.cfg.Wanted()).has(image.id, image.names) {
		return 0, nil
	}
	log.G(ctx).WithFields(log.Fields{"image": image.id, "bytes": image.size, "why": why}).Info("removing an unused image")
	_, err := bounded(
		ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, c.cfg.Store.Remove(ctx, image.id) },
	)
	switch {
	case errors.Is(err, backend.ErrNotFound): // somebody else's work
		delete(c.records, image.id)
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("remove image %s: %w", image.id, err)
	}
	delete(c.records, image.id)
	if c.cfg.Removed != nil {
		c.cfg.Removed(why)
	}
	return image.size, nil
}
