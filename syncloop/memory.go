package syncloop

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// The delays after failures, by what failed.
var (
	delayTransient = delays{time.Second, 10 * time.Second}
	delayThrottled = delays{time.Second, 30 * time.Second}
	delayCapacity  = delays{30 * time.Second, 5 * time.Minute}
	delayDenied    = delays{10 * time.Second, 5 * time.Minute}
	delayPull      = delays{crashInitial, crashMax}
)

// adoptedGrace is the least grace that is left to a pod whose deletion an
// earlier life of the process had begun (kubelet: minimumGracePeriodInSeconds).
const adoptedGrace = 2 * time.Second

type delays struct{ first, most time.Duration }

// after doubles the delay that went before.
func (d delays) after(before time.Duration) time.Duration {
	return min(max(d.first, 2*before), d.most)
}

func delaysFor(reason string, err error) delays {
	switch {
	case reason == reasonErrImagePull:
		return delayPull
	case errors.Is(err, backend.ErrThrottled):
		return delayThrottled
	case errors.Is(err, backend.ErrCapacity):
		return delayCapacity
	case errors.Is(err, backend.ErrDenied):
		return delayDenied
	}
	return delayTransient
}

// Result is how an action ended.
type Result struct {
	Action Action
	Err    error
	// Reason is the kubelet's word for Err ("ErrImagePull").
	Reason string
	At     time.Time
}

// newMemory starts from what the API holds.
func newMemory(status corev1.PodStatus) Memory {
	return Memory{
		Status: status, Backoff: map[string]Backoff{}, Failures: map[string]Failure{},
		Lost: map[int]time.Time{}, LostStarts: map[string]time.Time{}, Stops: map[int]StopAsk{}, Removes: map[int]Removal{},
	}
}

// adopt takes over a pod that an earlier life of the process may have worked on.
// It assumes that the next attempt was launched just before the process died:
// the launch is replayed, or waited out before the pod is gone. Of a deleted
// pod's grace it leaves what is left.
func (m *Memory) adopt(in *Input, started time.Time) {
	v := newView(in)
	if v.sandbox() == nil && !terminal(m.Status.Phase) {
		m.Lost[v.nextAttempt()] = started
	}
	if order := v.ordered(); order != nil && in.Pod.DeletionTimestamp != nil {
		// The API server's clock may not be ours: a moment is left in any case.
		left := max(in.Pod.DeletionTimestamp.Sub(in.Now), adoptedGrace)
		if deadline := in.Now.Add(left); deadline.Before(order.Deadline) {
			order.Deadline = deadline
		}
		m.Kill = order
	}
}

// Record notes how an action ended.
func (m *Memory) Record(r Result) {
	switch a := r.Action.(type) {
	case Launch:
		m.recordLaunch(a, r)
	case StartContainer:
		m.recordStart(a, r)
	case StopPod:
		// NotFound is a stop too; a failed one is asked again.
		if r.Err == nil || errors.Is(r.Err, backend.ErrNotFound) {
			m.Stops[a.Ref.Attempt] = StopAsk{At: r.At, Deadline: a.Deadline}
			return
		}
		retry := r.At.Add(delayTransient.first - stopRepeat)
		m.Stops[a.Ref.Attempt] = StopAsk{At: retry, Deadline: a.Deadline}
	case RemovePod:
		rm := Removal{Count: m.Removes[a.Ref.Attempt].Count + 1, Last: r.At}
		if errors.Is(r.Err, backend.ErrNotFound) {
			rm.Proven = true
			if a.Settles {
				delete(m.Lost, a.Ref.Attempt)
			}
		}
		m.Removes[a.Ref.Attempt] = rm
	case RemoveContainer:
		if r.Err == nil || errors.Is(r.Err, backend.ErrNotFound) {
			delete(m.Failures, a.key())
			return
		}
		m.fail(a.key(), r)
	}
}

// recordLaunch: a refusal before anything was made leaves nothing; after any
// other error the attempt may yet appear.
func (m *Memory) recordLaunch(a Launch, r Result) {
	if r.Err == nil {
		delete(m.Lost, a.Spec.Attempt)
		delete(m.Failures, podKey)
		if a.Restart {
			m.Backoff[podKey] = m.Backoff[podKey].next(a.Ended, r.At)
		}
		return
	}
	m.fail(podKey, r)
	if !definite(r.Err) {
		m.Lost[a.Spec.Attempt] = r.At
	}
}

// definite errors say that nothing was made.
func definite(err error) bool {
	return errors.Is(err, backend.ErrInvalid) || errors.Is(err, backend.ErrUnsupported) ||
		errors.Is(err, backend.ErrCapacity) || errors.Is(err, backend.ErrThrottled) ||
		errors.Is(err, backend.ErrDenied)
}

func (m *Memory) recordStart(a StartContainer, r Result) {
	name := a.Spec.Container.Name
	if r.Err == nil {
		delete(m.Failures, name)
		delete(m.LostStarts, name)
	} else {
		m.fail(name, r)
		if !definite(r.Err) && r.Reason != reasonErrImagePull {
			m.LostStarts[name] = r.At
		}
	}
	if a.Restart && (r.Err == nil || r.Reason == reasonCreateError) {
		key := backoffKey(name, a.Spec.Hash)
		m.Backoff[key] = m.Backoff[key].next(a.Ended, r.At)
	}
}

// fail notes a failure and how long to wait.
func (m *Memory) fail(key string, r Result) {
	before := m.Failures[key]
	f := Failure{Reason: r.Reason, Message: r.Err.Error(), Class: backend.Class(r.Err), At: r.At}
	last := before.Delay
	if before.Reason != f.Reason {
		last = 0
	}
	f.Delay = delaysFor(f.Reason, r.Err).after(last)
	m.Failures[key] = f
}
