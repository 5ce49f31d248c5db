package syncloop_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
	"github.com/burstlet/burstlet/backend/sim"
)

func TestLives(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy corev1.RestartPolicy
		init   []string
		argv   []string
		wait   time.Duration
		phase  corev1.PodPhase
		reason string
		counts int32
	}{
		{name: "runs", policy: "Always", argv: []string{"sleep", "infinity"}, wait: 5 * time.Second, phase: "Running"},
		{
			name: "success", policy: "Never", argv: []string{"true"}, wait: 5 * time.Second, phase: "Succeeded",
			reason: "Completed",
		},
		{
			name: "failure never", policy: "Never", argv: []string{"false"}, wait: 5 * time.Second, phase: "Failed",
			reason: "Error",
		},
		{name: "success on failure", policy: "OnFailure", argv: []string{"true"}, wait: 5 * time.Second, phase: "Succeeded"},
		// at once, then after 10, 20, 40 s: 0, 10, 30, 70
		{
			name: "failure on failure", policy: "OnFailure", argv: []string{"false"}, wait: 65 * time.Second, phase: "Running",
			reason: "CrashLoopBackOff", counts: 3,
		},
		{
			name: "failure always", policy: "Always", argv: []string{"false"}, wait: 75 * time.Second, phase: "Running",
			reason: "CrashLoopBackOff", counts: 4,
		},
		{
			name: "success always", policy: "Always", argv: []string{"true"}, wait: 5 * time.Second, phase: "Running",
			reason: "CrashLoopBackOff", counts: 1,
		},
		{
			name: "init", policy: "Always", init: []string{"true"}, argv: []string{"sleep", "infinity"}, wait: 5 * time.Second,
			phase: "Running",
		},
		{
			name: "init again with the task", policy: "OnFailure", init: []string{"sleep", "1"},
			argv: []string{"sh", "-c", "sleep 1; exit 1"}, wait: 17 * time.Second, phase: "Running", counts: 2,
		},
		{
			name: "init failure never", policy: "Never", init: []string{"false"}, argv: []string{"true"}, wait: 5 * time.Second,
			phase: "Failed", reason: "PodInitializing",
		},
		{
			name: "init failure always", policy: "Always", init: []string{"false"}, argv: []string{"true"},
			wait: 5 * time.Second, phase: "Pending", reason: "PodInitializing",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			each(t, sim.Config{}, func(t *testing.T, a *api) {
				a.create("p", "u", tt.policy, func(pod *corev1.Pod) {
					if tt.init != nil {
						pod.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "busybox", Command: tt.init}}
					}
				}, tt.argv...)
				time.Sleep(tt.wait)
				a.phase("p", tt.phase)
				s := a.get("p").Status.ContainerStatuses[0]
				if s.RestartCount != tt.counts {
					t.Errorf("%d restarts, want %d", s.RestartCount, tt.counts)
				}
				got := ""
				switch {
				case s.State.Waiting != nil:
					got = s.State.Waiting.Reason
				case s.State.Terminated != nil:
					got = s.State.Terminated.Reason
				}
				if tt.reason != "" && got != tt.reason {
					t.Errorf("state %q, want %q: %+v", got, tt.reason, s)
				}
				a.delete("p", 30)
				time.Sleep(35 * time.Second)
				if a.get("p") != nil || a.remotePods() != 0 {
					t.Errorf("after the delete: pod %v, %d attempts on the remote", a.get("p"), a.remotePods())
				}
			})
		})
	}
}

func TestImageMissing(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		a.create("p", "u", "Never", func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "registry.test/missing:1" })
		seen := map[string]bool{}
		for range 60 {
			time.Sleep(time.Second)
			a.phase("p", corev1.PodPending)
			if w := a.get("p").Status.ContainerStatuses[0].State.Waiting; w != nil {
				seen[w.Reason] = true
			}
		}
		if !seen["ErrImagePull"] || !seen["ImagePullBackOff"] {
			t.Errorf("waiting reasons %v", seen)
		}
		if n := a.restarts("p"); n != 0 {
			t.Errorf("%d restarts of a container that never ran", n)
		}
	})
}

