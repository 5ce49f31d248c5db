package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/burstlet/burstlet/backend/class"
)

// maxTries bounds how often a Taker finds that another leader was faster.
const maxTries = 10

// Taker is one leader of a node, for one term. Its methods may be called at once.
type Taker struct {
	holder string
	may    func(change string) error
	ask    func(context.Context, Request) (Record, error)

	turn chan struct{} // held by whoever takes or drops

	mu    sync.Mutex
	state state
	taken Record
}

type state int

// The zero state: the node is not taken yet.
const (
	// holding: the node is taken.
	holding state = iota + 1
	// unfenced: the remote has no room for a record. It has none of others either.
	unfenced
	// dropped: the record is removed, and nothing is to follow.
	dropped
)

// NewTaker returns a leader that has not taken its node yet. holder names it among all
// that there ever are. may permits a change while its lease is good; ask does a Request on
// the remote.
func NewTaker(
	holder string, may func(change string) error, ask func(context.Context, Request) (Record, error),
) *Taker {
	return &Taker{holder: holder, may: may, ask: ask, turn: make(chan struct{}, 1)}
}

// Holder returns whose changes these are, for the remote to check; the node is taken
// first. It is empty where the remote has no room for a record, and then nobody's is there.
// A node that was taken is never taken again: after a loss the term has to end.
func (t *Taker) Holder(ctx context.Context) (string, error) {
	if holder, known, err := t.known(); known {
		return holder, err
	}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return "", fmt.Errorf("take the node on its remote: %w", context.Cause(ctx))
	}
	if holder, known, err := t.known(); known {
		return holder, err
	}
	if err := t.take(ctx); err != nil {
		return "", err
	}
	holder, _, err := t.known()
	return holder, err
}

func (t *Taker) known() (holder string, known bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.state {
	case holding:
		return t.holder, true, nil
	case unfenced:
		return "", true, nil
	case dropped:
		return "", true, class.Errorf(class.ErrUnavailable, "the node is being removed from its remote")
	default:
		return "", false, nil
	}
}

func (t *Taker) become(s state, taken Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state, t.taken = s, taken
}

func (t *Taker) take(ctx context.Context) error {
	request := Request{Change: Take, Holder: t.holder}
	for range maxTries {
		// It is asked for each: what follows the record that was read here must not be
		// sent when the lease has ended since.
		if err := t.may("take the node on its remote"); err != nil {
			return err
		}
		record, err := t.ask(ctx, request)
		switch {
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
			t.become(unfenced, Record{})
			return nil
		case err != nil:
			return fmt.Errorf("take the node on its remote: %w", err)
		case record.Holder == t.holder:
			t.become(holding, record)
			return nil
		}
		request.After = record.Number
	}
	return class.Errorf(class.ErrUnavailable, "take the node on its remote: others took it %d times meanwhile", maxTries)
}

// Confirm asks the remote whether this leader is the last. Errors: Superseded when it is
// not; Unavailable while it has not taken the node, or cannot.
func (t *Taker) Confirm(ctx context.Context) error {
	t.mu.Lock()
	s := t.state
	t.mu.Unlock()
	if s != holding {
		return class.Errorf(class.ErrUnavailable, "the node is not taken on its remote")
	}
	record, err := t.ask(ctx, Request{Change: Look})
	if err != nil {
		return fmt.Errorf("ask who leads the node on its remote: %w", err)
	}
	return record.Check(t.holder)
}

// Drop removes the record for good: the node is being removed. Every later change is
// refused. It may be repeated.
func (t *Taker) Drop(ctx context.Context) error {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return fmt.Errorf("remove the leader's record: %w", context.Cause(ctx))
	}
	t.mu.Lock()
	s, taken := t.state, t.taken
	t.mu.Unlock()
	if s == holding {
		if err := t.may("remove the leader's record"); err != nil {
			return err
		}
		record, err := t.ask(ctx, Request{Change: Drop, After: taken.Number, Holder: t.holder})
		if err != nil {
			return fmt.Errorf("remove the leader's record: %w", err)
		}
		if record.Holder != "" {
			return record.Check(t.holder)
		}
	}
	t.become(dropped, Record{})
	return nil
}

// Dropped is true after Drop.
func (t *Taker) Dropped() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state == dropped
}
