package throttle

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// sink dials connections that take and give anything at once, until they are closed.
type sink struct{ net.Conn }

func (s sink) DialContext(context.Context, string, string) (net.Conn, error) { return s, nil }
func (sink) Read(p []byte) (int, error)                                      { return len(p), nil }
func (sink) Write(p []byte) (int, error)                                     { return len(p), nil }
func (sink) Close() error                                                    { return nil }
func (sink) CloseWrite() error                                               { return io.EOF }

func throttled(t *testing.T, w *Throttle) net.Conn {
	t.Helper()
	conn, err := w.Dialer(sink{}).DialContext(t.Context(), "tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// move moves n bytes through f and returns how long it took.
func move(t *testing.T, n int, f func([]byte) (int, error)) time.Duration {
	t.Helper()
	start, buf := time.Now(), make([]byte, copyChunk)
	for range n / len(buf) {
		if _, err := f(buf); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(start)
}

const (
	copyChunk = 32 << 10
	// inTime is what may be moved within the time in which streams are slow.
	inTime = slowBurst + slowRate/int(time.Second/slowFor)
)

func TestStreamsAreSlowBesidePods(t *testing.T) {
	for name, direction := range map[string]func(net.Conn) func([]byte) (int, error){
		"read":  func(c net.Conn) func([]byte) (int, error) { return c.Read },
		"write": func(c net.Conn) func([]byte) (int, error) { return c.Write },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New()
				f := direction(throttled(t, w))
				if took := move(t, 64<<20, f); took != 0 {
					t.Errorf("alone, a copy takes %v", took)
				}
				ended := w.Begin()
				if took := move(t, slowBurst, f); took != 0 {
					t.Errorf("what a terminal shows takes %v", took)
				}
				if took, want := move(t, 1<<20, f), time.Second/8; took < want || took > want+want/10 {
					t.Errorf("beside a start, 1 MiB takes %v, want %v", took, want)
				}
				ended()
				if took := move(t, 64<<20, f); took < slowFor || took > slowFor+slowFor/10 {
					t.Errorf("after it, a copy is free again after %v, want %v", took, slowFor)
				}
				// A step that hangs holds up nothing for long.
				w.Begin()
				if took := move(t, inTime+64<<20, f); took > slowFor+slowFor/10 {
					t.Errorf("beside a step without end, a copy is free again after %v, want %v", took, slowFor)
				}
			})
		})
	}
}

// TestStreamsAreSlowTogether: it is all streams together that are bounded.
func TestStreamsAreSlowTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New()
		w.Begin()
		start := time.Now()
		for range 4 {
			c := throttled(t, w)
			go func() { move(t, (slowBurst+1<<20)/4, c.Write) }()
		}
		synctest.Wait()
		for time.Since(start) < slowFor && w.limit.Tokens() < 0 {
			time.Sleep(time.Millisecond)
		}
		if took, want := time.Since(start), time.Second/8; took < want-want/5 || took > want+want/5 {
			t.Errorf("1 MiB over four streams takes %v, want %v", took, want)
		}
	})
}

func TestCloseEndsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New()
		w.Begin()
		c := throttled(t, w)
		move(t, slowBurst, c.Write)
		start, done := time.Now(), make(chan struct{})
		go func() {
			defer close(done)
			_, _ = c.Write(make([]byte, slowBurst)) // its result is the sink's
		}()
		synctest.Wait()
		for range 2 { // again is fine
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		<-done
		if took := time.Since(start); took != 0 {
			t.Errorf("it waited %v", took)
		}
		if err := c.(interface{ CloseWrite() error }).CloseWrite(); !errors.Is(err, io.EOF) {
			t.Errorf("the end of what is sent is not passed on: %v", err)
		}
	})
}
