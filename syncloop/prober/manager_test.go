package prober

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/burstlet/burstlet/backend"
)

// after lets virtual time pass and all probes settle.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestSetWithEqualTargetsDisturbsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, good)
		pod, targets := thePod(), []Target{execTarget(Readiness, nil), execTarget(Liveness, nil)}
		r.set(pod, targets)
		for range 7 {
			after(3 * time.Second)
			r.set(pod, targets)
		}
		want := []time.Duration{0, 0, 10 * time.Second, 10 * time.Second, 20 * time.Second, 20 * time.Second}
		if got := r.remote.times(); !slices.Equal(got, want) {
			t.Errorf("probed at %v, want %v", got, want)
		}
		if n := testing.AllocsPerRun(100, func() { r.set(pod, targets) }); n != 0 {
			t.Errorf("an equal Set allocates %v times", n)
		}
	})
}

func TestTheLatestTargetIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var dialled []string
		r := newRig(t, Config{Dial: dialFunc(func(_ context.Context, _ backend.Ref, address string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			dialled = append(dialled, address)
			return nil, net.ErrClosed
		})})
		expect := func(want ...string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(dialled, want) {
				t.Errorf("dialled %q, want %q", dialled, want)
			}
		}
		target := execTarget(Readiness, func(p *corev1.Probe) {
			p.ProbeHandler = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}
		})
		r.set(thePod(), []Target{target})
		after(time.Second)
		target.PodIP = "10.0.0.2"
		r.set(thePod(), []Target{target})
		after(8 * time.Second)
		expect("10.0.0.1:80") // a new address is no reason to begin anew
		after(time.Second)
		expect("10.0.0.1:80", "10.0.0.2:80")
	})
}

func TestAProbeNotNamedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, good)
		live, ready := execTarget(Liveness, nil), execTarget(Readiness, nil)
		r.set(thePod(), []Target{live, ready})
		after(0)
		// behaviour 1: while a pod terminates readiness alone is probed.
		r.set(thePod(), []Target{ready})
		after(10 * time.Second)
		if got := r.remote.times(); len(got) != 3 {
			t.Errorf("probed at %v", got)
		}
		if r.outcome(live.Key) != Success || r.outcome(ready.Key) != Success {
			t.Errorf("results of a container that is named are lost: %v", r.Results("u1"))
		}
		r.set(thePod(), nil)
		after(time.Minute)
		if got := r.remote.times(); len(got) != 3 {
			t.Errorf("probed at %v after the end", got)
		}
		if got := r.Results("u1"); len(got) != 0 {
			t.Errorf("results of a container that is gone: %v", got)
		}
	})
}

func TestAProbeNamedAgainGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, good)
		live, ready := execTarget(Liveness, nil), execTarget(Readiness, nil)
		for _, targets := range [][]Target{{live, ready}, {ready}, {live, ready}} {
			r.set(thePod(), targets)
			after(time.Second)
		}
		want := []time.Duration{0, 0, 2 * time.Second}
		if got := r.remote.times(); !slices.Equal(got, want) {
			t.Errorf("probed at %v, want %v", got, want)
		}
	})
}

func TestARestartedContainerIsProbedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, bad, bad, bad, good)
		first := execTarget(Liveness, nil)
		r.set(thePod(), []Target{first})
		after(time.Hour)
		if got := r.remote.times(); len(got) != 3 || r.outcome(first.Key) != Failure {
			t.Fatalf("a failed container is still probed: %v, %v", got, r.Results("u1"))
		}
		second := execTarget(Liveness, nil)
		second.ID, second.Ref.ID = "c2", "c2"
		r.set(thePod(), []Target{second})
		after(0)
		if got := r.Results("u1"); len(got) != 1 || got[second.Key].Outcome != Success {
			t.Errorf("got %v", got)
		}
		if ref := r.remote.refs[3]; ref.ID != "c2" {
			t.Errorf("probed %q", ref.ID)
		}
	})
}

func TestForgetEndsAndDropsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		r := newRig(t, Config{Metrics: NewMetrics(registry)}, good, bad)
		r.set(thePod(), []Target{execTarget(Readiness, nil)})
		after(10 * time.Second)
		want := `
			# HELP prober_probe_total Cumulative number of a liveness, readiness or startup probe for a container by result.
			# TYPE prober_probe_total counter
			prober_probe_total{container="web",namespace="ns",pod="p",pod_uid="u1",probe_type="Readiness",result="failed"} 1
			prober_probe_total{container="web",namespace="ns",pod="p",pod_uid="u1",probe_type="Readiness",result="successful"} 1
		`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "prober_probe_total"); err != nil {
			t.Error(err)
		}
		if n, err := testutil.GatherAndCount(registry, "prober_probe_duration_seconds"); n != 1 || err != nil {
			t.Errorf("%d durations, %v", n, err)
		}
		r.Forget("u1")
		r.Wait()
		if n, err := testutil.GatherAndCount(registry); n != 0 || err != nil {
			t.Errorf("%d series of a pod that is gone, %v", n, err)
		}
		if got := r.Results("u1"); got != nil {
			t.Errorf("results %v", got)
		}
		r.Forget("u1")
	})
}

func TestWhatAnEndedProbeFindsIsVoid(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"not named": func(r *rig) { r.set(thePod(), nil) },
		"forgotten": func(r *rig) { r.Forget("u1") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Config{}, answer{code: 1, takes: time.Second})
				r.set(thePod(), []Target{execTarget(Readiness, func(p *corev1.Probe) { p.FailureThreshold = 1 })})
				after(time.Second / 2)
				end(r)
				r.Wait()
				if changes, events := r.told(); len(changes)+len(events) != 0 {
					t.Errorf("told %v %v", changes, events)
				}
			})
		})
	}
}

func TestProbesEndWithTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, good)
		ctx, cancel := context.WithCancel(t.Context())
		r.Set(ctx, thePod(), []Target{execTarget(Readiness, nil)})
		after(time.Second)
		cancel()
		r.Wait()
		after(time.Minute)
		if got := r.remote.times(); len(got) != 1 {
			t.Errorf("probed at %v", got)
		}
	})
}

func TestAProbeWithoutMeansStaysUnknown(t *testing.T) {
	for name, change := range map[string]func(*Target){
		"no Exec":    func(*Target) {},
		"no Dial":    func(t *Target) { t.Probe.ProbeHandler = corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 1}} },
		"no handler": func(t *Target) { t.Probe.ProbeHandler = corev1.ProbeHandler{} },
		"no probe":   func(t *Target) { t.Probe = nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Config{})
				var lines bytes.Buffer
				logger := logrus.New()
				logger.SetOutput(&lines)
				ctx := log.WithLogger(t.Context(), logrus.NewEntry(logger))
				target := execTarget(Readiness, nil)
				change(&target)
				for range 3 {
					r.Set(ctx, thePod(), []Target{target})
					after(time.Minute)
				}
				if r.outcome(target.Key) != Unknown {
					t.Errorf("got %v", r.Results("u1"))
				}
				if n := strings.Count(lines.String(), "no means for this probe"); n != 1 {
					t.Errorf("said %d times:\n%s", n, lines.String())
				}
			})
		})
	}
}

func TestPodsWithoutProbesLeaveNothing(t *testing.T) {
	m := New(Config{})
	m.Set(t.Context(), thePod(), nil)
	if len(m.pods) != 0 || m.Results("u1") != nil {
		t.Error("something is kept")
	}
}
