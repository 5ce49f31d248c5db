package intask

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// kind is a kind of probe, as the kubelet writes it.
type kind string

const (
	startup   kind = "Startup"
	liveness  kind = "Liveness"
	readiness kind = "Readiness"
)

// verdict is what one check found.
type verdict int

const (
	unknown verdict = iota
	success
	failed
)

// tries is how often a probe that errs is carried out (kubelet: maxProbeRetries).
const tries = 3

// The API's defaults (SetDefaults_Probe).
const (
	defaultPeriod           = 10
	defaultTimeout          = 1
	defaultSuccessThreshold = 1
	defaultFailureThreshold = 3
)

func orDefault(n, otherwise int32) int32 {
	if n <= 0 {
		return otherwise
	}
	return n
}

func (p *Probe) period() time.Duration {
	return time.Duration(orDefault(p.Period, defaultPeriod)) * time.Second
}

func (p *Probe) timeout() time.Duration {
	return time.Duration(orDefault(p.Timeout, defaultTimeout)) * time.Second
}

// threshold is how often in a row a finding must come to count.
func (p *Probe) threshold(v verdict) int {
	if v == failed {
		return int(orDefault(p.FailureThreshold, defaultFailureThreshold))
	}
	return int(orDefault(p.SuccessThreshold, defaultSuccessThreshold))
}

// finding is an outcome of a probe, after its thresholds.
type finding struct {
	kind    kind
	verdict verdict
	// message is the kubelet's, of a failure: "Liveness probe failed: …".
	message string
}

// counter counts findings towards their thresholds.
type counter struct {
	probe   *Probe
	last    verdict
	run     int
	outcome verdict
}

// count adds one, and returns whether the outcome is another by it.
func (c *counter) count(v verdict) (changed bool) {
	if c.last != v {
		c.last, c.run = v, 0
	}
	c.run++
	if c.run < c.probe.threshold(v) || c.outcome == v {
		return false
	}
	c.outcome = v
	return true
}

// prober runs the probes of one container that has started.
type prober struct {
	spec *Spec
	// check carries out a handler once. An error means that nothing was found out.
	check func(ctx context.Context, h Handler, timeout time.Duration) (verdict, string, error)
	// found is told each change of an outcome, from several goroutines.
	found func(finding)
}

// run probes until all ends. Liveness and readiness begin when the startup probe
// has succeeded, at once if they are due. When ending begins, startup and liveness
// stop (kubelet: StopLivenessAndStartup).
func (p *prober) run(all, ending context.Context, started time.Time) {
	if p.spec.Startup != nil && p.loop(ending, startup, p.spec.Startup, started) != success {
		return
	}
	var both sync.WaitGroup
	if p.spec.Liveness != nil {
		both.Go(func() { p.loop(ending, liveness, p.spec.Liveness, started) })
	}
	if p.spec.Readiness != nil {
		both.Go(func() { p.loop(all, readiness, p.spec.Readiness, started) })
	}
	both.Wait()
}

// loop probes every period until ctx ends or there is nothing more to find out, and
// returns what it found last. A probe that takes longer than the period is followed
// by the next at once.
func (p *prober) loop(ctx context.Context, k kind, probe *Probe, started time.Time) verdict {
	count := counter{probe: probe}
	due := started.Add(time.Duration(probe.InitialDelay) * time.Second)
	if now := time.Now(); due.Before(now) {
		due = now
	}
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return count.outcome
		case <-timer.C:
		}
		v, output := p.ask(ctx, probe)
		if ctx.Err() != nil {
			return count.outcome
		}
		if v != unknown && count.count(v) {
			f := finding{kind: k, verdict: v}
			if v == failed {
				f.message = fmt.Sprintf("%s probe failed: %s", k, output)
			}
			p.found(f)
			if k == startup || k == liveness && v == failed {
				return v
			}
		}
		due = due.Add(probe.period())
		if now := time.Now(); due.Before(now) {
			due = now
		}
		timer.Reset(time.Until(due))
	}
}

// ask carries out a probe, again if it errs.
func (p *prober) ask(ctx context.Context, probe *Probe) (verdict, string) {
	for range tries {
		v, output, err := p.check(ctx, probe.Handler, probe.timeout())
		if err == nil || ctx.Err() != nil {
			return v, output
		}
	}
	return unknown, ""
}
