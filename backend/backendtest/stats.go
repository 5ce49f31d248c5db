package backendtest

import (
	"context"
	"fmt"
	"time"

	"github.com/burstlet/burstlet/backend"
)

// measure returns what Stats says of the host and of one attempt; nil when it
// says nothing of the attempt. Whatever it says must be possible.
func (s *suite) measure(ref backend.Ref) (host *backend.Usage, pod *backend.PodStats) {
	s.Helper()
	asked := time.Now()
	facts, err := s.Stats.Stats(s.Context())
	s.must(err)
	if facts.Node != nil {
		s.plausible("the host", asked, *facts.Node)
	}
	for i := range facts.Pods {
		p := &facts.Pods[i]
		if p.UID != ref.UID || p.Attempt != ref.Attempt {
			continue
		}
		if pod != nil {
			s.Errorf("attempt %d of pod %s is measured twice", p.Attempt, p.UID)
		}
		pod = p
		s.plausible("the pod", asked, p.Usage)
		for _, c := range p.Containers {
			s.plausible("container "+c.Name, asked, c.Usage)
		}
	}
	return facts.Node, pod
}

// plausible reports a measurement that cannot be: its times are in the caller's
// clock, and a working set is a part of what is used.
func (s *suite) plausible(what string, asked time.Time, u backend.Usage) {
	s.Helper()
	if ahead, age := time.Until(u.Time), asked.Sub(u.Time); ahead > s.f.Slack || age > maxAge+s.f.Slack {
		s.Errorf("%s was measured at %v, %v before it was asked for", what, u.Time, age)
	}
	if u.StartTime.IsZero() || u.StartTime.After(u.Time.Add(s.f.Slack)) {
		s.Errorf("%s counts since %v, and was measured at %v", what, u.StartTime, u.Time)
	}
	if set, use := u.MemoryWorkingSet, u.MemoryUsage; set != nil && use != nil && *set > *use {
		s.Errorf("%s: the working set of %d bytes is more than the %d that are used", what, *set, *use)
	}
}

// maxAge is how old a measurement may be when it is asked for: the kubelet's own
// period is 10 s.
const maxAge = 30 * time.Second

// counters are the sums that never go back, by name.
func counters(u backend.Usage) map[string]*uint64 {
	sums := map[string]*uint64{
		"CPU": u.CPUCoreNanoSeconds, "page faults": u.PageFaults, "major page faults": u.MajorPageFaults,
	}
	for _, n := range u.Network {
		sums[n.Name+" received"], sums[n.Name+" sent"] = n.RxBytes, n.TxBytes
	}
	return sums
}

// forward reports counters and times that went back.
func (s *suite) forward(what string, before, now backend.Usage) {
	s.Helper()
	if now.Time.Before(before.Time) {
		s.Errorf("%s: measured at %v, and before that at %v", what, now.Time, before.Time)
	}
	if !now.StartTime.Equal(before.StartTime) {
		s.Errorf("%s: counts since %v, and before that since %v", what, now.StartTime, before.StartTime)
	}
	old := counters(before)
	for name, sum := range counters(now) {
		if was := old[name]; was != nil && (sum == nil || *sum < *was) {
			s.Errorf("%s: the counter of %s went back from %d to %s", what, name, *was, number(sum))
		}
	}
}

func number(n *uint64) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprint(*n)
}

// complete is nil when exactly the app container c0 of a pod is measured, with
// its CPU and memory.
func complete(p *backend.PodStats) error {
	if p == nil {
		return fmt.Errorf("the pod is not measured")
	}
	if len(p.Containers) != 1 || p.Containers[0].Name != "c0" {
		return fmt.Errorf("containers %+v, want c0, which runs", p.Containers)
	}
	c := p.Containers[0]
	if c.CPUCoreNanoSeconds == nil || c.MemoryWorkingSet == nil || *c.MemoryWorkingSet == 0 {
		return fmt.Errorf("CPU or memory of %s is unknown", c.Name)
	}
	return nil
}

