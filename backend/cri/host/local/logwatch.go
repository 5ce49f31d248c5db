package local

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// logWatch tells the logs that are followed of what happens in their directories. All of
// a host share one inotify instance: a user may have few (fs.inotify.max_user_instances,
// 128), and a node may have 500 streams. There is none while no log is followed.
type logWatch struct {
	mu      sync.Mutex
	watcher *fsnotify.Watcher
	// logs are those that are followed, by their directory.
	logs map[string]map[*logFiles]struct{}
	// done is closed when the goroutine of watcher has ended.
	done chan struct{}
}

// add has a log told of what happens from now on.
func (w *logWatch) add(l *logFiles) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watcher == nil {
		watcher, err := fsnotify.NewWatcher()
		if err != nil {
			return fmt.Errorf("follow log %s: inotify: %w; fs.inotify.max_user_instances may be too low", l.path, err)
		}
		w.watcher, w.logs, w.done = watcher, map[string]map[*logFiles]struct{}{}, make(chan struct{})
		go w.run(watcher, w.done)
	}
	dir := filepath.Dir(l.path)
	// Also where it is watched already: it may have been removed and made again since.
	if err := w.watcher.Add(dir); err != nil {
		err = fmt.Errorf("follow log %s: inotify: %w; fs.inotify.max_user_watches may be too low", l.path, err)
		if len(w.logs) == 0 {
			err = errors.Join(err, w.watcher.Close())
			w.watcher = nil
		}
		return err
	}
	if w.logs[dir] == nil {
		w.logs[dir] = map[*logFiles]struct{}{}
	}
	w.logs[dir][l] = struct{}{}
	return nil
}

// remove ends it: once it returns, the log is told of nothing more.
func (w *logWatch) remove(l *logFiles) error {
	w.mu.Lock()
	dir := filepath.Dir(l.path)
	delete(w.logs[dir], l)
	if len(w.logs[dir]) > 0 {
		w.mu.Unlock()
		return nil
	}
	delete(w.logs, dir)
	if len(w.logs) > 0 {
		err := w.watcher.Remove(dir)
		w.mu.Unlock()
		if errors.Is(err, fsnotify.ErrNonExistentWatch) { // the directory is gone
			err = nil
		}
		return err
	}
	watcher, done := w.watcher, w.done
	w.watcher = nil
	w.mu.Unlock() // run may wait for it
	err := watcher.Close()
	<-done
	return err
}

// run hands on what happens until the watcher is closed.
func (w *logWatch) run(watcher *fsnotify.Watcher, done chan struct{}) {
	defer close(done)
	for {
		select {
		case e, ok := <-watcher.Events:
			if !ok {
				return
			}
			w.tell(watcher, e)
		case _, ok := <-watcher.Errors:
			if !ok {
				return
			}
			w.tellAll(watcher)
		}
	}
}

func (w *logWatch) tell(watcher *fsnotify.Watcher, e fsnotify.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watcher != watcher {
		return // it is of no log that is followed now
	}
	for l := range w.logs[filepath.Dir(e.Name)] {
		l.happened(e.Has(fsnotify.Create) && e.Name == l.path)
	}
}

// tellAll is for a queue that has overflown: anything may have happened.
func (w *logWatch) tellAll(watcher *fsnotify.Watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watcher != watcher {
		return
	}
	for _, logs := range w.logs {
		for l := range logs {
			l.happened(true)
		}
	}
}
