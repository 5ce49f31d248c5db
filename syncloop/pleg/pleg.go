package pleg

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/containerd/log"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/pause"
)

// Config is what a PLEG needs.
type Config struct {
	Pods backend.Pods
	// Events may be nil: then Period bounds how late a change is seen.
	Events backend.Events
	// Period of complete listings; 1 s if zero.
	Period time.Duration
	// Timeout of one read; 2 minutes if zero.
	Timeout time.Duration
	// Observe is told the length of each complete listing that succeeded.
	Observe func(time.Duration)
}

// Record is what is known of one pod.
type Record struct {
	// Facts are all attempts, oldest first; none if the remote has none.
	Facts []backend.PodFacts
	// Seq is the number of the read that the facts are from, At when it began.
	Seq uint64
	At  time.Time
}

// PLEG reads the remote and keeps what it saw.
type PLEG struct {
	cfg Config

	mu      sync.Mutex
	seq     uint64
	listSeq uint64
	// The last complete listing began at listFrom and ended at listAt.
	listFrom, listAt time.Time
	records          map[types.UID]Record
	queue            map[types.UID]struct{}
	held             map[types.UID]int
	changed          map[types.UID]struct{}

	queued chan struct{}
	signal chan struct{}
}

// New returns a PLEG that reads nothing until Run.
func New(cfg Config) *PLEG {
	if cfg.Period == 0 {
		cfg.Period = time.Second
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 2 * time.Minute
	}
	return &PLEG{
		cfg: cfg, records: map[types.UID]Record{},
		queue: map[types.UID]struct{}{}, held: map[types.UID]int{}, changed: map[types.UID]struct{}{},
		queued: make(chan struct{}, 1), signal: make(chan struct{}, 1),
	}
}

// Enqueue has one pod inspected as soon as possible and returns the number that a record
// must have to be from after this call. The pod is reported as changed after that
// inspection even if it is as before.
func (p *PLEG) Enqueue(uid types.UID) uint64 { return p.Release(uid, 0) }

// Hold leaves out hints of a pod until it is released as often: a call that changes the
// pod begins. What it does is hinted at as well, and an inspection begun meanwhile would
// delay the one after it.
func (p *PLEG) Hold(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[uid]++
}

// Release ends some holds of a pod and enqueues it.
func (p *PLEG) Release(uid types.UID, holds int) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[uid] -= holds; p.held[uid] <= 0 {
		delete(p.held, uid)
	}
	p.queue[uid] = struct{}{}
	notify(p.queued)
	return p.seq + 1
}

// Get returns what is known of a pod. It is false before the first complete
// listing, when absence from the records means nothing.
func (p *PLEG) Get(uid types.UID) (Record, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if record, ok := p.records[uid]; ok {
		return record, p.listSeq != 0
	}
	return Record{Seq: p.listSeq, At: p.listFrom}, p.listSeq != 0
}

// Changed receives when Take has something to return.
func (p *PLEG) Changed() <-chan struct{} { return p.signal }

// Take returns the pods that changed since the last call.
func (p *PLEG) Take() []types.UID {
	p.mu.Lock()
	defer p.mu.Unlock()
	uids := make([]types.UID, 0, len(p.changed))
	for uid := range p.changed {
		uids = append(uids, uid)
	}
	clear(p.changed)
	return uids
}

// Present returns the pods that the remote holds and the number of the last
// complete listing.
func (p *PLEG) Present() (map[types.UID]backend.Ref, uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	present := make(map[types.UID]backend.Ref, len(p.records))
	for uid, record := range p.records {
		if len(record.Facts) > 0 {
			present[uid] = record.Facts[0].Ref
		}
	}
	return present, p.listSeq
}

// Listed is the number of the last complete listing; 0 if there was none.
func (p *PLEG) Listed() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listSeq
}

// LastList is when the last complete listing succeeded; zero if none did.
func (p *PLEG) LastList() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listAt
}

// Run reads until the context ends.
func (p *PLEG) Run(ctx context.Context) error {
	var g errgroup.Group
	if p.cfg.Events != nil {
		hints := make(chan types.UID, 64)
		g.Go(func() error { return p.listen(ctx, hints) })
		g.Go(func() error { return p.mark(ctx, hints) })
	}
	g.Go(func() error { return p.read(ctx) })
	return g.Wait()
}

