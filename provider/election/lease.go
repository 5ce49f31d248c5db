package election

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// LeaseConfig is what a Lease needs. All fields are required.
type LeaseConfig struct {
	// Leases reaches the Lease: get, create and update. Its calls should end well
	// before RenewDeadline, and must not pass the gate.
	Leases coordinationclient.LeasesGetter
	// Namespace and Name are the Lease's.
	Namespace, Name string
	// Identity is this process among all that stand for the Lease; no two may share
	// it, a process and its successor neither.
	Identity string
	// LeaseDuration is how long others wait after the last renewal that they saw,
	// in whole seconds; RenewDeadline how long a leader tries to renew before it
	// gives up; RetryPeriod the pause between renewals, and about that between reads of who
	// stands by.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// Lease is the Lease for which a process stands, for one node or for several. Its electors
// share what they ask of the API server: their calls follow each other, and what one asked
// a moment ago is the answer for all.
type Lease struct {
	cfg LeaseConfig
	// turn is full while an elector deals with the Lease. The fields below belong to it.
	turn chan struct{}
	// calls counts calls of the API that have ended; failed is why the last one failed. Answers
	// that are normal are no failure. A call that its caller gave up says nothing new: what was
	// known before is still the answer. tried is when the last one began.
	calls  atomic.Int64
	failed error
	tried  time.Time

	// current is the Lease as it was last read or written, nil where it must be read; asked is
	// when that was asked for, zero where it may have changed since.
	current *coordinationv1.Lease
	asked   time.Time
	// holding is true from this process' first renewal until the Lease is seen with another
	// holder, without one, or gone for too long; epoch counts how often that ended.
	holding bool
	epoch   int
	// uid and transitions are the Lease's while this process is the holder, renewed is when its
	// last renewal was asked for.
	uid         types.UID
	transitions int32
	renewed     time.Time
	// absent is when the Lease was last seen not to be there, zero if the holder made it again.
	absent time.Time
	// members is how many terms lead by this holding.
	members int
}

// member is one term's part in a Lease.
type member struct {
	// seen is the version that the term decides on.
	seen version
	// epoch is that of the holding by which the term leads; zero: it does not lead.
	epoch int
	// settled is when nobody can lead any more of whom a new Lease does not know.
	settled time.Time
}

// version tells what was read of a Lease from all that was there before and after.
type version struct {
	uid      types.UID
	revision string
}

var (
	// errBroken ends a term: this process was not the holder all the time.
	errBroken = errors.New("another process may have held the lease meanwhile")
	// errOutdated is retried after a look at the Lease.
	errOutdated = errors.New("the lease has changed since this node looked at it")
)

// releaseTries is how often a release is tried that others' writes come before.
const releaseTries = 3

// NewLease checks the configuration.
func NewLease(cfg LeaseConfig) (*Lease, error) {
	if cfg.Leases == nil || cfg.Namespace == "" || cfg.Name == "" || cfg.Identity == "" {
		return nil, errors.New("configure leader election: client, namespace, name and identity are required")
	}
	if cfg.LeaseDuration%time.Second != 0 {
		return nil, fmt.Errorf(
			"configure leader election: the lease's duration %v is not in whole seconds", cfg.LeaseDuration,
		)
	}
	return &Lease{cfg: cfg, turn: make(chan struct{}, 1), epoch: 1}, nil
}

// String is the Lease's name, with its namespace.
func (l *Lease) String() string { return l.cfg.Namespace + "/" + l.cfg.Name }

// open is for how long after a renewal was asked for whoever leads may change things.
func (l *Lease) open() time.Duration { return l.cfg.LeaseDuration - l.cfg.LeaseDuration/8 }

// look is how often an elector looks at the Lease. Most looks find an answer that is still good:
// they cost no call, but see at once that the Lease has run out or that another node of the
// process has become the holder.
func (l *Lease) look() time.Duration { return l.cfg.RetryPeriod / 4 }

// renewal is for how long a renewal, or a failure, is the answer for all: less than the
// pause after which the holder renews again.
func (l *Lease) renewal() time.Duration { return l.cfg.RetryPeriod * 7 / 8 }

// reading is for how long what was read of another holder is the answer for all. A take-over
// by an answer that is too old fails: the write names the version that was read.
func (l *Lease) reading() time.Duration { return l.cfg.RetryPeriod * 5 / 4 }

// inTurn does something with the Lease alone; it is told when that was wanted. Whoever waited
// while a call failed, or comes a moment after, does not make it again.
func (l *Lease) inTurn(ctx context.Context, do func(wanted time.Time) error) error {
	calls, wanted := l.calls.Load(), time.Now()
	if err := l.takeTurn(ctx); err != nil {
		return err
	}
	defer l.endTurn()
	if l.failed != nil && (l.calls.Load() != calls || within(l.tried, l.renewal())) {
		return l.failed
	}
	return do(wanted)
}

func (l *Lease) takeTurn(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the process' other nodes: %w", ctx.Err())
	}
}

