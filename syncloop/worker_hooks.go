package syncloop

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/syncloop/hooks"
	"github.com/burstlet/burstlet/syncloop/plan"
)

// hookResult is how a hook ended.
type hookResult struct {
	key plan.HookKey
	err error
}

// runHooks makes exactly these hooks run: it begins those that do not and ends
// those that are no longer wanted.
func (w *worker) runHooks(ctx context.Context, in *plan.Input, wanted []plan.Hook) {
	if len(wanted) == 0 && len(w.hooks) == 0 {
		return
	}
	keep := make(map[plan.HookKey]bool, len(wanted))
	for _, h := range wanted {
		keep[h.Key] = true
		if w.hooks[h.Key] == nil {
			w.beginHook(ctx, in.Pod, h)
		}
	}
	for key, end := range w.hooks {
		if !keep[key] {
			end()
		}
	}
}

func (w *worker) beginHook(ctx context.Context, pod *corev1.Pod, h plan.Hook) {
	hookCtx, cancel := context.WithCancel(ctx)
	if w.hooks == nil { // most pods never have one
		w.hooks = map[plan.HookKey]context.CancelFunc{}
	}
	w.hooks[h.Key] = cancel
	w.loop.goWork(func() {
		err := w.hookSafely(hookCtx, pod, h)
		w.later(func(ctx context.Context) { w.hookEnded(ctx, hookResult{h.Key, err}) })
	})
}

func (w *worker) hookSafely(ctx context.Context, pod *corev1.Pod, h plan.Hook) (err error) {
	defer func() {
		if p := recover(); p != nil {
			log.G(ctx).WithField("stack", string(debug.Stack())).Error("a hook panicked")
			err = fmt.Errorf("%s hook: panic: %v", h.Key.Kind, p)
		}
	}()
	target := hooks.Target{Ref: h.Ref, Pod: pod, Container: h.Spec, PodIP: h.PodIP}
	return w.loop.hooks.Run(ctx, target, h.Handler)
}

// hookEnded notes how a hook ended. One that was ended from here did not: it runs
// again if it is wanted again. Of a preStop hook that outlasts its container users are
// told, as by a kubelet, whose hook fails with the container.
func (w *worker) hookEnded(ctx context.Context, h hookResult) {
	w.hooks[h.key]()
	delete(w.hooks, h.key)
	cut := errors.Is(h.err, context.Canceled)
	if cut && (h.key.Kind != plan.PreStop || ctx.Err() != nil) {
		return
	}
	if !cut {
		w.memory.EndHook(h.key, h.err)
	}
	if h.err == nil {
		return
	}
	log.G(ctx).WithError(h.err).WithField("container", h.key.Container).Warn("lifecycle hook failed")
	w.mu.Lock()
	pod := w.pod
	w.mu.Unlock()
	if pod != nil {
		// The error may show what the hook printed: it stays out of the Event.
		w.loop.cfg.Events.Event(pod, h.key.Container, corev1.EventTypeWarning,
			"Failed"+string(h.key.Kind)+"Hook", string(h.key.Kind)+"Hook failed")
	}
}
