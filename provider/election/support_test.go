package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/class"
	"github.com/burstlet/burstlet/backend/fence"
	"github.com/burstlet/burstlet/backend/gate"
	"github.com/burstlet/burstlet/backend/intercept"
)

// server keeps one Lease as an API server does: an update of what changed since
// is a conflict.
type server struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
	// reads and writes are those that arrived.
	reads, writes int
}

var resource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (s *server) put(l *coordinationv1.Lease) *coordinationv1.Lease {
	s.version++
	meta := s.meta()
	s.lease = l.DeepCopy()
	s.lease.UID = meta.UID
	s.lease.ResourceVersion = strconv.Itoa(s.version)
	return s.lease.DeepCopy()
}

func (s *server) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil || s.lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *s.lease.Spec.HolderIdentity
}

// counts returns how many reads and writes arrived since the last time.
func (s *server) counts() (reads, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reads, writes, s.reads, s.writes = s.reads, s.writes, 0, 0
	return reads, writes
}

// held writes the Lease as somebody would whom no contender stands for.
func (s *server) held(holder string, transitions int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, seconds := metav1.NowMicro(), int32(duration/time.Second)
	s.put(&coordinationv1.Lease{ObjectMeta: s.meta(), Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseTransitions: &transitions, LeaseDurationSeconds: &seconds, RenewTime: &now,
		AcquireTime: &now,
	}})
}

// meta is what the Lease keeps for as long as it is there.
func (s *server) meta() metav1.ObjectMeta {
	if s.lease != nil {
		return s.lease.ObjectMeta
	}
	return metav1.ObjectMeta{Name: "burstlet-n", UID: types.UID(strconv.Itoa(s.version))}
}

// forget deletes the Lease.
func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease = nil
}

// wire is one contender's way to the server.
type wire struct {
	coordinationclient.LeaseInterface
	server *server

	mu     sync.Mutex
	cut    bool          // calls fail
	hang   time.Duration // after so long
	calls  int           // those that were made
	mute   bool          // the reply of the next write is lost
	frozen chan struct{} // calls wait until it is closed, and longer than their context
	late   time.Duration // replies come so much later
	farCut bool          // the remote cannot be reached
	stray  bool          // a renewal that was given up arrives before the next release
}

// far is nil when the remote can be reached.
func (w *wire) far(ctx context.Context) error {
	w.mu.Lock()
	frozen := w.frozen
	w.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.farCut {
		return class.Errorf(class.ErrUnavailable, "no route to host")
	}
	return ctx.Err()
}

func (w *wire) Leases(string) coordinationclient.LeaseInterface { return w }

func (w *wire) set(change func(*wire)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

func (w *wire) pass(ctx context.Context) error {
	w.mu.Lock()
	w.calls++
	frozen, cut, hang := w.frozen, w.cut, w.hang
	w.mu.Unlock()
	if frozen != nil {
		<-frozen // a frozen process does not look at its contexts
	}
	if cut {
		select {
		case <-time.After(hang):
		case <-ctx.Done():
		}
		return errors.New("connection refused")
	}
	return ctx.Err()
}

// strays is true once.
func (w *wire) strays() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.stray
	w.stray = false
	return was
}

// reply returns what is to arrive of the server's answer to a write.
func (w *wire) reply(l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	w.mu.Lock()
	late, mute := w.late, w.mute
	w.mute = false
	w.mu.Unlock()
	time.Sleep(late)
	if mute {
		return nil, errors.New("connection reset")
	}
	return l, nil
}

func (w *wire) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	if err := w.pass(ctx); err != nil {
		return nil, err
	}
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.server.reads++
	if w.server.lease == nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	return w.server.lease.DeepCopy(), nil
}

func (w *wire) Create(
	ctx context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	if err := w.pass(ctx); err != nil {
		return nil, err
	}
	written, err := w.server.create(l)
	if err != nil {
		return nil, err
	}
	return w.reply(written)
}

func (w *wire) Update(
	ctx context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	if err := w.pass(ctx); err != nil {
		return nil, err
	}
	written, err := w.server.update(l, w.strays)
	if err != nil {
		return nil, err
	}
	return w.reply(written)
}

func (s *server) create(l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.lease != nil {
		return nil, apierrors.NewAlreadyExists(resource, l.Name)
	}
	return s.put(l), nil
}

func (s *server) update(l *coordinationv1.Lease, strays func() bool) (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.lease == nil {
		return nil, apierrors.NewNotFound(resource, l.Name)
	}
	if *l.Spec.HolderIdentity == "" && strays() {
		s.put(s.lease)
	}
	if s.lease.ResourceVersion != l.ResourceVersion {
		return nil, apierrors.NewConflict(resource, l.Name, errors.New("changed"))
	}
	return s.put(l), nil
}

// contender is a process that stands for the lease, or one node of it.
type contender struct {
	t    *testing.T
	name string
	wire *wire

	elector *Elector
	stop    context.CancelFunc
	over    chan error

	mu    sync.Mutex
	terms []*gate.Gate
	began []time.Time
	// end is what lead does when its context ends, and fail ends it with an error.
	end  func(*gate.Gate)
	fail chan error
	// standby is what was told of standing by.
	standby []error
	without []bool // what Config.WithoutLease was told
	// former is what Former says.
	former atomic.Bool
	// remote tells leaders apart; nil: it does not.
	remote *remote
}

// remote keeps who leads, and what each did there.
type remote struct {
	mu     sync.Mutex
	record fence.Record
	// landed are the holders whose changes were done, each once in a row.
	landed []string
}

func (r *remote) ask(_ context.Context, q fence.Request) (fence.Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record = q.Apply(r.record)
	return r.record, nil
}

