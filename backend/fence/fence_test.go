package fence

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"

	"github.com/burstlet/burstlet/backend/class"
)

// remote keeps one record.
type remote struct {
	mu     sync.Mutex
	record Record
	err    error
	// lost makes a request take effect whose reply is lost.
	lost bool
	// before runs before each request.
	before func()
}

func (r *remote) ask(_ context.Context, q Request) (Record, error) {
	if r.before != nil {
		r.before()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil && !r.lost {
		return Record{}, r.err
	}
	r.record = q.Apply(r.record)
	return r.record, r.err
}

func always(string) error { return nil }

func holds(t *testing.T, k *Taker, want string) {
	t.Helper()
	if holder, err := k.Holder(t.Context()); holder != want || err != nil {
		t.Errorf("holder %q, %v, want %q", holder, err, want)
	}
}

func TestTheLastOneHolds(t *testing.T) {
	r := &remote{}
	a, b := NewTaker("a", always, r.ask), NewTaker("b", always, r.ask)
	if err := a.Confirm(t.Context()); class.Of(err) != "Unavailable" {
		t.Errorf("confirmed before it was taken: %v", err)
	}
	holds(t, a, "a")
	if err := a.Confirm(t.Context()); err != nil {
		t.Error(err)
	}
	holds(t, b, "b")
	if r.record != (Record{2, "b"}) {
		t.Errorf("record %+v", r.record)
	}
	// It goes on as who it is, and is refused; it never takes the node back.
	holds(t, a, "a")
	if err := a.Confirm(t.Context()); class.Of(err) != "Superseded" {
		t.Errorf("the first is told %v", err)
	}
	if class.Of(r.record.Check("a")) != "Superseded" || r.record.Check("b") != nil {
		t.Error("the remote takes changes of the wrong one")
	}
	if err := b.Confirm(t.Context()); err != nil {
		t.Error(err)
	}
}

// A process is frozen between its question and the sending: what it sends after the next
// leader came changes nothing.
func TestLateRequestChangesNothing(t *testing.T) {
	for _, former := range []Record{{}, {Number: 7, Holder: "z"}} {
		r := &remote{record: former}
		b := NewTaker("b", always, r.ask)
		open, asked := true, 0
		frozen := func(string) error {
			if !open {
				return class.Errorf(class.ErrThrottled, "the lease has ended")
			}
			asked++
			// With a former leader the first answer says after whom to come.
			if asked == 2 || former.Number == 0 {
				holds(t, b, "b")
				open = false
			}
			return nil
		}
		a := NewTaker("a", frozen, r.ask)
		if _, err := a.Holder(t.Context()); class.Of(err) != "Throttled" {
			t.Errorf("after %+v: the frozen one is told %v", former, err)
		}
		if r.record.Holder != "b" {
			t.Errorf("after %+v: %+v holds", former, r.record)
		}
	}
}

func TestLostReplyOfTaking(t *testing.T) {
	r := &remote{err: class.Errorf(class.ErrUnavailable, "cut"), lost: true}
	a := NewTaker("a", always, r.ask)
	if _, err := a.Holder(t.Context()); class.Of(err) != "Unavailable" {
		t.Fatalf("%v", err)
	}
	r.err = nil
	holds(t, a, "a")
	if r.record.Number != 1 {
		t.Errorf("record %+v", r.record)
	}
}

func TestOthersAreFaster(t *testing.T) {
	r := &remote{}
	number := uint64(0)
	r.before = func() { number++; r.record = Record{Number: number, Holder: "other"} }
	a := NewTaker("a", always, r.ask)
	if _, err := a.Holder(t.Context()); class.Of(err) != "Unavailable" {
		t.Errorf("%v", err)
	}
	r.before = nil
	holds(t, a, "a")
}

func TestNoRoomForARecord(t *testing.T) {
	r := &remote{err: syscall.ENOSPC}
	a := NewTaker("a", always, r.ask)
	holds(t, a, "")
	if err := a.Confirm(t.Context()); class.Of(err) != "Unavailable" {
		t.Errorf("confirmed without a record: %v", err)
	}
}

func TestRecordThatIsGone(t *testing.T) {
	r := &remote{}
	a := NewTaker("a", always, r.ask)
	holds(t, a, "a")
	r.record = Record{}
	if err := a.Confirm(t.Context()); class.Of(err) != "Superseded" {
		t.Errorf("%v", err)
	}
}

func TestDrop(t *testing.T) {
	r := &remote{}
	a := NewTaker("a", always, r.ask)
	holds(t, a, "a")
	for range 2 {
		if err := a.Drop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if r.record != (Record{}) || !a.Dropped() {
		t.Errorf("record %+v", r.record)
	}
	if _, err := a.Holder(t.Context()); class.Of(err) != "Unavailable" || r.record.Number != 0 {
		t.Errorf("after the end: %v, record %+v", err, r.record)
	}
	// Another leader's record stays.
	b, c := NewTaker("b", always, r.ask), NewTaker("c", always, r.ask)
	holds(t, b, "b")
	holds(t, c, "c")
	if err := b.Drop(t.Context()); class.Of(err) != "Superseded" || r.record.Holder != "c" {
		t.Errorf("%v, record %+v", err, r.record)
	}
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	r := &remote{}
	asked, answer := make(chan struct{}), make(chan struct{})
	a := NewTaker("a", func(string) error { close(asked); <-answer; return nil }, r.ask)
	first := make(chan error)
	go func() { _, err := a.Holder(t.Context()); first <- err }()
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Holder(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(answer)
	if err := <-first; err != nil {
		t.Error(err)
	}
}
