package basecluster

import (
	"sync"
	"testing"

	"github.com/burstlet/burstlet/test/kit/logs"
)

// Log keeps the end of what a program prints.
type Log struct {
	mu   sync.Mutex
	text []byte
}

// Write implements [io.Writer].
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if spare := len(l.text) - 2*logTail; spare > 0 {
		l.text = l.text[spare:]
	}
	return len(p), nil
}

// ShowAtFailure shows what was kept when the test fails.
func (l *Log) ShowAtFailure(t testing.TB, of string) {
	t.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		logs.Show(t, of, string(l.text))
	})
}
