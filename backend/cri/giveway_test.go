package cri

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// sink dials connections that take and give anything at once, until they are closed.
type sink struct{ net.Conn }

func (s sink) DialContext(context.Context, string, string) (net.Conn, error) { return s, nil }
func (sink) Read(p []byte) (int, error)                                      { return len(p), nil }
func (sink) Write(p []byte) (int, error)                                     { return len(p), nil }
func (sink) Close() error                                                    { return nil }
func (sink) CloseWrite() error                                               { return io.EOF }

func yielding(t *testing.T, w *way) net.Conn {
	t.Helper()
	conn, err := yieldingDialer{sink{}, w}.DialContext(t.Context(), "tcp", "")
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
	// inTime is what may be moved within the time in which streams give way.
	inTime = giveWayBurst + giveWayRate/int(time.Second/giveWay)
)

func TestStreamsGiveWayToPods(t *testing.T) {
	for name, direction := range map[string]func(net.Conn) func([]byte) (int, error){
		"read":  func(c net.Conn) func([]byte) (int, error) { return c.Read },
		"write": func(c net.Conn) func([]byte) (int, error) { return c.Write },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWay()
				f := direction(yielding(t, w))
				if took := move(t, 64<<20, f); took != 0 {
					t.Errorf("alone, a copy takes %v", took)
				}
				ended := w.taken()
				if took := move(t, giveWayBurst, f); took != 0 {
					t.Errorf("what a terminal shows takes %v", took)
				}
				if took, want := move(t, 1<<20, f), time.Second/8; took < want || took > want+want/10 {
					t.Errorf("beside a start, 1 MiB takes %v, want %v", took, want)
				}
				ended()
				if took := move(t, 64<<20, f); took < giveWay || took > giveWay+giveWay/10 {
					t.Errorf("after it, a copy is free again after %v, want %v", took, giveWay)
				}
				// A step that hangs holds up nothing for long.
				w.taken()
				if took := move(t, inTime+64<<20, f); took > giveWay+giveWay/10 {
					t.Errorf("beside a step without end, a copy is free again after %v, want %v", took, giveWay)
				}
			})
		})
	}
}

// TestStreamsShareTheWay: it is all streams together that are bounded.
func TestStreamsShareTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWay()
		w.taken()
		start := time.Now()
		for range 4 {
			c := yielding(t, w)
			go func() { move(t, (giveWayBurst+1<<20)/4, c.Write) }()
		}
		synctest.Wait()
		for time.Since(start) < giveWay && w.limit.Tokens() < 0 {
			time.Sleep(time.Millisecond)
		}
		if took, want := time.Since(start), time.Second/8; took < want-want/5 || took > want+want/5 {
			t.Errorf("1 MiB over four streams takes %v, want %v", took, want)
		}
	})
}

func TestCloseEndsWaitingForTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWay()
		w.taken()
		c := yielding(t, w)
		move(t, giveWayBurst, c.Write)
		start, done := time.Now(), make(chan struct{})
		go func() {
			defer close(done)
			_, _ = c.Write(make([]byte, giveWayBurst)) // its result is the sink's
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

// TestStepsOfPodsTakeTheWay: what makes a pod or ends it takes the way, looking does not.
func TestStepsOfPodsTakeTheWay(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	b := r.backend()
	pod := testPod("taken")
	ref := launchSpec(pod, 0).Ref()
	step := func(what string, wanted bool, f func() error) {
		t.Helper()
		r.way.mu.Lock()
		r.way.until = time.Time{}
		r.way.mu.Unlock()
		if err := f(); err != nil && !errors.Is(err, backend.ErrNotFound) {
			t.Fatalf("%s: %v", what, err)
		}
		r.way.mu.Lock()
		got := !r.way.until.IsZero()
		r.way.mu.Unlock()
		if got != wanted {
			t.Errorf("after %s the way is taken: %v, want %v", what, got, wanted)
		}
	}
	step("a listing", false, func() error {
		_, err := b.Pods.List(t.Context())
		return err
	})
	step("a volume", true, func() error {
		return b.Files.Place(t.Context(), backend.VolumeSpec{
			Pod: pod, Name: "data", Source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		})
	})
	step("a launch", true, func() error { return b.Pods.Launch(t.Context(), launchSpec(pod, 0)) })
	step("a start", true, func() error {
		return b.Containers.Start(t.Context(), ref, containerSpec(pod, "main", 0))
	})
	step("a removal", true, func() error { return b.Pods.Remove(t.Context(), ref) })
}