// listen keeps the hint stream open, with a pause after a break.
func (p *PLEG) listen(ctx context.Context, hints chan<- types.UID) error {
	for {
		err := p.cfg.Events.Run(ctx, hints)
		if pause.For(ctx, time.Second) != nil {
			return nil //nolint:nilerr // it is to end
		}
		log.G(ctx).WithError(err).Debug("hint stream ended, relisting covers for it; opening it again")
	}
}

func (p *PLEG) read(ctx context.Context) error {
	p.list(ctx)
	ticker := time.NewTicker(p.cfg.Period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			p.list(ctx)
		case <-p.queued:
		}
		p.inspect(ctx)
	}
}

// mark takes hints as they come, also while a read is under way: the next serves all of
// them, and those of a pod that is held are of no use after it.
func (p *PLEG) mark(ctx context.Context, hints <-chan types.UID) error {
	for {
		select {
		case uid := <-hints:
			p.hinted(uid)
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *PLEG) hinted(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[uid] == 0 {
		p.queue[uid] = struct{}{}
		notify(p.queued)
	}
}

// list reads everything. A pod in the queue stays there: it is inspected next.
func (p *PLEG) list(ctx context.Context) {
	start := time.Now()
	p.mu.Lock()
	p.seq++
	seq := p.seq
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	facts, err := p.cfg.Pods.List(ctx)
	if err != nil {
		if ctx.Err() != context.Canceled {
			log.G(ctx).WithError(err).Warn("listing the remote's pods failed, what is known stays")
		}
		return
	}
	if p.cfg.Observe != nil {
		p.cfg.Observe(time.Since(start))
	}
	seen := group(facts)
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.listSeq == 0
	p.listSeq, p.listFrom, p.listAt = seq, start, time.Now()
	for uid, old := range p.records {
		if _, ok := seen[uid]; ok {
			continue
		}
		delete(p.records, uid)
		if len(old.Facts) > 0 {
			p.changed[uid] = struct{}{}
		}
	}
	for uid, now := range seen {
		p.store(uid, Record{now, seq, start}, first)
	}
	if first || len(p.changed) > 0 {
		notify(p.signal)
	}
}

// inspect reads the pods in the queue in one call.
func (p *PLEG) inspect(ctx context.Context) {
	start := time.Now()
	p.mu.Lock()
	uids := make([]types.UID, 0, len(p.queue))
	for uid := range p.queue {
		uids = append(uids, uid)
	}
	clear(p.queue)
	p.seq++
	seq := p.seq
	p.mu.Unlock()
	if len(uids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	facts, err := p.cfg.Pods.Inspect(ctx, uids)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		if ctx.Err() != context.Canceled {
			log.G(ctx).WithError(err).Warn("inspecting pods failed, looking again with the next listing")
		}
		for _, uid := range uids { // the next tick inspects them again
			p.queue[uid] = struct{}{}
		}
		return
	}
	seen := group(facts)
	for _, uid := range uids {
		p.store(uid, Record{seen[uid], seq, start}, true)
	}
	notify(p.signal)
}

// store keeps the newer of two reads and notes a change.
func (p *PLEG) store(uid types.UID, now Record, report bool) {
	old := p.records[uid]
	same := backend.EqualEach(old.Facts, now.Facts, (*backend.PodFacts).Equal)
	if same {
		now.Facts = old.Facts // those that others hold: once in memory
	}
	p.records[uid] = now
	if report || !same {
		p.changed[uid] = struct{}{}
	}
}

// group sorts facts by pod, attempts oldest first.
func group(facts []backend.PodFacts) map[types.UID][]backend.PodFacts {
	pods := map[types.UID][]backend.PodFacts{}
	for _, f := range facts {
		pods[f.UID] = append(pods[f.UID], f)
	}
	for _, attempts := range pods {
		slices.SortFunc(attempts, func(a, b backend.PodFacts) int { return a.Attempt - b.Attempt })
	}
	return pods
}

func notify(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}
