package imagegc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// shelf is a store of images on a disk of 1000 bytes.
type shelf struct {
	images map[string]*backend.ImageFacts
	// mu is the test's but while it waits.
	mu      sync.Mutex
	others  uint64 // bytes that are no images
	err     error  // of listings
	refuses map[string]error
	looks   []time.Time
	gone    []string
}

func (s *shelf) add(id string, size uint64, used bool) {
	s.images[id] = &backend.ImageFacts{ID: id, Names: []string{"example.test/" + id + ":1"}, Size: size, Used: used}
}

func (s *shelf) List(context.Context) ([]backend.ImageFacts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks = append(s.looks, time.Now())
	var out []backend.ImageFacts
	for _, f := range s.images {
		out = append(out, *f)
	}
	return out, s.err
}

func (s *shelf) Remove(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refuses[id]; err != nil {
		return err
	}
	delete(s.images, id)
	s.gone = append(s.gone, id)
	return nil
}

func (s *shelf) Disk(context.Context) (backend.FilesystemUsage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := s.others
	for _, f := range s.images {
		used += f.Size
	}
	return disk(1000, 1000-min(used, 1000)), nil
}

// life is a collector at work.
type life struct {
	*shelf
	*Collector
	wanted  []string
	events  []string
	removed []string
	// used and capacity are the last bytes told of.
	used, capacity uint64
}

// collecting runs f beside a collector in virtual time.
func collecting(t *testing.T, policy Policy, f func(t *testing.T, l *life)) {
	synctest.Test(t, func(t *testing.T) {
		l := &life{shelf: &shelf{images: map[string]*backend.ImageFacts{}, refuses: map[string]error{}}}
		l.Collector = New(Config{
			Store: l.shelf, Policy: policy,
			Wanted: func() []string {
				l.mu.Lock()
				defer l.mu.Unlock()
				return l.wanted
			},
			Event: func(kind, reason, message string) {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.events = append(l.events, kind+" "+reason+" "+message)
			},
			Measured: func(used, capacity uint64) {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.used, l.capacity = used, capacity
			},
			Removed: func(why string) {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.removed = append(l.removed, why)
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { l.Run(ctx); close(ended) }()
		defer func() { cancel(); <-ended }()
		l.mu.Lock()
		defer l.mu.Unlock()
		f(t, l)
	})
}

// sleep lets the collector work for as long, and until it waits.
func (l *life) sleep(d time.Duration) {
	l.mu.Unlock()
	time.Sleep(d)
	synctest.Wait()
	l.mu.Lock()
}

var usual = Policy{HighThresholdPercent: 85, LowThresholdPercent: 80, MinAge: 2 * time.Minute}

func (l *life) wantGone(t *testing.T, ids ...string) {
	t.Helper()
	if l.sleep(0); !slices.Equal(l.gone, ids) {
		t.Errorf("removed %v, want %v", l.gone, ids)
	}
}

// TestCollectsDownToTheLowThreshold: the oldest go first, and no more than needed.
func TestCollectsDownToTheLowThreshold(t *testing.T) {
	collecting(t, usual, func(t *testing.T, l *life) {
		for _, id := range []string{"a", "b", "c"} {
			l.add(id, 100, id != "b")
		}
		l.others = 300
		l.Ready()
		l.wantGone(t)
		l.images["a"].Used = false // b was not used in our time, a is not any more
		l.add("d", 300, true)
		l.sleep(period)
		l.wantGone(t, "b")
		if !slices.Equal(l.removed, []string{"space"}) || len(l.events) > 0 {
			t.Errorf("told of %v, Events %q", l.removed, l.events)
		}
		if l.used != 900 || l.capacity != 1000 {
			t.Errorf("told of %d of %d bytes, want 900 as found before the removal", l.used, l.capacity)
		}
		l.sleep(period)
		l.wantGone(t, "b") // 80 per cent: it is enough
	})
}

// TestKeepsWhatIsNeeded: used, wanted, pinned and just pulled images stay, and the
// Node's Events say that there is nothing to remove.
func TestKeepsWhatIsNeeded(t *testing.T) {
	collecting(t, usual, func(t *testing.T, l *life) {
		l.add("used", 300, true)
		l.add("wanted", 300, false)
		l.add("pinned", 200, false)
		l.images["pinned"].Pinned = true
		l.wanted = []string{"example.test/wanted:1"}
		l.others = 100
		l.Ready()
		l.sleep(0)
		if len(l.events) != 1 ||
			!strings.HasPrefix(l.events[0], "Warning FreeDiskSpaceFailed Insufficient free disk space on the "+
				"node's image filesystem (90% of 1000 B used). Failed to free sufficient space by deleting unused images "+
				"(freed 0 bytes). ") {
			t.Errorf("Events %q", l.events)
		}
		l.sleep(period)
		l.wantGone(t)
		if len(l.events) != 3 || !strings.HasPrefix(l.events[2], "Warning ImageGCFailed Insufficient free disk space") {
			t.Errorf("the second failure in a row is an Event: %q", l.events)
		}
		l.wanted = nil
		l.sleep(period)
		l.wantGone(t, "wanted")
	})
}

// TestYoungImagesWait: an image that is younger than MinAge stays, and is looked at
// again once it is older.
func TestYoungImagesWait(t *testing.T) {
	collecting(t, usual, func(t *testing.T, l *life) {
		l.add("young", 900, false)
		l.Ready()
		l.sleep(usual.MinAge - time.Second)
		l.wantGone(t)
		l.sleep(2 * time.Second)
		l.wantGone(t, "young")
		if len(l.events) > 0 {
			t.Errorf("Events of a failure that there was not: %q", l.events)
		}
	})
}

// TestWantedMeanwhile: a pod that comes while images are being removed keeps its own.
func TestWantedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{images: map[string]*backend.ImageFacts{}}
		s.add("a", 900, false)
		asked := 0
		c := New(Config{
			Store: s, Policy: Policy{HighThresholdPercent: 85, LowThresholdPercent: 80},
			Wanted: func() []string {
				if asked++; asked > 1 {
					return []string{"example.test/a:1"}
				}
				return nil
			},
		})
		if _, err := c.collect(t.Context(), false); err == nil || len(s.gone) > 0 || asked != 2 {
			t.Errorf("removed %v, asked %d times: %v", s.gone, asked, err)
		}
	})
}

