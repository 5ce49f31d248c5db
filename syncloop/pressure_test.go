package syncloop_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/syncloop/eviction"
	"github.com/burstlet/burstlet/syncloop/imagegc"
)

// evicting is a policy of these settings.
func evicting(t *testing.T, s eviction.Settings) *eviction.Policy {
	t.Helper()
	thresholds, errs := eviction.Parse(nil, s)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return &eviction.Policy{
		Thresholds: thresholds, MaxPodGracePeriod: 10 * time.Second,
		PressureTransitionPeriod: eviction.DefaultPressureTransitionPeriod,
	}
}

// pressed runs f in virtual time on a host of 1 GiB, of which it needs 256 MiB itself.
func pressed(t *testing.T, s eviction.Settings, f func(t *testing.T, a *api, script *fault.Script)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, script := newAPI(t), &fault.Script{}
		a.eviction = evicting(t, s)
		a.gc = &imagegc.Policy{HighThresholdPercent: 100, MinAge: 2 * time.Minute}
		a.remote = sim.New(sim.Config{Record: true, Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("1Gi"),
			corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("10Gi"),
		}})
		a.start(fault.Wrap(a.remote.Backend(), script))
		defer func() { a.stop() }()
		time.Sleep(time.Second)
		f(t, a, script)
		a.audit()
	})
}

// uses is a command line that needs so much memory.
func uses(memory string) []string {
	return []string{"sh", "-c", "use memory=" + memory + "; sleep infinity"}
}

func requests(name corev1.ResourceName, q string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{name: resource.MustParse(q)}
	}
}

func withPriority(n int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Priority = &n }
}

// conditions are the pressure conditions of the node, as "MemoryPressure DiskPressure".
func (a *api) conditions() string {
	found, known := a.engine.Pressure()
	if !known {
		return "unknown"
	}
	return strings.Trim(fmt.Sprint(found), "[]")
}

func (a *api) wantConditions(want string) {
	a.t.Helper()
	if got := a.conditions(); got != want {
		a.t.Errorf("conditions %q, want %q", got, want)
	}
}

// TestMemoryPressure: the pod furthest above what it requests goes, and no other once the
// host has room again; what users are told is the kubelet's; nothing of it stays there.
func TestMemoryPressure(t *testing.T) {
	hard := eviction.Settings{Hard: map[string]string{"memory.available": "200Mi"}}
	pressed(t, hard, func(t *testing.T, a *api, _ *fault.Script) {
		a.wantConditions("")
		a.create("modest", "u1", "Always", requests(corev1.ResourceMemory, "400Mi"), uses("100Mi")...)
		a.create("greedy", "u2", "Always", nil, uses("250Mi")...)
		a.create("important", "u3", "Always", withPriority(10), uses("200Mi")...)
		a.create("critical", "u4", "Always", withPriority(2_000_000_000), uses("100Mi")...)
		time.Sleep(25 * time.Second)
		a.wantConditions("MemoryPressure")
		for _, name := range []string{"modest", "important", "critical"} {
			a.phase(name, corev1.PodRunning)
		}
		a.phase("greedy", corev1.PodFailed)
		const message = "The node was low on resource: memory. Threshold quantity: 200Mi, available: 118Mi. " +
			"Container a was using 250Mi, request is 0, has larger consumption of memory. "
		s := a.get("greedy").Status
		if s.Reason != "Evicted" || s.Message != message {
			t.Errorf("%s: %q", s.Reason, s.Message)
		}
		if c := conditionOf(&s, corev1.DisruptionTarget); c == nil || c.Status != corev1.ConditionTrue ||
			c.Reason != corev1.PodReasonTerminationByKubelet || c.Message != message {
			t.Errorf("DisruptionTarget %+v", c)
		}
		if end := s.ContainerStatuses[0].State.Terminated; end == nil {
			t.Errorf("its container's end is forgotten with it: %+v", s.ContainerStatuses[0])
		}
		if got := a.told("greedy", "Evicted"); !slices.Equal(got, []string{"greedy Evicted " + message}) {
			t.Errorf("Events %q", got)
		}
		if want := []map[string]string{{
			"starved_resource": "memory", "offending_containers": "a", "offending_containers_usage": "250Mi",
		}}; !reflect.DeepEqual(a.annotated, want) {
			t.Errorf("annotations %q", a.annotated)
		}
		if want := []string{"Warning EvictionThresholdMet Attempting to reclaim memory"}; !slices.Equal(a.nodeEvents, want) {
			t.Errorf("Events of the node %q", a.nodeEvents)
		}
		if n := a.remotePods(); n != 3 {
			t.Errorf("%d pods are on the host, want the three that run", n)
		}
		time.Sleep(5 * time.Minute)
		a.wantConditions("")
		a.phase("important", corev1.PodRunning)
	})
}

func conditionOf(s *corev1.PodStatus, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == kind {
			return &s.Conditions[i]
		}
	}
	return nil
}

