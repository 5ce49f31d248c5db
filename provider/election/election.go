package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/log"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"

	"github.com/burstlet/burstlet/backend/gate"
	"github.com/burstlet/burstlet/backend/pause"
)

// ErrStuck says that the lease was lost and what led did not end in time. The
// process must end: it cannot lead again, and its gate is closed.
var ErrStuck = errors.New("the lease was lost, and the node did not stop in time")

// errGaveWay says why this process neither leads nor stands by for a moment.
var errGaveWay = errors.New("another process has taken the node on its remote; standing by soon")

// defaultStopTimeout is the default of Config.StopTimeout.
const defaultStopTimeout = 30 * time.Second

// Config is what an Elector needs. All fields are required but those that say
// otherwise.
type Config struct {
	// Lease is what it stands for, alone or beside the process' other electors.
	Lease *Lease
	// StopTimeout is how long what leads may take to end after the lease was lost;
	// 30 s when zero.
	StopTimeout time.Duration
	// Former says whether the node may have a leader of whom a Lease that was just made
	// knows nothing: a Lease was deleted, or an election turned on. Then leading begins
	// once that leader's lease must have ended. An error is taken for yes; so is nil.
	Former func(ctx context.Context) (bool, error)
	// Standby is told when this process begins to stand by, with nil, and then
	// whenever the Lease cannot be reached or can be again. It must not block. May
	// be nil.
	Standby func(err error)
	// WithoutLease is told when a term goes on although its Lease cannot be renewed, and
	// when it no longer does. It must not block. May be nil.
	WithoutLease func(bool)
}

// Elector stands for a Lease, for one node.
type Elector struct {
	cfg   Config
	lease LeaseConfig
}

// New checks the configuration.
func New(cfg Config) (*Elector, error) {
	if cfg.StopTimeout == 0 {
		cfg.StopTimeout = defaultStopTimeout
	}
	if cfg.Standby == nil {
		cfg.Standby = func(error) {}
	}
	if cfg.WithoutLease == nil {
		cfg.WithoutLease = func(bool) {}
	}
	if cfg.Former == nil {
		cfg.Former = func(context.Context) (bool, error) { return true, nil }
	}
	if cfg.Lease == nil {
		return nil, errors.New("configure leader election: a lease is required")
	}
	e := &Elector{cfg, cfg.Lease.cfg}
	if _, err := e.elector(e.lock(), e.lease.RetryPeriod, func(context.Context) {}, func() {}); err != nil {
		return nil, fmt.Errorf("configure leader election: %w", err)
	}
	return e, nil
}

// Lead is what a leader does. Its context ends when it must stop: the lease was
// lost and the gate is closed already, or the process ends and the lease is kept
// until it has returned. It returns when nothing of it is left running. Where the remote
// tells leaders apart, it has the gate ask it ([gate.Gate.Ask]).
type Lead func(ctx context.Context, held *gate.Gate) error

// Run waits for the lease, leads, and after a loss waits again, until ctx ends;
// then it returns what lead returned. An error of lead while the lease was held
// ends it too, and releases the lease.
func (e *Elector) Run(ctx context.Context, lead Lead) error {
	for ctx.Err() == nil {
		l := e.lock()
		if over, err := e.term(ctx, l, lead); over {
			return err
		}
		if l.held.Superseded() {
			e.giveWay(ctx)
		}
	}
	return nil
}

// giveWay leaves the node to the leader that the remote named. If that one has another
// lease, two would take the node from each other without a pause.
func (e *Elector) giveWay(ctx context.Context) {
	e.cfg.Standby(errGaveWay)
	_ = pause.For(ctx, e.lease.LeaseDuration) // whoever called asks whether ctx ended
}

