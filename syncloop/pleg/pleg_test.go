package pleg

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/test/kit/background"
)

// remote answers reads from a map and counts them.
type remote struct {
	backend.Pods
	mu       sync.Mutex
	pods     map[types.UID]backend.PodFacts
	err      error
	lists    int
	inspects [][]types.UID
	hold     time.Duration
}

func (r *remote) set(uid types.UID, live bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[uid] = backend.PodFacts{Ref: backend.Ref{UID: uid}, Live: live}
}

func (r *remote) looks() [][]types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.inspects)
}

func (r *remote) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *remote) read(keep func(types.UID) bool) ([]backend.PodFacts, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []backend.PodFacts
	for uid, f := range r.pods {
		if keep(uid) {
			out = append(out, f)
		}
	}
	return out, r.err
}

func (r *remote) List(context.Context) ([]backend.PodFacts, error) {
	r.mu.Lock()
	r.lists++
	r.mu.Unlock()
	return r.read(func(types.UID) bool { return true })
}

func (r *remote) Inspect(ctx context.Context, uids []types.UID) ([]backend.PodFacts, error) {
	r.mu.Lock()
	r.inspects = append(r.inspects, uids)
	r.mu.Unlock()
	facts, err := r.read(func(uid types.UID) bool { return slices.Contains(uids, uid) })
	time.Sleep(r.hold) // the reply travels
	return facts, err
}

type hints struct{ c chan types.UID }

func (h *hints) Run(ctx context.Context, out chan<- types.UID) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case uid := <-h.c:
			if uid == "break" {
				return errors.New("stream broke")
			}
			out <- uid
		}
	}
}

func run(t *testing.T, r *remote, h *hints, f func(p *PLEG)) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Pods: r, Period: 10 * time.Second}
		if h != nil {
			h.c = make(chan types.UID, 100) // channels belong to the bubble that made them
			cfg.Events = h
		}
		p := New(cfg)
		background.Run(t, p.Run)
		synctest.Wait()
		f(p)
	})
}

func drained(p *PLEG) []types.UID {
	select {
	case <-p.Changed():
		uids := p.Take()
		slices.Sort(uids)
		return uids
	default:
		return nil
	}
}

func TestListing(t *testing.T) {
	r := &remote{pods: map[types.UID]backend.PodFacts{}}
	r.set("a", true)
	run(t, r, nil, func(p *PLEG) {
		if got := drained(p); !slices.Equal(got, []types.UID{"a"}) {
			t.Errorf("first listing reports %v", got)
		}
		time.Sleep(10*time.Second + time.Millisecond)
		if got := drained(p); got != nil {
			t.Errorf("a listing without changes reports %v", got)
		}
		r.set("a", false)
		r.set("b", true)
		time.Sleep(10*time.Second + time.Millisecond)
		if got := drained(p); !slices.Equal(got, []types.UID{"a", "b"}) {
			t.Errorf("reports %v", got)
		}
		r.mu.Lock()
		delete(r.pods, "a")
		r.mu.Unlock()
		time.Sleep(10*time.Second + time.Millisecond)
		if record, known := p.Get("a"); !known || len(record.Facts) != 0 {
			t.Errorf("after it went: %+v", record)
		}
		if got := drained(p); !slices.Equal(got, []types.UID{"a"}) {
			t.Errorf("reports %v", got)
		}
	})
}

// TestFailedListingSaysNothing is the rule that unknown is not gone.
func TestFailedListingSaysNothing(t *testing.T) {
	r := &remote{pods: map[types.UID]backend.PodFacts{}, err: errors.New("down")}
	r.set("a", true)
	run(t, r, nil, func(p *PLEG) {
		if _, known := p.Get("a"); known || !p.LastList().IsZero() {
			t.Error("a failed first listing counts as knowledge")
		}
		r.fail(nil)
		time.Sleep(10*time.Second + time.Millisecond)
		r.mu.Lock()
		clear(r.pods)
		r.mu.Unlock()
		r.fail(errors.New("down"))
		time.Sleep(time.Minute)
		if record, known := p.Get("a"); !known || len(record.Facts) != 1 {
			t.Errorf("after failed listings: %+v %v", record, known)
		}
	})
}

