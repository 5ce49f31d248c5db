package namespaces

import (
	"bytes"
	"io"
	"sync"
)

// tailBytes is how much of a log an error quotes.
const tailBytes = 4 << 10

// crashes are how a Go program begins to say why it ends.
var crashes = [][]byte{[]byte("fatal error: "), []byte("panic: "), []byte("SIG")}

// Tail passes a log on and keeps its end for error messages, and the beginning of the
// first crash of a Go program: the end of that one's report names other goroutines.
type Tail struct {
	next io.Writer // may be nil

	mu    sync.Mutex
	end   []byte
	crash []byte
}

// Write implements [io.Writer].
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keepCrash(p)
	t.end = append(t.end, p...)
	if extra := len(t.end) - tailBytes; extra > 0 {
		t.end = append(t.end[:0], t.end[extra:]...)
	}
	if t.next == nil {
		return len(p), nil
	}
	return t.next.Write(p)
}

func (t *Tail) keepCrash(p []byte) {
	for _, begin := range crashes {
		if at := bytes.Index(p, begin); len(t.crash) == 0 && at >= 0 && (at == 0 || p[at-1] == '\n') {
			p = p[at:]
			t.crash = append(t.crash, p[:min(len(p), tailBytes)]...)
			return
		}
	}
	if len(t.crash) > 0 {
		t.crash = append(t.crash, p[:min(len(p), tailBytes-len(t.crash))]...)
	}
}

// String returns the beginning of the first crash, if there was one, and the end of
// what was written.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.crash) == 0 {
		return string(t.end)
	}
	return string(t.crash) + "\n...\n" + string(t.end)
}
