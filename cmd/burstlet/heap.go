package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// gcPercent trades a little work for memory: most of a node's heap is its pods,
	// which stay.
	gcPercent = 50
	// trimEvery is how often the heap is checked for a burst that is over.
	trimEvery = 10 * time.Second
)

// trimHeap keeps the process small, unless $GOGC says how: after a burst of work
// the heap would stay as large as it then was until the next one. It returns what
// ends it.
func trimHeap(ctx context.Context) (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	debug.SetGCPercent(gcPercent)
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(trimEvery)
		defer tick.Stop()
		var b bursts
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if b.over(readHeap()) {
				debug.FreeOSMemory()
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// heap is what was ever allocated, and what lived when it was last collected, in
// bytes.
type heap struct{ allocated, live uint64 }

func readHeap() heap {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return heap{samples[0].Value.Uint64(), samples[1].Value.Uint64()}
}

// bursts tells when one is over: a time of much allocation, then one of little.
type bursts struct {
	last uint64
	busy bool
}

func (b *bursts) over(h heap) bool {
	was := b.busy
	b.busy = h.allocated-b.last > h.live/4
	b.last = h.allocated
	return was && !b.busy
}
