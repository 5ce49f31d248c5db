package syncloop_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
	"github.com/burstlet/burstlet/backend/sim"
)

// smallDir mounts an emptyDir of at most 10 bytes at /v. Its limit has no text yet, as most from
// the API have not.
func smallDir(pod *corev1.Pod) {
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: resource.NewQuantity(10, resource.DecimalSI)},
	}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
}

func (a *api) told(name, reason string) (events []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.events {
		if strings.HasPrefix(e, name+" "+reason+" ") {
			events = append(events, e)
		}
	}
	return events
}

// abouts names what each Event is about, and its reason: pod/container reason.
func (a *api) abouts() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.eventsOf)
}

// TestEviction: a pod that is over a limit on local storage fails as Evicted and its
// containers get a second; one below it, and a critical one, run on.
func TestEviction(t *testing.T) {
	greedy := []string{"sh", "-c", "sleep 30; echo 0123456789 > /v/f; trap '' TERM; sleep infinity"}
	each(t, sim.Config{Files: true}, func(t *testing.T, a *api) {
		begin := time.Now()
		a.create("greedy", "u1", "Always", smallDir, greedy...)
		a.create("modest", "u2", "Always", smallDir, "sh", "-c", "echo 012345678 > /v/f; sleep infinity")
		a.create("critical", "u3", "Always", func(pod *corev1.Pod) {
			smallDir(pod)
			pod.Spec.Priority = new(int32(2_000_000_000))
		}, greedy...)
		a.create("chatty", "u4", "Always", func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
				corev1.ResourceEphemeralStorage: resource.MustParse("10"),
			}
		}, "sh", "-c", "echo 0123456789; sleep infinity")
		time.Sleep(28 * time.Second)
		a.phase("greedy", corev1.PodRunning)
		a.phase("chatty", corev1.PodFailed)
		time.Sleep(30 * time.Second)
		a.phase("modest", corev1.PodRunning)
		a.phase("critical", corev1.PodRunning)
		for name, message := range map[string]string{
			"greedy": `Usage of EmptyDir volume "v" exceeds the limit "10". `,
			"chatty": `Pod ephemeral local storage usage exceeds the total limit of containers 10. `,
		} {
			a.phase(name, corev1.PodFailed)
			s := a.get(name).Status
			if s.Reason != "Evicted" || s.Message != message {
				t.Errorf("%s: %s: %q", name, s.Reason, s.Message)
			}
			for _, c := range s.Conditions {
				if c.Type == corev1.DisruptionTarget {
					t.Errorf("%s: not keeping to one's limit is no disruption: %+v", name, c)
				}
			}
			if events := a.told(name, "Evicted"); len(events) != 1 || events[0] != name+" Evicted "+message {
				t.Errorf("%s: Events %q", name, events)
			}
		}
		end := a.get("greedy").Status.ContainerStatuses[0].State.Terminated
		if end == nil || end.ExitCode != 137 || end.FinishedAt.Sub(begin) > 45*time.Second {
			t.Errorf("the container that ignores TERM ended %+v", end)
		}
	})
}

// TestNobodyMeasuresForNothing: without limits on local storage nothing is asked.
func TestNobodyMeasuresForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, script := newAPI(t), &fault.Script{}
		a.remote = sim.New(sim.Config{})
		a.start(fault.Wrap(a.remote.Backend(), script))
		defer func() { a.stop() }()
		a.create("free", "u1", "Always", nil, "sleep", "infinity")
		time.Sleep(time.Minute)
		if n := script.Calls(fault.StatsStats); n > 0 {
			t.Errorf("measured %d times", n)
		}
		a.create("limited", "u2", "Always", smallDir, "sleep", "infinity")
		time.Sleep(time.Minute)
		if n := script.Calls(fault.StatsStats); n < 5 || n > 7 {
			t.Errorf("measured %d times in a minute, want 6", n)
		}
	})
}

// TestEvictionAfterFailures: a remote that does not measure evicts nobody, and does
// once it measures again.
func TestEvictionAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, script := newAPI(t), &fault.Script{}
		script.Add(fault.StatsStats, 6, fault.Fault{Err: backend.Errorf(backend.ErrUnavailable, "down")})
		a.remote = sim.New(sim.Config{})
		a.start(fault.Wrap(a.remote.Backend(), script))
		defer func() { a.stop() }()
		a.create("greedy", "u1", "Always", smallDir, "sh", "-c", "echo 0123456789 > /v/f; sleep infinity")
		time.Sleep(58 * time.Second)
		a.phase("greedy", corev1.PodRunning)
		time.Sleep(15 * time.Second)
		a.phase("greedy", corev1.PodFailed)
	})
}

// TestStartedIsToldOnce: whoever starts the containers, an Event for each attempt of
// each, and not again by the next life of the process.
func TestStartedIsToldOnce(t *testing.T) {
	for name, podUnit := range map[string]bool{"containers": false, "task": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				a.remote = sim.New(sim.Config{PodUnit: podUnit, Script: func(
					_ *corev1.Pod, c corev1.Container, attempt int,
				) sim.Life {
					if c.Name == "i" {
						return sim.Life{RunFor: time.Second}
					}
					return sim.Life{RunFor: time.Duration(1+300*(attempt/2)) * time.Second, ExitCode: 1}
				}})
				a.start(a.remote.Backend())
				a.create("p", "u1", "Always", func(pod *corev1.Pod) {
					pod.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "busybox", Command: []string{"x"}}}
				}, "x")
				time.Sleep(time.Minute)
				a.stop()
				a.start(a.remote.Backend())
				defer func() { a.stop() }()
				time.Sleep(time.Minute)
				for _, reason := range []string{"Created", "Started"} {
					counts := map[string]int{}
					for _, e := range a.abouts() {
						counts[e]++
					}
					of := func(name string) int { return counts["p/"+name+" "+reason] }
					inits := 1
					if podUnit {
						inits = 3 // each attempt of the pod runs it
					}
					if of("a") != 3 || of("i") != inits || a.restarts("p") != 2 {
						t.Errorf("%d restarts, %s: %v", a.restarts("p"), reason, counts)
					}
				}
			})
		})
	}
}

// TestOOMIsToldOnce: as an Event for each attempt, and not again by the next life of
// the process.
func TestOOMIsToldOnce(t *testing.T) {
	for name, podUnit := range map[string]bool{"containers": false, "task": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				a.remote = sim.New(sim.Config{PodUnit: podUnit, Script: func(
					_ *corev1.Pod, _ corev1.Container, attempt int,
				) sim.Life {
					return sim.Life{RunFor: time.Duration(1+300*(attempt/2)) * time.Second, OOM: true}
				}})
				a.start(a.remote.Backend())
				a.create("p", "u1", "Always", func(pod *corev1.Pod) {
					pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
				}, "x")
				time.Sleep(time.Minute)
				a.stop()
				a.start(a.remote.Backend())
				defer func() { a.stop() }()
				time.Sleep(time.Minute)
				if events := a.told("p", "OOMKilling"); len(events) != 2 ||
					!strings.Contains(events[0], "Container a was killed") ||
					!strings.Contains(events[0], "64Mi") || a.restarts("p") != 2 {
					t.Errorf("%d restarts, Events %q", a.restarts("p"), events)
				}
			})
		})
	}
}