// TestTouch: a record with the number that Touch gave is from a read that began
// after it, and it is reported though nothing changed.
func TestTouch(t *testing.T) {
	r := &remote{pods: map[types.UID]backend.PodFacts{}, hold: time.Second}
	r.set("a", true)
	run(t, r, nil, func(p *PLEG) {
		drained(p)
		first := p.Enqueue("a")
		synctest.Wait() // the read is under way
		second := p.Enqueue("a")
		time.Sleep(time.Second + time.Millisecond)
		record, _ := p.Get("a")
		if record.Seq < first || record.Seq >= second {
			t.Errorf("record %d is from the first read: want at least %d, less than %d", record.Seq, first, second)
		}
		time.Sleep(time.Second)
		if record, _ := p.Get("a"); record.Seq < second {
			t.Errorf("record %d, want at least %d", record.Seq, second)
		}
		if got := drained(p); !slices.Equal(got, []types.UID{"a"}) {
			t.Errorf("reports %v", got)
		}
	})
}

// TestFailedLook: a look that failed is made again, and its pod reported.
func TestFailedLook(t *testing.T) {
	r := &remote{pods: map[types.UID]backend.PodFacts{}}
	r.set("a", true)
	run(t, r, nil, func(p *PLEG) {
		drained(p)
		r.fail(errors.New("down"))
		p.Enqueue("a")
		synctest.Wait()
		r.fail(nil)
		time.Sleep(10*time.Second + time.Millisecond)
		if got := drained(p); !slices.Equal(got, []types.UID{"a"}) {
			t.Errorf("reports %v", got)
		}
	})
}

// TestHints: they are looked at without waiting for the period, many in one
// call, and a broken stream is opened again.
func TestHints(t *testing.T) {
	r := &remote{pods: map[types.UID]backend.PodFacts{}, hold: time.Second}
	h := &hints{}
	run(t, r, h, func(p *PLEG) {
		drained(p)
		h.c <- "break"
		time.Sleep(2 * time.Second)
		for _, uid := range []types.UID{"a", "b", "c", "d"} {
			r.set(uid, true)
			h.c <- uid
		}
		time.Sleep(3 * time.Second)
		if got := drained(p); !slices.Equal(got, []types.UID{"a", "b", "c", "d"}) {
			t.Errorf("reports %v", got)
		}
		if n := len(r.looks()); n > 2 {
			t.Errorf("%d calls for four hints at once", n)
		}
	})
}

// TestHold: what a call hints at while it lasts is looked at once, when it has ended.
func TestHold(t *testing.T) {
	r := &remote{pods: map[types.UID]backend.PodFacts{}, hold: time.Second}
	h := &hints{}
	run(t, r, h, func(p *PLEG) {
		drained(p)
		r.set("a", true)
		p.Hold("a")
		h.c <- "a"
		h.c <- "b"
		time.Sleep(2 * time.Second)
		if looks := r.looks(); len(looks) != 1 || !slices.Equal(looks[0], []types.UID{"b"}) {
			t.Errorf("looks at %v, want one at the pod that is not held", looks)
		}
		p.Hold("a") // by the next call
		p.Release("a", 1)
		time.Sleep(time.Second + time.Millisecond)
		if got := drained(p); !slices.Contains(got, "a") {
			t.Errorf("reports %v after the first call has ended", got)
		}
		h.c <- "a"
		time.Sleep(2 * time.Second)
		if n := len(r.looks()); n != 2 {
			t.Errorf("%d looks, want 2: the second call lasts", n)
		}
		p.Release("a", 1)
		time.Sleep(2 * time.Second)
		h.c <- "a"
		time.Sleep(2 * time.Second)
		if n := len(r.looks()); n != 4 {
			t.Errorf("%d looks, want 4: one after the call, one for the hint", n)
		}
	})
}