// TestOneByOne: nobody else is evicted while the one before may yet make room; one that does
// not go is waited for for half a minute, and is then the first again.
func TestOneByOne(t *testing.T) {
	hard := eviction.Settings{Hard: map[string]string{"memory.available": "600Mi"}}
	pressed(t, hard, func(t *testing.T, a *api, script *fault.Script) {
		for i := range 3 {
			a.create(fmt.Sprint("p", i), types.UID(fmt.Sprint("u", i)), "Always", nil, uses(fmt.Sprintf("%dMi", 90-i))...)
		}
		script.Add(fault.PodsStop, 40, fault.Fault{Err: backend.Errorf(backend.ErrUnavailable, "down")})
		time.Sleep(32 * time.Second)
		if got := a.told("p0", "Evicted"); len(got) != 1 {
			t.Errorf("Events %q", got)
		}
		if got := append(a.told("p1", "Evicted"), a.told("p2", "Evicted")...); len(got) > 0 {
			t.Errorf("the first has not gone, and others are evicted: %q", got)
		}
		if n := script.Calls(fault.SignalsSignals); n > 8 {
			t.Errorf("the host was measured %d times in half a minute", n)
		}
		time.Sleep(3 * time.Minute)
		for i, want := range []corev1.PodPhase{corev1.PodFailed, corev1.PodFailed, corev1.PodRunning} {
			a.phase(fmt.Sprint("p", i), want)
		}
	})
}

// TestDiskPressure: what nobody needs goes first, and if that is enough, no pod.
func TestDiskPressure(t *testing.T) {
	hard := eviction.Settings{Hard: map[string]string{"imagefs.available": "10%"}}
	for name, tt := range map[string]struct {
		// free is what is left, by whether pods that have ended and images are there.
		free    func(ended, images int) uint64
		evicted bool
		left    int
	}{
		"containers that have ended are enough": {func(ended, _ int) uint64 { return uint64(200 - 150*ended) }, false, 1},
		"unused images are enough":              {func(_, images int) uint64 { return uint64(150 - 20*images) }, false, 1},
		"neither is":                            {func(int, int) uint64 { return 50 }, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pressed(t, hard, func(t *testing.T, a *api, _ *fault.Script) {
				b := a.remote.Backend()
				for _, image := range []string{"unused-1", "unused-2"} {
					if _, err := b.Images.Pull(t.Context(), image, nil); err != nil {
						t.Fatal(err)
					}
				}
				a.create("done", "u1", "Never", nil, "true")
				a.create("runs", "u2", "Always", nil, "sleep", "infinity")
				time.Sleep(4 * time.Minute) // until images are old enough to go
				a.phase("done", corev1.PodSucceeded)
				a.wantConditions("")
				a.remote.Squeeze(func(f *backend.SignalFacts) {
					facts, images := a.remote.Facts(), 0
					ended := slices.ContainsFunc(facts, func(p backend.PodFacts) bool { return p.UID == "u1" })
					if list, err := b.Store.List(t.Context()); err == nil {
						images = len(list)
					}
					n := 0
					if ended {
						n = 1
					}
					f.ImageFS = &backend.Level{Available: tt.free(n, images), Capacity: 1000}
				})
				time.Sleep(30 * time.Second)
				a.wantConditions("DiskPressure")
				if got := len(a.told("runs", "Evicted")) > 0; got != tt.evicted {
					t.Errorf("evicted %v, want %v", got, tt.evicted)
				}
				if n := a.remotePods(); n != tt.left {
					t.Errorf("%d pods are on the host, want %d", n, tt.left)
				}
				a.phase("done", corev1.PodSucceeded)
				a.wantNodeEvent("Warning EvictionThresholdMet Attempting to reclaim ephemeral-storage")
			})
		})
	}
}

func (a *api) wantNodeEvent(want string) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.nodeEvents, want) {
		a.t.Errorf("Events of the node %q, want %q", a.nodeEvents, want)
	}
}

// TestSoftThreshold: it is acted on once it was met for long enough, and the pod gets its own
// grace, or as much as is configured.
func TestSoftThreshold(t *testing.T) {
	soft := eviction.Settings{
		Soft: map[string]string{"nodefs.available": "1Gi"}, SoftGracePeriod: map[string]string{"nodefs.available": "1m"},
	}
	pressed(t, soft, func(t *testing.T, a *api, _ *fault.Script) {
		a.create("p", "u1", "Always", nil, "sh", "-c", "trap '' TERM; sleep infinity")
		time.Sleep(5 * time.Second)
		a.remote.Squeeze(func(f *backend.SignalFacts) { f.NodeFS.Available = 1 << 20 })
		time.Sleep(50 * time.Second)
		a.wantConditions("DiskPressure")
		a.phase("p", corev1.PodRunning)
		time.Sleep(30 * time.Second)
		end := a.get("p").Status.ContainerStatuses[0].State.Terminated
		a.phase("p", corev1.PodFailed)
		var graces []time.Duration
		for _, e := range a.remote.History() {
			if e.Kind == sim.Stopped {
				graces = append(graces, e.Grace)
			}
		}
		if len(graces) == 0 || graces[0] != 10*time.Second {
			t.Errorf("asked to stop within %v, want 10 s", graces)
		}
		if end == nil || end.ExitCode != 137 {
			t.Errorf("ended %+v", end)
		}
	})
}