func (l *Lease) endTurn() { <-l.turn }

// get returns the Lease's record for a term.
func (l *Lease) get(ctx context.Context, m *member) (record *resourcelock.LeaderElectionRecord, err error) {
	err = l.inTurn(ctx, func(wanted time.Time) error {
		if err := l.read(ctx, wanted); err != nil {
			return err
		}
		if l.lostBy(m) {
			return errBroken
		}
		m.seen = versionOf(l.current)
		record = resourcelock.LeaseSpecToLeaderElectionRecord(&l.current.Spec)
		return nil
	})
	return record, err
}

// renew makes or keeps this process the holder for a term, and returns when that was asked for.
func (l *Lease) renew(
	ctx context.Context, m *member, record resourcelock.LeaderElectionRecord,
) (asked time.Time, err error) {
	err = l.inTurn(ctx, func(wanted time.Time) error {
		if l.lostBy(m) {
			return errBroken
		}
		if !l.holding || !l.recent(l.renewed, wanted, l.renewal()) {
			// The newest version that anybody read would make any write pass.
			if l.current == nil || !l.own() && m.seen != versionOf(l.current) {
				return errOutdated
			}
			if err := l.keep(ctx, record); err != nil {
				return err
			}
		}
		l.join(m)
		asked = l.renewed
		return nil
	})
	return asked, err
}

// create makes the Lease for a term, and returns when that was asked for.
func (l *Lease) create(
	ctx context.Context, m *member, record resourcelock.LeaderElectionRecord,
) (asked time.Time, err error) {
	err = l.inTurn(ctx, func(wanted time.Time) error {
		if l.holding && l.current == nil && !within(l.renewed, l.open()) {
			l.lose() // nobody knows who held it meanwhile
		}
		switch {
		case l.lostBy(m):
			return errBroken
		case l.current == nil:
			if err := l.add(ctx, record); err != nil {
				return err
			}
		case !l.holding || !l.recent(l.renewed, wanted, l.renewal()):
			return errOutdated
		}
		l.join(m)
		asked = l.renewed
		return nil
	})
	return asked, err
}

// leave ends a term's part, and gives the Lease up with that of the last. The next leader then
// need not wait for its end.
func (l *Lease) leave(ctx context.Context, m *member) error {
	wanted := time.Now()
	if err := l.takeTurn(ctx); err != nil {
		return err
	}
	defer l.endTurn()
	l.part(m)
	if l.members > 0 {
		return nil
	}
	return l.release(ctx, wanted)
}

// forget ends a term's part in a Lease that it has lost.
func (l *Lease) forget(m *member) {
	l.turn <- struct{}{}
	defer l.endTurn()
	l.part(m)
}

func (l *Lease) join(m *member) {
	if m.epoch != 0 {
		return
	}
	m.epoch = l.epoch
	l.members++
	if !l.absent.IsZero() {
		m.settled = l.absent.Add(l.cfg.LeaseDuration)
	}
}

func (l *Lease) part(m *member) {
	if m.epoch == l.epoch {
		l.members--
	}
	m.epoch = 0
}

// lostBy is true of a term that began in an earlier holding: another process may have led since,
// whoever is the holder now.
func (l *Lease) lostBy(m *member) bool { return m.epoch != 0 && m.epoch != l.epoch }

// own is true where this process is the holder, as far as is known.
func (l *Lease) own() bool {
	return l.current != nil && l.current.Spec.HolderIdentity != nil && *l.current.Spec.HolderIdentity == l.cfg.Identity
}

// recent is true of what was asked a moment ago, while it is good, or since somebody wanted to ask
// it: where calls are slow, many who wait are content with one.
func (l *Lease) recent(asked, wanted time.Time, good time.Duration) bool {
	return !asked.IsZero() && (within(asked, good) || !asked.Before(wanted))
}

// within asks both clocks, as the gate does.
func within(t time.Time, d time.Duration) bool {
	now := time.Now()
	return !t.IsZero() && now.Sub(t) < d && now.Round(0).Sub(t.Round(0)) < d
}

