package local

import (
	"errors"
	"fmt"
	"os"
	"sync"
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
	watch   *logWatch // nil without follow

	mu sync.Mutex
	// waiting are open, the oldest first; last is the newest of all.
	waiting []*os.File
	last    os.FileInfo
}

// openLog opens the file, and has its directory watched when it follows, which is when
// watch is not nil: writes, renames and new files show there.
func openLog(path string, watch *logWatch) (*logFiles, error) {
	l := &logFiles{path: path, changed: make(chan struct{}, 1)}
	f, info, err := openRegular(path)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l.current, l.last = f, info
	if watch == nil {
		return l, nil
	}
	if err := watch.add(l); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	l.watch = watch
	l.look() // for a rotation between the two
	return l, nil
}

// happened is told of each event in the directory, and whether the log's name may be
// another file's by it. It opens that at once: one that is rotated again while the reader
// is slow would be missed.
func (l *logFiles) happened(renamed bool) {
	if renamed {
		l.look()
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// look opens the file of the log's name if it is another than the last.
func (l *logFiles) look() {
	l.mu.Lock() // before the file is opened: of two who look at once, the later file comes last
	defer l.mu.Unlock()
	f, info, err := openRegular(l.path)
	if err != nil {
		return // Between two files; the next shows by an event of its own.
	}
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

// Close ends the watching.
func (l *logFiles) Close() error {
	var errs []error
	if l.watch != nil {
		errs = append(errs, l.watch.remove(l))
	}
	for _, f := range append([]*os.File{l.current}, l.waiting...) {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
