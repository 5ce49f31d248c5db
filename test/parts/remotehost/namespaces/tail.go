package namespaces

import (
	"io"
	"sync"
)

// tailBytes is how much of a log an error quotes.
const tailBytes = 4 << 10

// Tail passes a log on and keeps its end for error messages.
type Tail struct {
	next io.Writer // may be nil

	mu  sync.Mutex
	end []byte
}

// Write implements [io.Writer].
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	if extra := len(t.end) - tailBytes; extra > 0 {
		t.end = append(t.end[:0], t.end[extra:]...)
	}
	if t.next == nil {
		return len(p), nil
	}
	return t.next.Write(p)
}

// String returns the end of what was written.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.end)
}
