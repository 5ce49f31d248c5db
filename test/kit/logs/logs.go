// Package logs keeps what processes print, and shows it when a test that used them
// failed.
package logs

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// most is how much is shown of a log, in bytes.
const most = 40_000

// Buffer keeps what is written to it. The zero value is ready to use, and keeps all.
type Buffer struct {
	// Keep bounds how much of the end is kept at least, in bytes; 0 keeps all. It is
	// set before the first write.
	Keep int

	mu   sync.Mutex
	text []byte
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	if spare := len(b.text) - 2*b.Keep; b.Keep > 0 && spare > 0 {
		// The half, so that not each write copies.
		b.text = append([]byte(nil), b.text[len(b.text)-b.Keep:]...)
	}
	return len(p), nil
}

// String is what was written, as far as it is kept.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

// Tail is the end of it, of n bytes at most.
func (b *Buffer) Tail(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text[max(0, len(b.text)-n):])
}

// ShowAtFailure shows the end of it when the test has ended and failed.
func (b *Buffer) ShowAtFailure(t testing.TB, of string) {
	t.Helper()
	t.Cleanup(func() { Show(t, of, b.String()) })
}

// Show prints the end of a log if the test failed. It goes to standard error, not to
// the test's own report: long logs there would hide what the test says of its failure.
func Show(t testing.TB, of, log string) {
	t.Helper()
	if !t.Failed() {
		return
	}
	fmt.Fprintf(os.Stderr, "%s failed; end of the log of %s:\n%s\n", t.Name(), of, log[max(0, len(log)-most):])
}
