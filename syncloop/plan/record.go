package plan

import (
	"errors"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/images"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// The delays after failures, by what failed.
var (
	delayTransient = delays{time.Second, 10 * time.Second}
	delayThrottled = delays{time.Second, 30 * time.Second}
	delayCapacity  = delays{30 * time.Second, 5 * time.Minute}
	delayTry       = delays{5 * time.Second, 5 * time.Minute}
	delayDenied    = delays{10 * time.Second, 5 * time.Minute}
	delayPull      = delays{crashInitial, crashMax}
	delayResize    = delays{10 * time.Second, time.Minute} // kubelet: backOffPeriod
)

type delays struct{ first, most time.Duration }

// after doubles the delay that went before.
func (d delays) after(before time.Duration) time.Duration {
	return min(max(d.first, 2*before), d.most)
}

// delaysAfter are those of an action that failed. Another try is another place,
// where there may be room at once.
func delaysAfter(r Result) delays {
	if a, ok := r.Action.(Launch); ok && a.Counts && errors.Is(r.Err, backend.ErrCapacity) {
		return delayTry
	}
	return delaysFor(r.Reason, r.Err)
}

func delaysFor(reason string, err error) delays {
	switch {
	case images.PullFailed(reason):
		return delayPull
	case reason == corev1.PodReasonError:
		return delayResize
	case reason == ReasonRunError:
		return delayFailedStart
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
	// Container is the one that Err is about, where an attempt cannot be made because of
	// it.
	Container string
	// Image is the one that Err is about, where that is not its container's own but a
	// volume's.
	Image string
	// Unmade is true when it failed before anything was made.
	Unmade bool
	// GivenUp is true when it was ended, before anything was made, because the pod is
	// to end.
	GivenUp bool
	// EnvFiles is what ReadEnvFiles read. Never logged.
	EnvFiles map[resolve.EnvFile]resolve.Object[[]byte]
	At       time.Time
}

// put makes the map at its first entry: most pods never have one.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// Adopt takes over a pod that an earlier life of the process may have worked on.
// Of a deleted pod's grace it leaves what is left; a running container counts as
// hooked.
func (m *Memory) Adopt(in *Input, started time.Time) {
	v := newView(in)
	// The end of a pod of containers is reported while a sandbox may yet appear.
	if ended := Terminal(m.Status.Phase); !ended || !v.PodUnit() {
		m.adoptLost(v, started, ended)
	}
	m.adoptResize(in)
	if order := v.ordered(); order != nil && in.Pod.DeletionTimestamp != nil {
		// The API server's clock may not be ours: a moment is left in any case.
		left := max(in.Pod.DeletionTimestamp.Sub(in.Now), MinGrace)
		if deadline := in.Now.Add(left); deadline.Before(order.Deadline) {
			order.Deadline = deadline
		}
		m.Termination = order
	}
	for _, c := range v.all() {
		if cur := v.current(c.Name); postStart(c.Container) != nil && cur != nil && cur.State() == backend.Running {
			put(&m.Hooks, hookKey(c, cur, PostStart), HookState{Done: true})
		}
	}
}

// adoptLost assumes that the next attempt was launched, and containers that do
// not run were started, just before the process died: the launch is replayed, or
// waited out before the pod is gone; so are the starts, of which a pod that has
// ended has none.
func (m *Memory) adoptLost(v view, started time.Time, ended bool) {
	sandbox := v.sandbox()
	switch {
	case sandbox == nil:
		put(&m.Lost, v.nextAttempt(), started)
		if v.newest != nil || !v.everRan() {
			return // no start can land in what is launched next
		}
	case !v.Once && started.Sub(sandbox.CreatedAt) < v.Settle:
		put(&m.Lost, sandbox.Attempt, started) // a twin of its launch may be on its way still
	}
	if v.PodUnit() || ended {
		return
	}
	for _, c := range v.all() {
		if cur := v.current(c.Name); cur == nil || cur.State() != backend.Running {
			put(&m.LostStarts, c.Name, started)
		}
	}
}

// Forget drops what is known of containers that the remote no longer has.
func (m *Memory) Forget(facts []backend.PodFacts) {
	if len(m.Hooks)+len(m.ContainerStops)+len(m.Resized)+len(m.Started) == 0 {
		return
	}
	ids, stops := map[string]bool{}, map[string]bool{}
	for i := range facts {
		for _, c := range facts[i].Containers {
			ids[c.ID], stops[stopKey(&ContainerAttempt{ContainerFacts: c})] = true, true
		}
	}
	maps.DeleteFunc(m.Hooks, func(k HookKey, _ HookState) bool { return !ids[k.ID] })
	maps.DeleteFunc(m.Started, func(id string, _ bool) bool { return !ids[id] })
	maps.DeleteFunc(m.Resized, func(id string, _ Resized) bool { return !ids[id] })
	maps.DeleteFunc(m.ContainerStops, func(k string, _ StopRequest) bool { return !stops[k] })
}

// Record notes how an action ended.
func (m *Memory) Record(r Result) {
	m.know(r)
	switch a := r.Action.(type) {
	case Launch:
		m.recordLaunch(a, r)
	case StartContainer:
		m.recordStart(a, r)
	case StopPod:
		put(&m.Stops, a.Ref.Attempt, r.stopRequest(a.Deadline))
	case StopContainer:
		put(&m.ContainerStops, a.key, r.stopRequest(a.Deadline))
	case ResizeContainer:
		m.recordResize(a, r)
	case PlaceVolume:
		m.recordPlace(a, r)
	case RefreshVolumes:
		m.recordRefresh(a, r)
	case ReadEnvFiles:
		m.recordEnvFiles(a, r)
	case ClearVolumes:
		m.Cleared = Removal{Count: m.Cleared.Count + 1, Last: r.At, Proven: errors.Is(r.Err, backend.ErrNotFound)}
	case RemovePod:
		rm := Removal{Count: m.Removes[a.Ref.Attempt].Count + 1, Last: r.At}
		if errors.Is(r.Err, backend.ErrNotFound) {
			rm.Proven = true
			if a.Settles {
				delete(m.Lost, a.Ref.Attempt)
			}
		}
		put(&m.Removes, a.Ref.Attempt, rm)
	case RemoveContainer:
		m.recordRemoved(a, r)
	}
}

func (m *Memory) recordRemoved(a RemoveContainer, r Result) {
	if r.Err == nil || errors.Is(r.Err, backend.ErrNotFound) {
		delete(m.Failures, a.key())
		return
	}
	m.fail(a.key(), r)
}

func (m *Memory) recordPlace(a PlaceVolume, r Result) {
	if r.Err != nil {
		m.fail(a.key(), r)
		return
	}
	put(&m.Placed, a.Spec.Name, a.Spec.Hash)
	put(&m.Mounted, a.Spec.Name, true)
	delete(m.Failures, a.key())
}

// recordRefresh notes files that were swapped. An attempt that is gone no longer needs
// its files.
func (m *Memory) recordRefresh(a RefreshVolumes, r Result) {
	if r.Err != nil && !errors.Is(r.Err, backend.ErrNotFound) {
		m.fail(a.key(), r)
		return
	}
	for _, v := range a.Volumes {
		put(&m.Placed, v.Name, v.Hash)
	}
	delete(m.Failures, a.key())
}

// stopRequest is what a stop leaves. NotFound counts as stopped; a failed request is
// repeated soon.
func (r Result) stopRequest(deadline time.Time) StopRequest {
	if r.Err == nil || errors.Is(r.Err, backend.ErrNotFound) {
		return StopRequest{At: r.At, Deadline: deadline}
	}
	return StopRequest{At: r.At.Add(delayTransient.first - stopRepeat), Deadline: deadline}
}

// recordLaunch: a refusal before anything was made leaves nothing; after any
// other error the attempt may yet appear.
func (m *Memory) recordLaunch(a Launch, r Result) {
	if r.Err == nil {
		delete(m.Lost, a.Spec.Attempt)
		delete(m.Failures, podKey)
		clear(m.Mounted)
		for _, v := range a.Spec.Volumes {
			put(&m.Placed, v.Name, v.Hash)
		}
		if a.Restart {
			put(&m.Backoff, a.Loop, m.Backoff[a.Loop].next(a.Ended, r.At))
		}
		return
	}
	m.fail(podKey, r)
	if !definite(r.Err) && !backend.IsUnmade(r.Err) {
		put(&m.Lost, a.Spec.Attempt, r.At)
	}
	if a.Counts && errors.Is(r.Err, backend.ErrCapacity) {
		m.Try = LaunchTry{Attempt: a.Spec.Attempt, Count: a.Spec.Try + 1}
	}
}

// RefusedLaunch is the failure of a launch that can never succeed. Where only the sandbox
// is launched, a spec that cannot work is tried again, as a kubelet does.
func (m *Memory) RefusedLaunch(t backend.Traits) (f Failure, refused bool) {
	f = m.Failures[podKey]
	return f, f.Class == "Unsupported" || f.Class == "Invalid" && t.PodUnit()
}

// definite errors say that nothing was made.
func definite(err error) bool {
	return errors.Is(err, backend.ErrInvalid) || errors.Is(err, backend.ErrUnsupported) ||
		errors.Is(err, backend.ErrCapacity) || errors.Is(err, backend.ErrThrottled) ||
		errors.Is(err, backend.ErrDenied)
}

func (m *Memory) recordStart(a StartContainer, r Result) {
	name := a.Spec.Container.Name
	delete(m.EnvFiles, name)
	if r.Err == nil {
		delete(m.Failures, name)
		delete(m.LostStarts, name)
	} else {
		m.fail(name, r)
		if !definite(r.Err) && !backend.IsNotStarted(r.Err) && !r.Unmade {
			put(&m.LostStarts, name, r.At)
		}
	}
	if a.Restart && (r.Err == nil || r.Reason == ReasonCreateError || r.Reason == ReasonRunError) {
		put(&m.Backoff, a.Loop, m.Backoff[a.Loop].next(a.Ended, r.At))
	}
}

// fail notes a failure and how long to wait.
func (m *Memory) fail(key string, r Result) {
	before := m.Failures[key]
	f := Failure{
		Reason: r.Reason, Container: r.Container, Image: r.Image, Message: r.Err.Error(), Class: backend.Class(r.Err),
		At: r.At,
	}
	var ofContainer *backend.ContainerError
	if errors.As(r.Err, &ofContainer) { // it is the container's waiting message, not the launch's
		f.Message, f.Class = ofContainer.Error(), ""
	}
	last := before.Delay
	if before.Reason != f.Reason {
		last = 0
	}
	f.Delay = delaysAfter(r).after(last)
	put(&m.Failures, key, f)
}

// AdoptVolume notes a volume that an earlier life of the process placed.
func (m *Memory) AdoptVolume(v backend.VolumeFacts) { put(&m.Placed, v.Name, v.Hash) }

// EndHook notes that a lifecycle hook ended; err is nil for success.
func (m *Memory) EndHook(key HookKey, err error) {
	state := HookState{Done: true}
	if err != nil {
		state.Failed, state.Message = true, err.Error()
	}
	put(&m.Hooks, key, state)
}

// BeginResize notes that a resize was allocated: what failed of the one before is
// tried again at once.
func (m *Memory) BeginResize(pod *corev1.Pod, generation int64) {
	m.Resizing = &Resizing{Generation: generation}
	m.PodLags = true
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			delete(m.Failures, resizeKey(list[i].Name))
		}
	}
}

// recordResize notes what a container was asked to be held to. What failed may
// have happened all the same: it is asked again.
func (m *Memory) recordResize(a ResizeContainer, r Result) {
	put(&m.Resized, a.Ref.ID, Resized{
		Resources: *backend.WithPodLimits(a.Spec.Pod, &a.Spec.Container.Resources), Done: r.Err == nil,
	})
	if r.Err == nil {
		delete(m.Failures, a.key())
		m.PodLags = m.PodLags && !a.Last
		return
	}
	m.fail(a.key(), r)
	if m.Resizing != nil && r.Reason != "" {
		failed := *m.Resizing
		failed.Reason, failed.Message = r.Reason, r.Err.Error()
		m.Resizing = &failed
	}
}

// adoptResize takes over a resize that an earlier life of the process began.
func (m *Memory) adoptResize(in *Input) {
	if c := TrueCondition(&m.Status, corev1.PodResizeInProgress); c != nil && in.Resizes {
		m.Resizing = &Resizing{Generation: c.ObservedGeneration, Reason: c.Reason, Message: c.Message}
		m.PodLags = true
	}
}