// term is one wait and one lead; over says that there is to be no other.
func (e *Elector) term(ctx context.Context, l *lock, lead Lead) (over bool, err error) {
	defer e.cfg.Lease.forget(&l.member)
	defer l.held.Close()
	// The election outlives ctx: the lease is kept until what leads has ended.
	campaign, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	l.lost = func() { l.held.Close(); stop() }
	elected, ended := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { close(elected) })
	elector, err := e.elector(l, e.cfg.Lease.look(), func(context.Context) { first() }, func() {})
	if err != nil {
		return true, fmt.Errorf("leader election: %w", err)
	}
	e.cfg.Standby(nil)
	log.G(ctx).WithField("lease", l.Describe()).Info("standing by for the node's lease")
	go func() {
		defer close(ended)
		defer l.held.Close()
		e.campaign(campaign, l, elector)
	}()
	quit := func() {
		l.held.Close()
		stop()
		<-ended
		e.release(ctx, l)
	}
	select {
	case <-elected:
	case <-ended:
		return false, nil
	case <-ctx.Done():
		quit()
		return true, nil
	}
	if time.Until(l.member.settled) > 0 && e.mayHaveFormer(ctx) {
		timer := time.NewTimer(time.Until(l.member.settled))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ended:
			return false, nil
		case <-ctx.Done():
			quit()
			return true, nil
		}
	}
	log.G(ctx).WithField("lease", l.Describe()).Info("leading the node")
	return e.serve(ctx, l, lead, ended, quit)
}

// campaign keeps the lease until ctx ends, or until it can be renewed no more and the
// remote does not tell leaders apart.
func (e *Elector) campaign(ctx context.Context, l *lock, elector *leaderelection.LeaderElector) {
	defer l.withLease()
	for ctx.Err() == nil {
		// Ours are the words that users see.
		elector.Run(klog.NewContext(ctx, klog.Logger{}))
		if ctx.Err() != nil || !l.leading || !l.held.Outlives() {
			return
		}
		if !l.outlived {
			l.outlived = true
			e.cfg.WithoutLease(true)
			log.G(ctx).WithField("lease", l.Describe()).Warn("the node's lease cannot be renewed: " +
				"going on with the pods that are known, until the remote or the API server names another leader")
		}
	}
}

// mayHaveFormer is true where somebody may lead of whom the Lease does not know.
func (e *Elector) mayHaveFormer(ctx context.Context) bool {
	former, err := e.cfg.Former(ctx)
	entry := log.G(ctx).WithField("lease", e.cfg.Lease.String()).WithField("pause", e.lease.LeaseDuration)
	switch {
	case err != nil:
		entry.WithError(err).Warn("the lease is new, and whether the node has a leader is not known: waiting as for one")
	case former:
		entry.Info("the lease is new but the node is not: waiting for the end of a leader that may have it")
	}
	return err != nil || former
}

// serve leads until lead returns or the lease is lost.
func (e *Elector) serve(
	ctx context.Context, l *lock, lead Lead, ended <-chan struct{}, quit func(),
) (over bool, err error) {
	leading, stop := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer stop()
	done := make(chan error, 1)
	go func() { done <- lead(leading, l.held) }()
	asking.Go(func() { e.askRemote(leading, l) })
	select {
	case err := <-done:
		// With the gate closed by the clock, the lease is as good as lost, and an
		// error comes from there.
		lost := err != nil && !l.held.Open() && ctx.Err() == nil
		quit()
		if !lost {
			return true, err
		}
		log.G(ctx).WithField("lease", l.Describe()).WithError(err).Warn("lost the node's lease")
		return false, nil
	case <-l.held.Closed():
		l.lost() // the remote may have closed it
		<-ended
	}
	log.G(ctx).WithField("lease", l.Describe()).Warn(
		"lost the node's lease: stopping the node, its pods stay on the remote",
	)
	stop()
	timer := time.NewTimer(e.cfg.StopTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		if err != nil {
			log.G(ctx).WithError(err).Debug("node stopped after its lease was lost")
		}
		return false, nil
	case <-timer.C:
		return true, fmt.Errorf("lease %s: %w (%v)", l.Describe(), ErrStuck, e.cfg.StopTimeout)
	}
}

// release uses a context of its own, since ctx has ended.
func (e *Elector) release(ctx context.Context, l *lock) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.lease.RenewDeadline)
	defer cancel()
	l.release(ctx)
}

func (e *Elector) lock() *lock {
	return &lock{
		lease:   e.cfg.Lease,
		held:    gate.New(),
		open:    e.cfg.Lease.open(),
		standby: e.cfg.Standby,
		without: e.cfg.WithoutLease,
		lost:    func() {},
	}
}

func (e *Elector) elector(
	l *lock, look time.Duration, elected func(context.Context), ended func(),
) (*leaderelection.LeaderElector, error) {
	cfg := e.lease
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l, Name: cfg.Name,
		LeaseDuration: cfg.LeaseDuration, RenewDeadline: cfg.RenewDeadline, RetryPeriod: look,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: elected, OnStoppedLeading: ended},
	})
}
