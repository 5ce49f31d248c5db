package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// maxWaiting bounds the rotated files that a slow reader keeps open; the oldest of
// more are lost to it.
const maxWaiting = 5

// logFiles are the files of one log: the one being read and those that took its
// name since. Without follow there is only the first.
type logFiles struct {
	path    string
	current *os.File
	// changed has a value when there may be something new.
	changed chan struct{}

	watcher *fsnotify.Watcher
	done    chan struct{}

	mu sync.Mutex
	// waiting are open, the oldest first; last is the newest of all.
	waiting []*os.File
	last    os.FileInfo
}

// openLog opens the file, and watches its directory when it follows: writes,
// renames and new files show there.
func openLog(path string, follow bool) (*logFiles, error) {
	l := &logFiles{path: path, changed: make(chan struct{}, 1), done: make(chan struct{})}
	if follow {
		// Before the file is opened, so that no rotation is missed.
		if err := l.watch(); err != nil {
			return nil, err
		}
	}
	f, info, err := openRegular(path)
	if err != nil {
		err = fmt.Errorf("open log: %w", err)
		if l.watcher != nil {
			err = errors.Join(err, l.watcher.Close())
		}
		return nil, err
	}
	l.current, l.last = f, info
	if follow {
		go l.run()
	} else {
		close(l.done)
	}
	return l, nil
}

func (l *logFiles) watch() error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("follow log %s: inotify: %w; fs.inotify.max_user_instances may be too low", l.path, err)
	}
	if err := w.Add(filepath.Dir(l.path)); err != nil {
		return errors.Join(
			fmt.Errorf("follow log %s: inotify: %w; fs.inotify.max_user_watches may be too low", l.path, err), w.Close(),
		)
	}
	l.watcher = w
	return nil
}

// run turns events into hints until Close. It opens a new file at once: one that
// is rotated again while the reader is slow would be missed.
func (l *logFiles) run() {
	defer close(l.done)
	for {
		select {
		case e, ok := <-l.watcher.Events:
			if !ok {
				return
			}
			if e.Has(fsnotify.Create) && e.Name == l.path {
				l.look()
			}
		case _, ok := <-l.watcher.Errors:
			// The queue has overflown: anything may have happened.
			if !ok {
				return
			}
			l.look()
		}
		select {
		case l.changed <- struct{}{}:
		default:
		}
	}
}

// look opens the file of the log's name if it is another than the last.
func (l *logFiles) look() {
	f, info, err := openRegular(l.path)
	if err != nil {
		return // Between two files; the next shows by an event of its own.
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if os.SameFile(info, l.last) {
		_ = f.Close() // It was only looked at.
		return
	}
	l.last = info
	l.waiting = append(l.waiting, f)
	if len(l.waiting) > maxWaiting {
		_ = l.waiting[0].Close() // As above.
		l.waiting = l.waiting[1:]
	}
}

// hasNext is true when the current file is not written any more: there is one
// after it that is, or was.
func (l *logFiles) hasNext() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return false
	}
	info, err := l.waiting[0].Stat()
	return len(l.waiting) > 1 || err != nil || info.Size() > 0
}

// next makes the next file the current one.
func (l *logFiles) next() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.current
	l.current, l.waiting = l.waiting[0], l.waiting[1:]
	if err := old.Close(); err != nil {
		return fmt.Errorf("close rotated log: %w", err)
	}
	return nil
}

// Close ends the watching and waits for it.
func (l *logFiles) Close() error {
	var errs []error
	if l.watcher != nil {
		errs = append(errs, l.watcher.Close())
	}
	<-l.done
	for _, f := range append([]*os.File{l.current}, l.waiting...) {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
