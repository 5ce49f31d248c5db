// Package background runs what blocks until its context ends beside a test.
package background

import (
	"context"
	"sync"
	"testing"
)

// Run runs f until the test ends or the function that it returns is called, which waits
// for f's end. An error of f fails the test.
func Run(t testing.TB, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // that ends before cleanups
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}