// statsOfRunning: what runs is measured under its names, what has ended is not,
// and all that is measured is in the listing of this node.
func statsOfRunning(s *suite) {
	pod := s.mixed()
	ref := s.listed(pod.UID)[0].Ref
	var measured *backend.PodStats
	s.eventually("the pod is measured", func() error {
		_, measured = s.measure(ref)
		return complete(measured)
	})
	if measured.Namespace != ref.Namespace || measured.Name != ref.Name {
		s.Errorf("measured as %s/%s, it is %s/%s", measured.Namespace, measured.Name, ref.Namespace, ref.Name)
	}
	c := measured.Containers[0]
	started := s.facts(s.listed(pod.UID)[0], "c0", c.Attempt).StartedAt
	if off := c.StartTime.Sub(started); off.Abs() > maxStart+s.f.Slack {
		s.Errorf("c0 counts since %v, and was started at %v", c.StartTime, started)
	}
	s.eventually("only what is listed is measured", s.measuredIsListed)
}

// maxStart is how far the beginning of counting may be from a start: what counts
// may have to be started first, on a busy machine.
const maxStart = 3 * time.Minute

// measuredIsListed is nil when each pod that is measured is one of the listing's.
// Other checks may share the remote, so that pods come and go meanwhile.
func (s *suite) measuredIsListed() error {
	facts, err := s.Stats.Stats(s.Context())
	s.must(err)
	all, err := s.Pods.List(s.Context())
	s.must(err)
	known := map[string]bool{}
	key := func(r backend.Ref) string { return fmt.Sprintf("%s attempt %d", r.UID, r.Attempt) }
	for _, f := range all {
		known[key(f.Ref)] = true
	}
	for _, p := range facts.Pods {
		if !known[key(p.Ref)] {
			return fmt.Errorf("pod %s is measured and not listed", key(p.Ref))
		}
	}
	return nil
}

// statsCounters: counters and times never go back, those of the host also not
// when a pod goes.
func statsCounters(s *suite) {
	ref := s.run(s.pod(untilTerm), 0)
	s.awaitRunning(ref)
	var host *backend.Usage
	var pod *backend.PodStats
	s.eventually("the pod is measured", func() error {
		host, pod = s.measure(ref)
		return complete(pod)
	})
	step := func(after string) {
		s.Helper()
		nextHost, next := s.measure(ref)
		if host != nil && nextHost != nil {
			s.forward("the host, after "+after, *host, *nextHost)
		}
		if pod != nil && next != nil {
			s.forward("the pod, after "+after, pod.Usage, next.Usage)
			s.forward("the container, after "+after, pod.Containers[0].Usage, next.Containers[0].Usage)
		}
		host, pod = nextHost, next
	}
	for range 5 {
		s.pause(settle)
		step("a moment")
		if err := complete(pod); err != nil {
			s.Fatalf("after a moment: %v", err)
		}
	}
	s.removed(s.Context(), ref)
	step("the pod's removal")
}

// statsOfStopped: what has ended is not measured any more.
func statsOfStopped(s *suite) {
	ref := s.run(s.pod(untilTerm), 0)
	s.awaitReady(ref)
	s.eventually("the pod is measured", func() error {
		_, p := s.measure(ref)
		return complete(p)
	})
	s.must(s.Pods.Stop(s.Context(), ref, s.longGrace()))
	s.awaitExited(ref)
	absent := func() error {
		if _, p := s.measure(ref); p != nil && len(p.Containers) > 0 {
			return fmt.Errorf("measured: %+v", *p)
		}
		return nil
	}
	s.eventually("the stopped pod is not measured", absent)
	s.removed(s.Context(), ref)
	s.eventually("the removed pod is not measured", absent)
}

func statsContext(s *suite) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	facts, err := s.Stats.Stats(ctx)
	switch class := backend.Class(err); class {
	case "Unavailable", "Transient":
	default:
		s.Errorf("error of class %q (%v), want Unavailable or none; facts %+v", class, err, facts)
	}
}
