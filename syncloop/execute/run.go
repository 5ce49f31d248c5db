package execute

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/syncloop/plan"
)

// Run runs a plan's actions, stage after stage, and hands on the results of each with
// how many hints it kept back. It ends after a stage in which something failed that the
// others need, and with soft, unless the plan ends the pod.
func (x *Runner) Run(ctx, soft context.Context, p *plan.Plan, record func(results []plan.Result, holds int)) {
	todo := plan.Stages(p.Actions)
	for i, stage := range todo {
		if soft.Err() != nil && p.Termination == nil {
			return // the pod is to end: what was planned for its life is void
		}
		lookup := x.startLookup(soft, todo[i+1:])
		results := runStage(ctx, soft, stage, x)
		holds := int(x.holds.Swap(0))
		record(results, holds)
		failed := slices.ContainsFunc(results, func(r plan.Result) bool { return r.Err != nil && first(r.Action) })
		if x.lookedUp = lookup.end(failed); failed {
			return
		}
	}
}

// runStage runs the actions of a stage beside each other. Results are in the order of
// the actions.
func runStage(ctx, soft context.Context, stage []plan.Action, x *Runner) []plan.Result {
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
func runSafely(ctx, soft context.Context, a plan.Action, x *Runner) (r plan.Result) {
	defer func() {
		if p := recover(); p != nil {
			log.G(ctx).WithField("stack", string(debug.Stack())).Error("an action panicked")
			r = plan.Result{Action: a, Err: fmt.Errorf("%s: panic: %v", a, p)}
		}
		r.At = time.Now()
	}()
	return x.act(ctx, soft, a)
}
