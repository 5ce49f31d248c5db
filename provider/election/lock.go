package election

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/log"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/burstlet/burstlet/backend/gate"
)

// lock is the Lease as client-go's election uses it, in one term. Each write that
// makes or keeps this process the holder opens the gate.
type lock struct {
	lease *Lease
	// member is this term's part in the Lease.
	member member
	held   *gate.Gate
	// open is for how long after a renewal was asked for the gate stays open.
	open    time.Duration
	standby func(error)
	without func(bool)
	// lost ends the term.
	lost func()
	// failed is true while calls fail, leading from the first renewal on, outlived while the
	// term goes on without its lease; only the election's goroutine uses them.
	failed, leading, outlived bool
}

var _ resourcelock.Interface = (*lock)(nil)

func (l *lock) Identity() string   { return l.lease.cfg.Identity }
func (l *lock) Describe() string   { return l.lease.String() }
func (l *lock) RecordEvent(string) {}

func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, err := l.lease.get(ctx, &l.member)
	if err = l.note(ctx, err, "leader lease not read; trying again"); err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(record)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the record of lease %s: %w", l.lease, err)
	}
	return record, raw, nil
}

func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	asked, err := l.lease.create(ctx, &l.member, record)
	l.renewed(ctx, asked, err)
	return l.note(ctx, err, "leader lease not made; trying again")
}

func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	asked, err := l.lease.renew(ctx, &l.member, record)
	l.renewed(ctx, asked, err)
	return l.note(ctx, err, "leader lease not written; trying again")
}

func (l *lock) renewed(ctx context.Context, asked time.Time, err error) {
	if err != nil {
		return
	}
	l.leading = true
	l.held.Hold(asked.Add(l.open))
	if l.withLease() {
		log.G(ctx).WithField("lease", l.Describe()).Info("the node's lease is renewed again: nobody led meanwhile")
	}
}

// withLease ends the time in which the term goes on without its lease, and says whether
// there was one.
func (l *lock) withLease() (was bool) {
	was, l.outlived = l.outlived, false
	if was {
		l.without(false)
	}
	return was
}

// note tells of the first failure of a row, and of its end, but for what is a normal answer: there is
// no Lease yet, or somebody else wrote it first. A term that has lost the Lease ends: what is known here
// is old, and the election would try on until its deadline, and go on with a lease that is free again.
func (l *lock) note(ctx context.Context, err error, message string) error {
	if errors.Is(err, errBroken) {
		l.lost()
	}
	fails := err != nil && !normal(err)
	if fails == l.failed || fails && ctx.Err() != nil {
		return err
	}
	l.failed = fails
	if fails {
		log.G(ctx).WithField("lease", l.Describe()).WithError(err).Warn(message)
	}
	if !l.leading && fails {
		l.standby(err)
	} else if !l.leading {
		l.standby(nil)
	}
	return err
}

// release ends this term's part in the Lease.
func (l *lock) release(ctx context.Context) {
	if err := l.lease.leave(ctx, &l.member); err != nil {
		log.G(ctx).WithField("lease", l.Describe()).WithError(err).
			Warn("leader lease not given up: whoever leads next waits for its end")
	}
}
