package objectcache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/log"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/burstlet/burstlet/backend/pause"
)

const (
	// watchTimeout is how long a watch lasts at least, if nothing goes wrong; up
	// to twice that, so that they do not all end together. It is the kubelet's.
	watchTimeout = 30 * time.Minute
	// shortWatch is the time under which a watch that ended well is odd enough to
	// wait before the next.
	shortWatch = time.Second
)

// errShortWatch is a watch that the API server ended at once and without an error.
var errShortWatch = errors.New("the watch ended at once")

// follower keeps one object up to date: a list of that one object, by its name,
// and then a watch from there on. A reflector of client-go would do the same with
// another spacing of retries and a store for each object.
type follower[T metav1.Object] struct {
	w *watched[T]
	o *object[T]
	// version is where the next watch goes on; empty: a list is needed first.
	version string
	retry   retry
}

// run follows until ctx ends or the object can no longer change.
func (f *follower[T]) run(ctx context.Context) {
	for ctx.Err() == nil {
		final, err := f.step(ctx)
		switch {
		case final || ctx.Err() != nil:
			return
		case err != nil && !f.wait(ctx, err):
			return
		}
	}
}

// step is a list if one is needed, and a watch.
func (f *follower[T]) step(ctx context.Context) (final bool, err error) {
	if f.version == "" {
		if final, err := f.list(ctx); final || err != nil {
			return final, err
		}
	}
	return f.watch(ctx)
}

// wait lets the time to the next try pass; false means that ctx ended.
func (f *follower[T]) wait(ctx context.Context, err error) bool {
	if apierrors.IsGone(err) || apierrors.IsResourceExpired(err) {
		f.version = ""
	}
	delay, told := f.retry.failed(time.Now(), err)
	entry := log.G(ctx).WithError(err).WithField("kind", f.w.kind.name).WithField("object", f.o.key.String())
	if told {
		// The list that follows tells when it is over.
		f.version = ""
		f.w.failed(f.o, fmt.Errorf("failed to sync %s cache: %w", f.w.kind.name, err))
	}
	if told && f.retry.report() {
		entry.Warn("object not read")
	} else {
		entry.Debug("object not read yet")
	}
	return pause.For(ctx, delay) == nil
}

func (f *follower[T]) options() metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, f.o.key.Name).String()}
}

// list looks until it has looked for every pod that came meanwhile.
func (f *follower[T]) list(ctx context.Context) (final bool, err error) {
	for {
		look := f.w.pending(f.o)
		item, exists, version, err := f.get(ctx)
		if err != nil {
			return false, err
		}
		f.retry = retry{}
		if exists {
			item.SetManagedFields(nil)
		}
		if f.w.found(f.o, look, exists, item) {
			return true, nil
		}
		if f.w.pending(f.o) == look {
			f.version = version
			return false, nil
		}
	}
}

// get returns the object, if it exists, and the version to watch from.
func (f *follower[T]) get(ctx context.Context) (item T, exists bool, version string, err error) {
	done, err := f.w.cache.ask(ctx)
	if err != nil {
		return item, false, "", err
	}
	defer done()
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// Without a version the list is as new as the request: a pod does not get
	// what stood there before it was made.
	items, version, err := f.w.kind.list(call, f.o.key.Namespace, f.options())
	if err != nil {
		return item, false, "", err
	}
	for _, item := range items {
		if item.GetName() == f.o.key.Name {
			return item, true, version, nil
		}
	}
	return item, false, version, nil
}

// watch takes changes in until the watch ends.
func (f *follower[T]) watch(ctx context.Context) (final bool, err error) {
	o := f.options()
	o.ResourceVersion = f.version
	o.AllowWatchBookmarks = true
	seconds := int64((watchTimeout + jitter(watchTimeout)).Seconds())
	o.TimeoutSeconds = &seconds
	opened, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, err := f.open(opened, cancel, o)
	if err != nil {
		return false, err
	}
	defer changes.Stop()
	began := time.Now()
	for {
		select {
		case <-ctx.Done():
			return true, nil
		case event, ok := <-changes.ResultChan():
			if !ok && time.Since(began) < shortWatch {
				return false, errShortWatch
			}
			if !ok {
				f.retry = retry{}
				return false, nil
			}
			if final, err := f.take(event); final || err != nil {
				return final, err
			}
		}
	}
}

// errNotOpened is a watch that the API server did not answer.
var errNotOpened = errors.New("the watch was not answered in time")

// open begins a watch, which cancel ends with its context. One that is not answered is
// given up: it would keep its place for ever.
func (f *follower[T]) open(ctx context.Context, cancel func(), o metav1.ListOptions) (watch.Interface, error) {
	done, err := f.w.cache.ask(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	late := time.AfterFunc(callTimeout, cancel)
	changes, err := f.w.kind.watch(ctx, f.o.key.Namespace, o)
	if late.Stop() {
		return changes, err
	}
	if err == nil {
		changes.Stop()
	}
	return nil, errNotOpened
}

// take notes one change.
func (f *follower[T]) take(event watch.Event) (final bool, err error) {
	if event.Type == watch.Error {
		return false, apierrors.FromObject(event.Object)
	}
	item, ok := event.Object.(T)
	if !ok {
		return false, fmt.Errorf("unexpected object type: %T", event.Object)
	}
	f.version, f.retry = item.GetResourceVersion(), retry{}
	if item.GetName() != f.o.key.Name {
		return false, nil // a bookmark
	}
	switch event.Type {
	case watch.Added, watch.Modified:
		item.SetManagedFields(nil)
		return f.w.found(f.o, 0, true, item), nil
	case watch.Deleted:
		var none T
		f.w.found(f.o, 0, false, none)
	}
	return false, nil
}