// TestHostIsNotMeasured: what is not known of the host evicts nobody, and changes no
// condition.
func TestHostIsNotMeasured(t *testing.T) {
	hard := eviction.Settings{Hard: map[string]string{"memory.available": "200Mi"}}
	pressed(t, hard, func(t *testing.T, a *api, script *fault.Script) {
		a.wantConditions("")
		a.remote.Squeeze(func(f *backend.SignalFacts) { f.Memory.Available = 1 })
		time.Sleep(10 * time.Second)
		a.wantConditions("MemoryPressure")
		down := fault.Fault{Err: backend.Errorf(backend.ErrUnavailable, "down")}
		script.Add(fault.SignalsSignals, 60, down)
		a.remote.Squeeze(nil)
		time.Sleep(9 * time.Minute)
		a.wantConditions("MemoryPressure")
		if n := script.Calls(fault.StatsStats); n > 2 {
			t.Errorf("pods were measured %d times for a host that nobody knows", n)
		}
		time.Sleep(2 * time.Minute)
		a.wantConditions("")
	})
}

// TestPressureAfterARestart: it is not known before the host was measured, at once.
func TestPressureAfterARestart(t *testing.T) {
	hard := eviction.Settings{Hard: map[string]string{"pid.available": "10"}}
	pressed(t, hard, func(t *testing.T, a *api, script *fault.Script) {
		a.remote.Squeeze(func(f *backend.SignalFacts) { f.PIDs.Available = 9 })
		time.Sleep(10 * time.Second)
		a.wantConditions("PIDPressure")
		a.stop()
		script.Add(fault.SignalsSignals, 1, fault.Fault{Err: backend.Errorf(backend.ErrUnavailable, "down")})
		a.start(fault.Wrap(a.remote.Backend(), script))
		time.Sleep(time.Second)
		a.wantConditions("unknown")
		time.Sleep(10 * time.Second)
		a.wantConditions("PIDPressure")
	})
}

// TestAdmissionUnderPressure: pods that request nothing are refused for want of memory, and
// all but critical ones for anything else.
func TestAdmissionUnderPressure(t *testing.T) {
	hard := eviction.Settings{Hard: map[string]string{"memory.available": "1Mi", "nodefs.available": "1%"}}
	pressed(t, hard, func(t *testing.T, a *api, _ *fault.Script) {
		a.remote.Squeeze(func(f *backend.SignalFacts) { f.Memory.Available = 1 })
		time.Sleep(10 * time.Second)
		a.remote.Squeeze(nil)
		a.create("best-effort", "u1", "Always", nil, "sleep", "infinity")
		a.create("burstable", "u2", "Always", requests(corev1.ResourceMemory, "1Mi"), "sleep", "infinity")
		time.Sleep(10 * time.Second)
		a.phase("burstable", corev1.PodRunning)
		a.phase("best-effort", corev1.PodFailed)
		const why = "The node had condition: [MemoryPressure]. "
		if s := a.get("best-effort").Status; s.Reason != "Evicted" || s.Message != "Pod was rejected: "+why {
			t.Errorf("%s: %q", s.Reason, s.Message)
		}
		if got := a.told("best-effort", "Evicted"); !slices.Equal(got, []string{"best-effort Evicted " + why}) {
			t.Errorf("Events %q", got)
		}
		a.remote.Squeeze(func(f *backend.SignalFacts) { f.NodeFS.Available = 1 })
		time.Sleep(10 * time.Second)
		a.remote.Squeeze(nil)
		a.create("burstable-2", "u3", "Always", requests(corev1.ResourceMemory, "1Mi"), "sleep", "infinity")
		a.create("critical", "u4", "Always", withPriority(2_000_000_000), "sleep", "infinity")
		time.Sleep(10 * time.Second)
		a.phase("burstable-2", corev1.PodFailed)
		a.phase("critical", corev1.PodRunning)
	})
}

// TestNobodyMeasuresTheHostForNothing: without thresholds, or where pods share no host.
func TestNobodyMeasuresTheHostForNothing(t *testing.T) {
	for name, podUnit := range map[string]bool{"no thresholds": false, "no host": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, script := newAPI(t), &fault.Script{}
				a.remote = sim.New(sim.Config{PodUnit: podUnit})
				if a.eviction = evicting(t, eviction.Settings{}); podUnit {
					a.eviction = evicting(t, eviction.Settings{Hard: eviction.DefaultHard()})
				}
				a.start(fault.Wrap(a.remote.Backend(), script))
				defer func() { a.stop() }()
				a.create("p", "u1", "Always", nil, "sleep", "infinity")
				time.Sleep(time.Minute)
				a.phase("p", corev1.PodRunning)
				a.wantConditions("")
				if n := script.Calls(fault.SignalsSignals) + script.Calls(fault.StatsStats); n > 0 {
					t.Errorf("measured %d times", n)
				}
			})
		})
	}
}
