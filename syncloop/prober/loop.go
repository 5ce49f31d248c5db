package prober

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/prober/check"
)

// tries is how often a probe that errs is carried out (kubelet: maxProbeRetries).
const tries = 3

// answerTime is how long a remote that is within reach takes at most to say
// something about a pod.
const answerTime = time.Second

// maxMessage bounds, in bytes, the output kept of a failing probe: there may be
// ten thousands.
const maxMessage = 1 << 10

// firstDelay is how long to wait before a container's first probe: what is left of
// initialDelaySeconds. Containers that an earlier process left running would all
// be due at once: they are spread over a period, each to its own fixed place.
func firstDelay(uid types.UID, t Target, now, started time.Time, knownContainer bool) time.Duration {
	initial := time.Duration(t.Probe.InitialDelaySeconds) * time.Second
	if t.StartedAt.IsZero() || t.StartedAt.After(now) {
		return initial
	}
	every, age := period(t.Probe), now.Sub(t.StartedAt)
	delay := max(initial-age, 0)
	if age <= every || knownContainer || !t.StartedAt.Before(started) {
		return delay
	}
	return delay + spread(uid, t.Key, every)
}

// spread picks a moment within a period by hash.
func spread(uid types.UID, key Key, every time.Duration) time.Duration {
	h := fnv.New64a()
	for _, part := range [...]string{string(uid), key.Container, key.ID, string(key.Kind)} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return time.Duration(h.Sum64() % uint64(every))
}

// loop probes every period until ctx ends or there is nothing more to find out. A
// probe that takes longer than the period is followed by the next at once.
func (m *Manager) loop(ctx context.Context, p *podProbes, b *probe, first time.Duration) {
	due := time.Now().Add(first)
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if ctx.Err() != nil {
			return
		}
		every, goOn := m.once(ctx, p, b)
		if !goOn {
			return
		}
		due = due.Add(every)
		if now := time.Now(); due.Before(now) {
			due = now
		}
		timer.Reset(time.Until(due))
	}
}

// once probes once and records what it found. It returns the period and false
// when no more probes are wanted.
func (m *Manager) once(ctx context.Context, p *podProbes, b *probe) (time.Duration, bool) {
	pod, t := m.latest(p, b)
	start := time.Now()
	verdict, output, err := m.ask(ctx, pod.UID, t)
	if ctx.Err() != nil {
		return 0, false
	}
	m.tell(ctx, pod, t, verdict, output, err)
	if err != nil {
		// Nothing is known: counts neither way.
		return period(t.Probe), true
	}
	found := Success
	if verdict == check.Failure {
		found = Failure
	}
	goOn := m.record(ctx, p, b, found, output, time.Since(start))
	return period(t.Probe), goOn
}

// latest returns what the last Set gave.
func (m *Manager) latest(p *podProbes, b *probe) (*corev1.Pod, Target) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return p.pod, b.target
}

// ask carries out one probe. One without an answer is a failure only if it had all its
// time while the remote was within reach: the way may have come back at the end of it, so
// that what goes over a link is asked once more. The time of a command the remote itself
// measures.
func (m *Manager) ask(ctx context.Context, uid types.UID, t Target) (verdict check.Verdict, output string, err error) {
	times := 1
	if m.cfg.Linked && t.Probe.Exec == nil {
		times = 2
	}
	for range times {
		verdict, output, err = m.try(ctx, t)
		if verdict != check.Silence {
			return verdict, output, err
		}
		if err := m.unreachable(ctx, uid); err != nil {
			return check.Unknown, "", err
		}
	}
	return check.Failure, output, nil
}

// try carries out one probe, again if it errs. While the remote is out of reach that is in
// vain: the backend has retried already.
func (m *Manager) try(ctx context.Context, t Target) (verdict check.Verdict, output string, err error) {
	target := check.Target{Ref: t.Ref, PodIP: t.PodIP, Container: t.Spec}
	for range tries {
		verdict, output, err = m.check.Probe(ctx, target, t.Probe.ProbeHandler, timeout(t.Probe))
		if err == nil || ctx.Err() != nil || check.Unasked(err) {
			break
		}
	}
	return verdict, output, err
}

// unreachable returns an error if the remote itself does not answer: then a probe without
// an answer says nothing about the container. Any other error of the remote is an answer.
func (m *Manager) unreachable(ctx context.Context, uid types.UID) error {
	if m.cfg.Reach == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err := m.cfg.Reach(limited, uid)
	if err == nil || limited.Err() == nil && !check.Unasked(err) {
		return nil
	}
	return backend.Errorf(backend.ErrUnavailable, "the remote did not answer after a probe without an answer: %w", err)
}

// tell emits the kubelet's Events. An unreachable remote is the node's matter
// and no news of any pod.
func (m *Manager) tell(
	ctx context.Context, pod *corev1.Pod, t Target, verdict check.Verdict, output string, err error,
) {
	logger := log.G(ctx).WithFields(fields(pod, t))
	switch {
	case check.Unasked(err):
		logger.WithError(err).Debug("the remote cannot be reached for a probe")
	case err != nil:
		logger.WithError(err).Debug("probe errored")
		m.event(pod, t, "Unhealthy", fmt.Sprintf("%s probe errored and resulted in %s state: %v", t.Kind, verdict, err))
	case verdict == check.Warning:
		m.event(pod, t, "ProbeWarning", fmt.Sprintf("%s probe warning: %s", t.Kind, output))
	case verdict == check.Failure:
		logger.Debug("probe failed")
		m.event(pod, t, "Unhealthy", fmt.Sprintf("%s probe failed: %s", t.Kind, output))
	}
}

func (m *Manager) event(pod *corev1.Pod, t Target, reason, message string) {
	if m.cfg.Event != nil {
		m.cfg.Event(pod, t.Key.Container, corev1.EventTypeWarning, reason, message)
	}
}

// record counts a finding towards its threshold and returns false when no more
// are wanted. Changed is called after the new result can be read.
func (m *Manager) record(
	ctx context.Context, p *podProbes, b *probe, found Outcome, output string, took time.Duration,
) bool {
	m.mu.Lock()
	// Set and Forget cancel under the lock: a finding of an ended probe is void.
	if ctx.Err() != nil {
		m.mu.Unlock()
		return false
	}
	t := b.target
	p.observe(m.cfg.Metrics, t, found, took)
	changed := b.count(found, output)
	if b.done {
		b.cancel()
		b.cancel = nil
	}
	goOn, pod := !b.done, p.pod
	m.mu.Unlock()

	if changed {
		log.G(ctx).WithFields(fields(pod, t)).WithField("result", found.String()).Info("probe result changes")
		if m.cfg.Changed != nil {
			m.cfg.Changed(pod.UID)
		}
	}
	return goOn
}

// count adds a finding and returns whether the outcome changed by it.
func (b *probe) count(found Outcome, output string) (changed bool) {
	if b.last != found {
		b.last, b.run = found, 0
	}
	b.run++
	if b.run < threshold(b.target.Probe, found) {
		return false
	}
	changed = b.result.Outcome != found
	b.result = Result{Outcome: found}
	if found == Failure {
		b.result.Message = shorten(output)
	}
	b.done = final(b.target.Kind, found)
	return changed
}

// shorten copies the start of an output, so that the rest is not kept alive.
func shorten(s string) string {
	return strings.ToValidUTF8(strings.Clone(s[:min(len(s), maxMessage)]), "")
}