// change is a change that arrives.
func (r *remote) change(holder string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.record.Check(holder); err != nil {
		return err
	}
	if len(r.landed) == 0 || r.landed[len(r.landed)-1] != holder {
		r.landed = append(r.landed, holder)
	}
	return nil
}

// The defaults of the configuration.
const (
	duration = 8 * time.Second
	deadline = 6 * time.Second
	retry    = time.Second
	// takeover is LeaseDuration + 2.4 * RetryPeriod: what was read is good for 1.25, and after it
	// as after the Lease's end a look follows within 0.55.
	takeover = 10400 * time.Millisecond
)

func leaseConfig(w *wire, identity string) LeaseConfig {
	return LeaseConfig{
		Leases: w, Namespace: "release", Name: "burstlet-n", Identity: identity,
		LeaseDuration: duration, RenewDeadline: deadline, RetryPeriod: retry,
	}
}

func contend(t *testing.T, s *server, name string) *contender {
	t.Helper()
	return contendAt(t, s, nil, name)
}

// contendAt has a remote that tells leaders apart.
func contendAt(t *testing.T, s *server, r *remote, name string) *contender {
	t.Helper()
	w := &wire{server: s}
	return stand(t, w, newLease(t, w, name), r, name, 0)
}

func newLease(t *testing.T, w *wire, identity string) *Lease {
	t.Helper()
	lease, err := NewLease(leaseConfig(w, identity))
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// process has nodes that share one Lease. remotes are those of its nodes, nil for one that does
// not tell leaders apart.
func process(t *testing.T, s *server, name string, remotes ...*remote) (nodes []*contender) {
	t.Helper()
	w := &wire{server: s}
	lease := newLease(t, w, name)
	for _, r := range remotes {
		nodes = append(nodes, stand(t, w, lease, r, name, time.Hour)) // what is frozen does not look at its clock
	}
	return nodes
}

// stand makes a contender and has it stand for the lease; set changes it before, for it
// runs beside the test from then on.
func stand(
	t *testing.T, w *wire, lease *Lease, r *remote, name string, stopTimeout time.Duration, set ...func(*contender),
) *contender {
	t.Helper()
	c := &contender{
		t: t, name: name, wire: w, remote: r,
		over: make(chan error, 1), fail: make(chan error), end: func(*gate.Gate) {},
	}
	e, err := New(Config{
		Lease: lease, StopTimeout: stopTimeout,
		Former:  func(context.Context) (bool, error) { return c.former.Load(), nil },
		Standby: func(err error) { c.mu.Lock(); c.standby = append(c.standby, err); c.mu.Unlock() },

		WithoutLease: func(does bool) { c.mu.Lock(); c.without = append(c.without, does); c.mu.Unlock() },
	})
	if err != nil {
		t.Fatal(err)
	}
	c.elector = e
	for _, f := range set {
		f(c)
	}
	c.start()
	return c
}

// start has it stand for the lease, for the first time or again.
func (c *contender) start() {
	ctx, cancel := context.WithCancel(c.t.Context())
	c.stop = cancel
	c.t.Cleanup(cancel)
	go func() {
		err := c.elector.Run(ctx, c.lead)
		for ctx.Err() == nil && errors.Is(err, errStorm) {
			err = c.elector.Run(ctx, c.lead)
		}
		c.over <- err
	}()
}

func (c *contender) lead(ctx context.Context, held *gate.Gate) error {
	c.mu.Lock()
	c.terms, c.began = append(c.terms, held), append(c.began, time.Now())
	n := len(c.terms)
	c.mu.Unlock()
	if c.remote != nil {
		work, stop := context.WithCancel(ctx)
		var working sync.WaitGroup
		defer working.Wait()
		defer stop()
		working.Go(func() { c.work(work, held, n) })
	}
	select {
	case <-ctx.Done():
		c.mu.Lock()
		end := c.end
		c.mu.Unlock()
		end(held)
		return nil
	case err := <-c.fail:
		return err
	}
}

// work changes something on the remote all the time.
func (c *contender) work(ctx context.Context, held *gate.Gate, term int) {
	ask := func(ctx context.Context, q fence.Request) (fence.Record, error) {
		if err := c.wire.far(ctx); err != nil {
			return fence.Record{}, err
		}
		return c.remote.ask(ctx, q)
	}
	taker := fence.NewTaker(fmt.Sprintf("%s/%d", c.name, term), held.Permit, ask)
	held.Ask(taker.Confirm)
	change := func(ctx context.Context, _ *intercept.Call, _ func(context.Context) error) error {
		holder, err := taker.Holder(ctx)
		if err == nil {
			err = held.Permit("change")
		}
		if err == nil {
			err = c.wire.far(ctx)
		}
		if err == nil {
			err = c.remote.change(holder)
		}
		return err
	}
	far := held.Wrap(intercept.Lend([]string{"Pods"}, change))
	for ctx.Err() == nil {
		_ = far.Pods.Remove(ctx, backend.Ref{}) // what lands counts
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// onEnd sets what lead does when its context ends.
func (c *contender) onEnd(end func(*gate.Gate)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = end
}

// term is the gate of the term with this number, from 0.
func (c *contender) term(n int) *gate.Gate {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.terms) <= n {
		c.t.Fatalf("%d terms, want more than %d", len(c.terms), n)
	}
	return c.terms[n]
}

func (c *contender) led() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.terms)
}

// open is true while this contender may change something.
func (c *contender) open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.terms {
		if g.Open() {
			return true
		}
	}
	return false
}

func (c *contender) ended(want error) {
	c.t.Helper()
	if err := <-c.over; !errors.Is(err, want) {
		c.t.Errorf("Run: %v, want %v", err, want)
	}
}

func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// goesWithout is what this contender was told of terms without a lease.
func (c *contender) goesWithout() []bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.without)
}