// read has the Lease as it was a moment ago.
func (l *Lease) read(ctx context.Context, wanted time.Time) error {
	good := l.reading()
	if l.own() {
		good = l.renewal()
	}
	if l.current != nil && l.recent(l.asked, wanted, good) {
		return nil
	}
	asked := time.Now()
	lease, err := l.cfg.Leases.Leases(l.cfg.Namespace).Get(ctx, l.cfg.Name, metav1.GetOptions{})
	return l.take(ctx, asked, lease, err)
}

// keep writes that this process is the holder.
func (l *Lease) keep(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.own() { // who joins counts as no new leader
		was := resourcelock.LeaseSpecToLeaderElectionRecord(&l.current.Spec)
		record.AcquireTime, record.LeaderTransitions = was.AcquireTime, was.LeaderTransitions
	}
	asked := time.Now()
	if err := l.write(ctx, asked, record); err != nil {
		return err
	}
	l.hold(asked)
	return nil
}

func (l *Lease) write(ctx context.Context, asked time.Time, record resourcelock.LeaderElectionRecord) error {
	next := l.current.DeepCopy()
	next.Spec = resourcelock.LeaderElectionRecordToLeaseSpec(&record)
	lease, err := l.cfg.Leases.Leases(l.cfg.Namespace).Update(ctx, next, metav1.UpdateOptions{})
	return l.take(ctx, asked, lease, err)
}

// add makes the Lease. A holder makes it again and goes on.
func (l *Lease) add(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	asked := time.Now()
	lease, err := l.cfg.Leases.Leases(l.cfg.Namespace).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.cfg.Namespace, Name: l.cfg.Name},
		Spec:       resourcelock.LeaderElectionRecordToLeaseSpec(&record),
	}, metav1.CreateOptions{})
	if err == nil && l.holding {
		l.uid, l.transitions, l.absent = lease.UID, transitions(lease), time.Time{}
	}
	if err := l.take(ctx, asked, lease, err); err != nil {
		return err
	}
	l.hold(asked)
	return nil
}

// release gives up a Lease of which this process is the holder.
func (l *Lease) release(ctx context.Context, wanted time.Time) error {
	defer func() { l.tried = time.Time{} }() // a failure is no answer for who comes after
	for range releaseTries {
		err := l.read(ctx, wanted)
		if apierrors.IsNotFound(err) || err == nil && !l.own() {
			return nil
		}
		if err != nil {
			return err
		}
		l.lose() // whatever comes of it, nobody goes on by what was renewed
		now := metav1.Now()
		err = l.write(ctx, now.Time, resourcelock.LeaderElectionRecord{
			LeaderTransitions: int(transitions(l.current)), LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
		})
		if !apierrors.IsConflict(err) {
			return err
		}
		// A renewal that was given up with the term was written after all.
	}
	return nil // it runs out by itself
}

// take notes what came of a call.
func (l *Lease) take(ctx context.Context, asked time.Time, lease *coordinationv1.Lease, err error) error {
	l.tried = asked
	switch {
	case err == nil || normal(err):
		l.failed = nil
	case ctx.Err() == nil:
		l.failed = err
	}
	l.calls.Add(1)
	if err != nil {
		l.asked = time.Time{}
		if normal(err) {
			l.current = nil
		}
		if apierrors.IsNotFound(err) {
			l.absent = time.Now()
		}
		return err
	}
	l.current, l.asked = lease, asked
	if l.holding && (!l.own() || lease.UID != l.uid || transitions(lease) != l.transitions) {
		l.lose()
	}
	return nil
}

// hold notes that this process is the holder by what was just written.
func (l *Lease) hold(asked time.Time) {
	l.holding, l.renewed, l.uid, l.transitions = true, asked, l.current.UID, transitions(l.current)
}

// lose ends the holding: the terms that lead by it are lost.
func (l *Lease) lose() {
	l.holding, l.renewed, l.members = false, time.Time{}, 0
	l.epoch++
}

func versionOf(lease *coordinationv1.Lease) version { return version{lease.UID, lease.ResourceVersion} }

func transitions(lease *coordinationv1.Lease) int32 {
	if lease.Spec.LeaseTransitions == nil {
		return 0
	}
	return *lease.Spec.LeaseTransitions
}

// normal is true of answers that an election expects: there is no Lease yet, or somebody else
// wrote it first.
func normal(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) ||
		errors.Is(err, errBroken) || errors.Is(err, errOutdated)
}