func TestDeleteWhileStarting(t *testing.T) {
	for _, after := range []time.Duration{
		0, time.Millisecond, 100 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second,
	} {
		t.Run(after.String(), func(t *testing.T) {
			cfg := sim.Config{Latency: sim.Latency{
				API: 10 * time.Millisecond, Launch: time.Second, Pull: time.Second, Start: time.Second,
			}}
			each(t, cfg, func(t *testing.T, a *api) {
				a.create("p", "u", "Always", nil, "sleep", "infinity")
				time.Sleep(after)
				a.delete("p", 30)
				time.Sleep(10 * time.Second)
				if a.get("p") != nil || a.remotePods() != 0 {
					t.Errorf("pod %v, %d attempts on the remote", a.get("p"), a.remotePods())
				}
			})
		})
	}
}

// TestDeleteEndsPull: an order to end does not wait for a pull.
func TestDeleteEndsPull(t *testing.T) {
	each(t, sim.Config{Latency: sim.Latency{Pull: 10 * time.Minute}}, func(t *testing.T, a *api) {
		a.create("p", "u", "Always", nil, "sleep", "infinity")
		time.Sleep(5 * time.Second)
		a.delete("p", 30)
		time.Sleep(5 * time.Second)
		if a.get("p") != nil || a.remotePods() != 0 {
			t.Errorf("pod %v, %d attempts on the remote", a.get("p"), a.remotePods())
		}
	})
}

// TestEndWaitsForProof: the replies to all launches are lost, and each task
// appears later. When the last may have, what was read before it did says nothing.
func TestEndWaitsForProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.remote = sim.New(sim.Config{PodUnit: true, NoEvents: true, Record: true})
		var script fault.Script
		script.Add(fault.PodsLaunch, 1, fault.Fault{Late: 8 * time.Second})
		script.Add(fault.PodsList, 7, fault.Fault{})
		script.Add(fault.PodsList, 1, fault.Fault{ReplyDelay: 5 * time.Second})
		b := fault.Wrap(a.remote.Backend(), &script)
		b.Limits.Settle = 9 * time.Second
		b.Limits.Relist = time.Second
		a.start(b)
		defer func() {
			a.stop()
			script.Wait()
		}()
		a.create("p", "u", "Always", deadline(1), "sh", "-c", "trap '' TERM; sleep infinity")
		for range 60 {
			time.Sleep(500 * time.Millisecond)
			a.audit()
		}
		a.phase("p", corev1.PodPending)
		time.Sleep(30 * time.Second)
		a.audit()
		a.phase("p", corev1.PodFailed)
	})
}

func TestIgnoresTerm(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		a.create("p", "u", "Always", nil, "sh", "-c", "trap '' TERM; sleep infinity")
		time.Sleep(2 * time.Second)
		a.delete("p", 20)
		time.Sleep(15 * time.Second)
		a.phase("p", corev1.PodRunning)
		a.delete("p", 1)
		time.Sleep(3 * time.Second)
		if a.get("p") != nil {
			t.Error("a shorter grace did not end it")
		}
	})
}

func TestVanishes(t *testing.T) {
	t.Run("from the API", func(t *testing.T) {
		each(t, sim.Config{}, func(t *testing.T, a *api) {
			a.create("p", "u", "Always", nil, "sleep", "infinity")
			time.Sleep(2 * time.Second)
			a.force("p")
			time.Sleep(5 * time.Second)
			if n := a.remotePods(); n != 0 {
				t.Errorf("%d attempts on the remote", n)
			}
			if pods := a.engine.Pods(nil); len(pods) != 0 {
				t.Errorf("the engine still has %d pods", len(pods))
			}
		})
	})
	t.Run("from the remote", func(t *testing.T) {
		each(t, sim.Config{}, func(t *testing.T, a *api) {
			a.create("always", "u1", "Always", nil, "sleep", "infinity")
			a.create("never", "u2", "Never", nil, "sleep", "infinity")
			time.Sleep(2 * time.Second)
			a.remote.Vanish("u1")
			a.remote.Vanish("u2")
			time.Sleep(30 * time.Second)
			a.phase("always", corev1.PodRunning)
			if n := a.restarts("always"); n != 1 {
				t.Errorf("%d restarts, want 1", n)
			}
			a.phase("never", corev1.PodFailed)
			if s := a.get("never").Status.ContainerStatuses[0].State.Terminated; s == nil ||
				s.Reason != "ContainerStatusUnknown" || s.ExitCode != 137 {
				t.Errorf("state %+v", s)
			}
		})
	})
}

