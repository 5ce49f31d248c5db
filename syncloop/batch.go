package syncloop

import (
	"context"
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
	x.Pulled = w.start.Pulled
	w.loop.goWork(func() {
		defer w.later(func(context.Context) {
			cancel()
			w.batch = nil
		})
		defer w.loop.cfg.Metrics.Worked(&p, time.Now())
		x.Run(ctx, soft, &p, func(results []plan.Result, holds int) {
			w.later(func(ctx context.Context) { w.record(ctx, results, holds) })
		})
	})
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
