package election

import (
	"context"
	"errors"
	"time"

	"github.com/containerd/log"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/burstlet/burstlet/backend/gate"
)

// lock is the Lease as client-go's election uses it, in one term. Each write that
// makes or keeps this process the holder opens the gate.
type lock struct {
	resourcelock.Interface
	held *gate.Gate
	// open is for how long after a renewal was asked for the gate stays open.
	open    time.Duration
	standby func(error)
	without func(bool)
	// lost ends the term.
	lost func()
	// failed is true while calls fail, leading from the first renewal on, outlived while the
	// term goes on without its lease; only the election's goroutine uses them. made is true
	// where this process made the Lease; it does not change after the election.
	failed, leading, outlived, made bool
}

// releaseTries is how often a release is tried that others' writes come before.
const releaseTries = 3

// errForgotten is about a Lease that is not there when this process has not renewed it for
// so long that another may have led.
var errForgotten = errors.New("the lease is gone, and another process may have led meanwhile")

func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && l.leading && record.HolderIdentity != l.Identity() {
		// Another leads or has led, and what is known here is old. The election
		// would try on until its deadline, and go on with a lease that is free again.
		l.lost()
	}
	return record, raw, l.note(ctx, err, "leader lease not read; trying again")
}

func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.leading && !l.held.Open() {
		l.lost()
		return errForgotten
	}
	asked := time.Now()
	err := l.Interface.Create(ctx, record)
	l.made = l.made || err == nil && !l.leading
	l.renewed(ctx, asked, record, err)
	return l.note(ctx, err, "leader lease not made; trying again")
}

func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	asked := time.Now()
	err := l.Interface.Update(ctx, record)
	l.renewed(ctx, asked, record, err)
	return l.note(ctx, err, "leader lease not written; trying again")
}

func (l *lock) renewed(ctx context.Context, asked time.Time, record resourcelock.LeaderElectionRecord, err error) {
	if err != nil || record.HolderIdentity != l.Identity() {
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
// no Lease yet, or somebody else wrote it first.
func (l *lock) note(ctx context.Context, err error, message string) error {
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

// release gives up a lease that this process still holds. The next leader then
// need not wait for its end.
func (l *lock) release(ctx context.Context) {
	for range releaseTries {
		record, _, err := l.Get(ctx)
		if err != nil || record.HolderIdentity != l.Identity() {
			return // gone or another's; what failed is logged, and the lease ends by itself
		}
		now := metav1.Now()
		err = l.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
		})
		if !apierrors.IsConflict(err) {
			return // what came of it is logged by Update
		}
		// A renewal that was given up with the term was written after all.
	}
}