// TestSameName deletes and makes a pod anew under its name while the old one is
// still stopping.
func TestSameName(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		for i := range 20 {
			a.create("p", types.UID(fmt.Sprint("u", i)), "Always", nil, "sh", "-c", "trap '' TERM; sleep infinity")
			time.Sleep(2 * time.Second)
			a.delete("p", 10)
			time.Sleep(time.Second)
			a.force("p")
		}
		a.create("p", "last", "Always", nil, "sleep", "infinity")
		time.Sleep(40 * time.Second)
		a.phase("p", corev1.PodRunning)
		if n := a.remotePods(); n != 1 {
			t.Errorf("%d attempts on the remote, want the last pod's", n)
		}
	})
}

func TestRestartOfTheEngine(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		a.create("crash", "u1", "Always", nil, "sh", "-c", "sleep 5; exit 1")
		a.create("done", "u2", "Never", nil, "true")
		a.create("runs", "u3", "Always", nil, "sleep", "infinity")
		a.create("orphan", "u4", "Always", nil, "sleep", "infinity")
		time.Sleep(20 * time.Second)
		launches := a.remote.Audit().Launches
		before := a.restarts("crash")
		a.stop()
		a.force("orphan")
		a.start(a.remote.Backend())
		time.Sleep(30 * time.Second)
		a.phase("done", corev1.PodSucceeded)
		a.phase("runs", corev1.PodRunning)
		if after := a.restarts("crash"); after < before {
			t.Errorf("restarts went from %d to %d", before, after)
		}
		for _, uid := range []types.UID{"u2", "u3"} {
			if now := a.remote.Audit().Launches[uid]; now != launches[uid] {
				t.Errorf("%s was launched again: %d, then %d", uid, launches[uid], now)
			}
		}
		facts, err := a.remote.Backend().Pods.Inspect(context.Background(), []types.UID{"u4"})
		if err != nil || len(facts) != 0 {
			t.Errorf("the pod that went from the API meanwhile: %v, %v", facts, err)
		}
	})
}

// TestOneLaunchPerPod counts calls: an engine that acts on facts from before its
// last action makes everything twice, though names collide.
func TestOneLaunchPerPod(t *testing.T) {
	for name, podUnit := range map[string]bool{"containers": false, "task": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				a.remote = sim.New(sim.Config{
					PodUnit: podUnit, Record: true, Latency: sim.Latency{API: 20 * time.Millisecond, Start: time.Second},
				})
				script := &fault.Script{}
				a.start(fault.Wrap(a.remote.Backend(), script))
				defer func() { a.stop() }()
				for i := range 10 {
					a.create(fmt.Sprint("p", i), types.UID(fmt.Sprint("u", i)), "Always", nil, "sleep", "infinity")
				}
				time.Sleep(30 * time.Second)
				starts := script.Calls(fault.ContainersStart)
				if n := script.Calls(fault.PodsLaunch); n != 10 || !podUnit && starts != 10 {
					t.Errorf("%d launches and %d starts of 10 pods", n, starts)
				}
				for i := range 10 {
					a.delete(fmt.Sprint("p", i), 5)
				}
				time.Sleep(30 * time.Second)
				if n := script.Calls(fault.PodsStop); n != 10 {
					t.Errorf("%d stops of 10 pods", n)
				}
			})
		})
	}
}

// heldLaunches is told of each launch that is under way.
type heldLaunches chan struct{}

// launching makes nothing: a launch is under way until its context ends.
type launching struct {
	backend.Pods
	under heldLaunches
}

