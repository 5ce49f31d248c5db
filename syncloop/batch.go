package syncloop

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/plan"
)

// batch is the actions under way.
type batch struct {
	soft       context.CancelFunc
	terminates bool
	makes      bool
}

// begin runs a plan's actions in a goroutine of their own, stage after stage.
func (w *worker) begin(ctx context.Context, in *plan.Input, p plan.Plan) {
	soft, cancel := context.WithCancel(ctx)
	b := &batch{soft: cancel, terminates: p.Termination != nil}
	for _, a := range p.Actions {
		switch a.(type) {
		case plan.Launch, plan.StartContainer:
			b.makes = true
		}
	}
	w.batch = b
	if b.makes {
		w.mu.Lock()
		w.couldRun = true
		w.mu.Unlock()
	}
	x := w.loop.executor(w.ref.UID, in.Pod)
	x.pulled = w.start.pulled
	w.loop.goWork(func() {
		defer w.later(func(context.Context) {
			cancel()
			w.batch = nil
		})
		defer w.loop.cfg.Metrics.worked(&p, time.Now())
		todo := plan.Stages(p.Actions)
		for i, stage := range todo {
			if soft.Err() != nil && p.Termination == nil {
				return // the pod is to end: what was planned for its life is void
			}
			lookup := x.startLookup(soft, todo[i+1:])
			results := runStage(ctx, soft, stage, x)
			holds := int(x.holds.Swap(0))
			w.later(func(ctx context.Context) { w.record(ctx, results, holds) })
			failed := slices.ContainsFunc(results, func(r plan.Result) bool { return r.Err != nil && first(r.Action) })
			if x.lookedUp = lookup.end(failed); failed {
				return
			}
		}
	})
}

// runStage runs the actions of a stage beside each other. Results are in the order of
// the actions.
func runStage(ctx, soft context.Context, stage []plan.Action, x *executor) []plan.Result {
	results := make([]plan.Result, len(stage))
	var beside sync.WaitGroup
	for i, a := range stage[1:] {
		beside.Go(func() { results[i+1] = runSafely(ctx, soft, a, x) })
	}
	results[0] = runSafely(ctx, soft, stage[0], x)
	beside.Wait()
	return results
}

// first is true for actions without which those after them cannot be.
func first(a plan.Action) bool {
	switch a.(type) {
	case plan.Launch, plan.PlaceVolume, plan.ResizeContainer:
		return true
	}
	return false
}

// runSafely turns a panic into an error: one bad pod must not take the node down.
func runSafely(ctx, soft context.Context, a plan.Action, x *executor) (r plan.Result) {
	defer func() {
		if p := recover(); p != nil {
			log.G(ctx).WithField("stack", string(debug.Stack())).Error("an action panicked")
			r = plan.Result{Action: a, Err: fmt.Errorf("%s: panic: %v", a, p)}
		}
		r.At = time.Now()
	}()
	return x.run(ctx, soft, a)
}

// record notes the results of a stage and asks for facts from after it.
func (w *worker) record(ctx context.Context, results []plan.Result, holds int) {
	for _, r := range results {
		w.memory.Record(r)
		logResult(ctx, r)
	}
	if _, refused := w.memory.RefusedLaunch(w.loop.traits); refused {
		w.launchRefused()
	}
	w.minSeq = w.loop.pleg.Release(w.ref.UID, holds)
}

func logResult(ctx context.Context, r plan.Result) {
	entry := log.G(ctx).WithField("action", r.Action.String())
	switch class := backend.Class(r.Err); {
	case class == "":
		entry.Debug("action done")
	case class == "NotFound":
		entry.Debug("action found nothing left")
	case r.GivenUp:
		entry.Debug("action given up: the pod is ending")
	default:
		entry.WithError(r.Err).WithField("class", class).Warn("action failed")
	}
}