// TestNoSpaceLooksAtOnce: and not more often than every pause.
func TestNoSpaceLooksAtOnce(t *testing.T) {
	collecting(t, usual, func(t *testing.T, l *life) {
		l.add("a", 100, false)
		l.others = 730 // 83 per cent
		l.Ready()
		l.sleep(usual.MinAge)
		looks := len(l.looks)
		for range 5 {
			l.NoSpace()
		}
		l.wantGone(t, "a")
		for range 5 {
			l.NoSpace()
			l.sleep(0)
		}
		if got := len(l.looks) - looks; got != 1 {
			t.Errorf("looked %d times at once", got)
		}
		l.sleep(pause)
		l.sleep(0)
		if got := len(l.looks) - looks; got != 2 {
			t.Errorf("looked %d times after the pause", got)
		}
	})
}

func TestNothingBeforeReady(t *testing.T) {
	collecting(t, usual, func(t *testing.T, l *life) {
		l.add("a", 900, false)
		l.NoSpace()
		l.sleep(time.Hour)
		if l.wantGone(t); len(l.looks) > 0 {
			t.Errorf("looked at %v", l.looks)
		}
	})
}

// TestMaximumAge: counted from the collector's own start, whatever the disk.
func TestMaximumAge(t *testing.T) {
	policy := Policy{HighThresholdPercent: 100, LowThresholdPercent: 80, MaxAge: time.Hour}
	collecting(t, policy, func(t *testing.T, l *life) {
		l.add("unused", 10, false)
		l.add("used", 10, true)
		l.Ready()
		l.sleep(time.Hour)
		l.wantGone(t)
		l.sleep(period)
		l.wantGone(t, "unused")
		if !slices.Equal(l.removed, []string{"age"}) {
			t.Errorf("told of %v", l.removed)
		}
		l.images["used"].Used = false
		l.sleep(time.Hour)
		l.wantGone(t, "unused")
		l.sleep(2 * period)
		l.wantGone(t, "unused", "used")
	})
}

// TestFailures: one image that does not go keeps the others from nothing; a remote
// that is away is no failure of the Node.
func TestFailures(t *testing.T) {
	collecting(t, usual, func(t *testing.T, l *life) {
		l.add("a", 450, false)
		l.add("b", 450, false)
		l.refuses["a"] = fmt.Errorf("read-only file system")
		l.refuses["none"] = nil
		l.Ready()
		l.sleep(usual.MinAge + pause)
		l.wantGone(t, "b")
		l.err = backend.Errorf(backend.ErrUnavailable, "down")
		l.events = nil
		l.sleep(time.Hour)
		if len(l.events) > 0 {
			t.Errorf("a remote that is away: %q", l.events)
		}
		l.err = errors.New("broken")
		l.sleep(2 * period)
		if len(l.events) == 0 || l.events[0] != "Warning ImageGCFailed list images: broken" {
			t.Errorf("a remote that fails: %q", l.events)
		}
	})
}

func TestGoneMeanwhile(t *testing.T) {
	collecting(t, usual, func(t *testing.T, l *life) {
		l.add("a", 900, false)
		l.refuses["a"] = backend.Errorf(backend.ErrNotFound, "gone")
		l.Ready()
		l.sleep(usual.MinAge + time.Second)
		if l.sleep(0); len(l.removed) > 0 {
			t.Errorf("what somebody else removed is counted: %v", l.removed)
		}
	})
}

func TestWhatNoSpaceIs(t *testing.T) {
	for err, want := range map[error]bool{
		nil:                                    false,
		fmt.Errorf("pull: %w", syscall.ENOSPC): true,
		errors.New("failed to extract layer: write /var/lib/x: no space left on device: unknown"): true,
		errors.New("not found"): false,
	} {
		if NoSpace(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}