func (l launching) Launch(ctx, _ context.Context, _ backend.LaunchSpec) error {
	l.under <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

// TestDiesWhileLaunching ends the engine while a launch is under way and
// restarts it when the pod is already being deleted: the launch appears after
// the restart, and must not outlive the pod.
func TestDiesWhileLaunching(t *testing.T) {
	for name, podUnit := range map[string]bool{"containers": false, "task": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				a.remote = sim.New(sim.Config{PodUnit: podUnit, Record: true})
				first := a.remote.Backend()
				under := make(heldLaunches)
				first.Pods = launching{first.Pods, under}
				a.start(first)
				a.create("p", "u", "Always", func(pod *corev1.Pod) {
					pod.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Second))
				}, "sleep", "infinity")
				late := a.get("p")
				<-under
				a.stop()
				b := a.remote.Backend()
				b.Limits.Settle = 4 * time.Second
				a.delete("p", 1)
				a.start(b)
				time.Sleep(3 * time.Second)
				spec := backend.LaunchSpec{Pod: late}
				if podUnit {
					spec.Containers = []backend.ContainerSpec{{Pod: late, Container: late.Spec.Containers[0]}}
				}
				if err := b.Pods.Launch(t.Context(), t.Context(), spec); err != nil { // the call of the life before
					t.Fatal(err)
				}
				if a.get("p") == nil {
					t.Error("the pod went from the API before its launch had settled")
				}
				time.Sleep(30 * time.Second)
				if a.get("p") != nil || a.remotePods() != 0 {
					t.Errorf("pod %v, %d attempts left", a.get("p"), a.remotePods())
				}
				a.stop()
			})
		})
	}
}

// TestLostReplies lets calls go through and loses their replies: what is made
// is made once, and nothing is left.
func TestLostReplies(t *testing.T) {
	for name, podUnit := range map[string]bool{"containers": false, "task": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				a.remote = sim.New(sim.Config{PodUnit: podUnit, Record: true, Latency: sim.Latency{API: 50 * time.Millisecond}})
				script := loseSome(rand.New(rand.NewSource(1)))
				a.start(fault.Wrap(a.remote.Backend(), script))
				defer func() { a.stop() }()
				for i := range 20 {
					a.create(fmt.Sprint("p", i), types.UID(fmt.Sprint("u", i)), "Always", nil, "sleep", "infinity")
				}
				time.Sleep(2 * time.Minute)
				for i := range 20 {
					a.phase(fmt.Sprint("p", i), corev1.PodRunning)
					if n := a.restarts(fmt.Sprint("p", i)); n != 0 {
						t.Errorf("p%d: %d restarts", i, n)
					}
					a.delete(fmt.Sprint("p", i), 5)
				}
				time.Sleep(2 * time.Minute)
				if n := a.remotePods(); n != 0 {
					t.Errorf("%d attempts left", n)
				}
				a.audit()
			})
		})
	}
}

// loseSome loses a third of the replies, hints and listings too.
func loseSome(r *rand.Rand) *fault.Script {
	return &fault.Script{Decide: func(c fault.Call) fault.Fault {
		if r.Intn(3) > 0 {
			return fault.Fault{}
		}
		return fault.Fault{LoseReply: true, Drop: true}
	}}
}

func TestLogs(t *testing.T) {
	each(t, sim.Config{}, func(t *testing.T, a *api) {
		a.create("p", "u", "Never", nil, "echo", "hello")
		time.Sleep(5 * time.Second)
		r, err := a.engine.ContainerLogs(context.Background(), "ns", "p", "a", false, backend.LogOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if b, err := io.ReadAll(r); err != nil || len(b) == 0 {
			t.Errorf("log %q, %v", b, err)
		}
		for _, tt := range []struct {
			pod, container string
			previous       bool
			class          error
		}{{"none", "a", false, backend.ErrNotFound}, {"p", "none", false, backend.ErrNotFound}, {
			"p", "a", true, backend.ErrInvalid,
		}} {
			if _, err := a.engine.ContainerLogs(
				context.Background(), "ns", tt.pod, tt.container, tt.previous, backend.LogOptions{},
			); !errors.Is(err, tt.class) {
				t.Errorf("%+v: %v", tt, err)
			}
		}
	})
}
