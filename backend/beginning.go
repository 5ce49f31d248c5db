package backend

import (
	"bytes"
	"sync"
)

// Beginning keeps the first Most bytes that are written to it and takes the rest, so that a
// command is not disturbed. It may be read while a command that was given up still writes.
type Beginning struct {
	// Most is not changed after the first write.
	Most int

	mu   sync.Mutex
	kept bytes.Buffer // not embedded: its ReadFrom has no bound
	cut  bool
}

// Write never fails.
func (b *Beginning) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	room := min(b.Most-b.kept.Len(), len(p))
	b.cut = b.cut || room < len(p)
	b.kept.Write(p[:room])
	return len(p), nil
}

// Bytes returns a copy of what was kept.
func (b *Beginning) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.kept.Bytes())
}

// Cut is true once something was not kept.
func (b *Beginning) Cut() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cut
}
