package syncloop_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
	"github.com/burstlet/burstlet/backend/intercept"
	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// asks gives the app requests that are its limits.
func asks(cpu, memory string) func(*corev1.Pod) {
	return onApp(func(c *corev1.Container) {
		list := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
		c.Resources = corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
	})
}

func restartsFor(name corev1.ResourceName) func(*corev1.Pod) {
	return onApp(func(c *corev1.Container) {
		c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: name, RestartPolicy: corev1.RestartContainer}}
	})
}

func all(changes ...func(*corev1.Pod)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for _, f := range changes {
			f(pod)
		}
	}
}

// resize changes what a pod asks for, as kubectl patch --subresource resize.
func (a *api) resize(name, cpu, memory string) {
	a.update(name, func(pod *corev1.Pod) {
		asks(cpu, memory)(pod)
		pod.Generation++
	})
}

func resizeCondition(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// wantResized: the app has cpu, all that is told agrees, and nothing is under way.
func (a *api) wantResized(name, cpu string, restarts int32) {
	a.t.Helper()
	pod := a.get(name)
	c := &pod.Status.ContainerStatuses[0]
	if c.AllocatedResources.Cpu().String() != cpu || c.Resources.Limits.Cpu().String() != cpu ||
		c.RestartCount != restarts {
		a.t.Errorf("%s: allocated %v, held to %v, %d restarts", name, c.AllocatedResources.Cpu(), c.Resources, c.RestartCount)
	}
	for _, t := range []corev1.PodConditionType{corev1.PodResizePending, corev1.PodResizeInProgress} {
		if c := resizeCondition(pod, t); c != nil {
			a.t.Errorf("%s: %+v", name, c)
		}
	}
	a.wantHeld(pod.UID, cpu)
}

// wantHeld: what truly runs is held to cpu.
func (a *api) wantHeld(uid types.UID, cpu string) {
	a.t.Helper()
	for _, f := range a.remote.Facts() {
		for _, c := range f.Containers {
			if f.UID == uid && c.State() == backend.Running && c.Resources.Limits.Cpu().String() != cpu {
				a.t.Errorf("%s runs with %v, want %s", uid, c.Resources, cpu)
			}
		}
	}
}

// inContainers runs f in virtual time where containers can be resized.
func inContainers(t *testing.T, f func(a *api)) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.remote = sim.New(sim.Config{Record: true})
		a.start(a.remote.Backend())
		defer func() { a.stop() }()
		time.Sleep(time.Second)
		f(a)
		a.audit()
	})
}

// sleeper makes a pod that runs for ever.
func (a *api) sleeper(name string, change ...func(*corev1.Pod)) {
	a.create(name, types.UID("uid-"+name), "Always", all(change...), "sleep", "infinity")
	time.Sleep(5 * time.Second)
}

// TestResizeInPlace: behaviour 10.
func TestResizeInPlace(t *testing.T) {
	inContainers(t, func(a *api) {
		a.sleeper("p", asks("1", "64Mi"))
		for _, cpu := range []string{"3", "2"} {
			a.resize("p", cpu, "128Mi")
			time.Sleep(5 * time.Second)
			a.wantResized("p", cpu, 0)
		}
		if got := a.get("p").Status.ObservedGeneration; got != 2 {
			t.Errorf("observed generation %d", got)
		}
		started := `p ResizeStarted Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"3","memory":"128Mi"},"requests":{"cpu":"3","memory":"128Mi"}}}],"generation":1}`
		if got := a.event("p", "ResizeStarted"); got != started {
			t.Errorf("event %q", got)
		}
		if got := a.event("p", "ResizeCompleted"); got != strings.ReplaceAll(
			strings.ReplaceAll(started, "Started", "Completed"), "started", "completed",
		) {
			t.Errorf("event %q", got)
		}
	})
}

// TestResizeOfAWholePod: a pod whose own resources change, and those of no container, is allocated
// them, its cgroup is given them by a call for one of its containers, and its status says so.
func TestResizeOfAWholePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var given []string
		a := newAPI(t)
		a.remote = sim.New(sim.Config{Record: true})
		b := a.remote.Backend()
		a.start(intercept.Wrap(b, func(ctx context.Context, c *intercept.Call, next func(context.Context) error) error {
			if c.Name == intercept.ResizeResize {
				given = append(given, intercept.Arg[backend.ContainerSpec](c).Pod.Spec.Resources.Limits.Cpu().String())
			}
			return next(ctx)
		}))
		defer func() { a.stop() }()
		time.Sleep(time.Second)
		whole := func(cpu string) func(*corev1.Pod) {
			return func(pod *corev1.Pod) {
				list := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("64Mi")}
				pod.Spec.Resources = &corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
				pod.Generation++
			}
		}
		a.sleeper("p", whole("1"))
		a.update("p", whole("3"))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		s := a.get("p").Status
		if s.AllocatedResources.Cpu().String() != "3" || s.Resources == nil || s.Resources.Limits.Cpu().String() != "3" ||
			s.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("allocated %v, held to %+v, %+v", s.AllocatedResources, s.Resources, s.ContainerStatuses)
		}
		if diff := cmp.Diff([]string{"3"}, given); diff != "" {
			t.Errorf("the pod's cgroup is given (-want +got):\n%s", diff)
		}
		if c := resizeCondition(a.get("p"), corev1.PodResizeInProgress); c != nil {
			t.Errorf("it is still under way: %+v", c)
		}
		a.update("p", whole("100000"))
		time.Sleep(5 * time.Second)
		if c := resizeCondition(a.get("p"), corev1.PodResizePending); c == nil || c.Reason != corev1.PodReasonInfeasible {
			t.Errorf("what never fits: %+v", c)
		}
		a.audit()
	})
}

// TestResizeWaits: behaviour 10, what does not fit now waits for room, those of a
// higher priority first; what never fits is Infeasible, until it is taken back.
func TestResizeWaits(t *testing.T) {
	inContainers(t, func(a *api) {
		high := int32(10)
		a.sleeper("big", asks("600", "64Mi"))
		a.sleeper("low", asks("100", "64Mi"))
		a.sleeper("high", asks("100", "64Mi"), func(pod *corev1.Pod) { pod.Spec.Priority = &high })
		a.resize("low", "500", "64Mi")
		time.Sleep(time.Second)
		a.resize("high", "600", "64Mi")
		time.Sleep(5 * time.Second)
		for _, name := range []string{"low", "high"} {
			c := resizeCondition(a.get(name), corev1.PodResizePending)
			if c == nil || c.Reason != "Deferred" || c.ObservedGeneration != 1 ||
				!strings.HasPrefix(c.Message, "Node didn't have enough resource: cpu, requested: ") {
				t.Fatalf("%s: %+v", name, c)
			}
			a.wantHeld(a.get(name).UID, "100")
			if a.event(name, "ResizeDeferred") == "" {
				t.Errorf("no Event about %s", name)
			}
		}
		a.delete("big", 0)
		time.Sleep(10 * time.Second)
		a.wantResized("high", "600", 0)
		if c := resizeCondition(a.get("low"), corev1.PodResizePending); c == nil {
			t.Error("low was resized beside high")
		}
		a.resize("high", "400", "64Mi")
		time.Sleep(5 * time.Second)
		a.wantResized("high", "400", 0)
		a.wantResized("low", "500", 0)

		a.resize("low", "2000", "64Mi")
		time.Sleep(5 * time.Second)
		c := resizeCondition(a.get("low"), corev1.PodResizePending)
		if c == nil || c.Reason != "Infeasible" ||
			c.Message != "Node didn't have enough capacity: cpu, requested: 2000000, capacity: 1000000" {
			t.Errorf("%+v", c)
		}
		a.resize("low", "500", "64Mi")
		time.Sleep(5 * time.Second)
		a.wantResized("low", "500", 0)
	})
}

// TestResizeRefused: a memory limit below what is used is an error that is told and
// tried again, until the limit is another.
func TestResizeRefused(t *testing.T) {
	inContainers(t, func(a *api) {
		a.sleeper("p", asks("1", "64Mi")) // it uses half
		a.resize("p", "1", "16Mi")
		time.Sleep(5 * time.Second)
		c := resizeCondition(a.get("p"), corev1.PodResizeInProgress)
		if c == nil || c.Reason != "Error" || !strings.Contains(c.Message, "below current usage") ||
			c.ObservedGeneration != 1 {
			t.Fatalf("%+v", c)
		}
		if a.event("p", "ResizeError") == "" {
			t.Error("no Event")
		}
		a.resize("p", "2", "48Mi")
		time.Sleep(5 * time.Second)
		a.wantResized("p", "2", 0)
	})
}

// TestResizeHoldsRoom: what a pod was to give back and still has, nobody else gets.
func TestResizeHoldsRoom(t *testing.T) {
	inContainers(t, func(a *api) {
		a.sleeper("p", asks("600", "64Mi"))
		a.sleeper("q", asks("100", "64Mi"))
		a.resize("p", "100", "16Mi") // refused: it uses more memory
		time.Sleep(time.Minute)
		a.resize("q", "700", "64Mi")
		time.Sleep(time.Minute)
		if c := resizeCondition(a.get("q"), corev1.PodResizePending); c == nil || c.Reason != "Deferred" {
			t.Errorf("q beside p, which has 600 still: %+v", c)
		}
		a.resize("p", "100", "48Mi")
		time.Sleep(5 * time.Second)
		a.wantResized("p", "100", 0)
		a.wantResized("q", "700", 0)
	})
}

// TestResizeGrantedWhileAnotherEnds: what a pod was granted while it was still giving room
// back nobody else gets.
func TestResizeGrantedWhileAnotherEnds(t *testing.T) {
	inContainers(t, func(a *api) {
		a.stop()
		script := &fault.Script{}
		script.Add(fault.ResizeResize, 1, fault.Fault{ReplyDelay: 10 * time.Second})
		a.start(fault.Wrap(a.remote.Backend(), script))
		a.sleeper("p", asks("600", "64Mi"))
		a.sleeper("q", asks("100", "64Mi"))
		a.resize("p", "100", "64Mi")
		time.Sleep(2 * time.Second)
		a.resize("p", "600", "64Mi") // granted: it has them still
		a.resize("q", "700", "64Mi")
		time.Sleep(time.Minute)
		a.wantResized("p", "600", 0)
		a.wantHeld(a.get("q").UID, "100")
		if c := resizeCondition(a.get("q"), corev1.PodResizePending); c == nil || c.Reason != "Deferred" {
			t.Errorf("q beside p, which has 600: %+v", c)
		}
	})
}

// TestResizeRestartsContainer: as its resizePolicy says.
func TestResizeRestartsContainer(t *testing.T) {
	inContainers(t, func(a *api) {
		a.sleeper("p", asks("1", "64Mi"), restartsFor("memory"))
		a.resize("p", "2", "64Mi")
		time.Sleep(5 * time.Second)
		a.wantResized("p", "2", 0)
		a.resize("p", "2", "16Mi") // below what it uses, but not of what is started anew
		time.Sleep(time.Minute)
		a.wantResized("p", "2", 1)
		if got := a.event("p", "Killing"); got != "p Killing Container a resize requires restart" {
			t.Errorf("event %q", got)
		}
	})
}

// TestResizeBeforeStart: what has not started is started with what is allocated.
func TestResizeBeforeStart(t *testing.T) {
	inContainers(t, func(a *api) {
		a.sleeper("p", asks("1", "64Mi"), configured)
		a.resize("p", "2", "64Mi")
		time.Sleep(5 * time.Second)
		if c := a.get("p").Status.ContainerStatuses[0]; c.State.Waiting == nil || c.AllocatedResources.Cpu().String() != "2" {
			t.Fatalf("%+v", c)
		}
		a.setConfig(resolve.Object[*corev1.ConfigMap]{Value: &corev1.ConfigMap{Data: map[string]string{"key": "value"}}})
		time.Sleep(10 * time.Second)
		a.wantResized("p", "2", 0)
	})
}

// TestResizeUnsupported: a node that cannot resize says so; what runs keeps what it
// has, in its next attempts too.
func TestResizeUnsupported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.remote = sim.New(sim.Config{Record: true, PodUnit: true})
		a.start(a.remote.Backend())
		defer func() { a.stop() }()
		a.create("p", "uid-p", "Always", asks("1", "64Mi"), "sleep", "20")
		time.Sleep(10 * time.Second)
		a.resize("p", "2", "64Mi")
		time.Sleep(time.Second)
		told := func() {
			t.Helper()
			c := resizeCondition(a.get("p"), corev1.PodResizePending)
			if c == nil || c.Reason != "Infeasible" ||
				c.Message != "container a: this node cannot change resources in place; make the pod anew" {
				t.Errorf("%+v", c)
			}
			a.wantHeld("uid-p", "1")
		}
		told()
		if !strings.HasPrefix(
			a.event("p", "ResizeInfeasible"),
			`p ResizeInfeasible Pod resize Infeasible: {"containers":[{"name":"a","resources":{"limits":{"cpu":"2"`,
		) {
			t.Errorf("event %q", a.event("p", "ResizeInfeasible"))
		}
		a.stop()
		a.start(a.remote.Backend())
		time.Sleep(time.Minute)
		if a.restarts("p") == 0 {
			t.Error("it was not restarted")
		}
		told()
	})
}

// TestResizeAcrossLives: whatever of a resize is lost with the process, the next
// life finds out: the call, its reply, the word that it was allocated.
func TestResizeAcrossLives(t *testing.T) {
	for name, f := range map[string]fault.Fault{
		"the call":      {Err: backend.ErrUnavailable},
		"its reply":     {LoseReply: true},
		"it takes long": {ReplyDelay: time.Hour},
	} {
		for _, told := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				inContainers(t, func(a *api) { a.resizeAcrossLives(f, told) })
			})
		}
	}
}

func (a *api) resizeAcrossLives(f fault.Fault, told bool) {
	a.stop()
	script := &fault.Script{}
	a.start(fault.Wrap(a.remote.Backend(), script))
	a.sleeper("p", asks("1", "64Mi"))
	before := a.get("p").Status
	script.Add(fault.ResizeResize, 1, f)
	a.resize("p", "4", "64Mi")
	time.Sleep(100 * time.Millisecond)
	a.stop()
	if !told { // the write that tells of it did not come through
		a.mu.Lock()
		pod := a.pods["ns/p"].DeepCopy()
		pod.Status = before
		a.put(pod)
		a.mu.Unlock()
	}
	a.start(a.remote.Backend())
	time.Sleep(10 * time.Second)
	a.wantResized("p", "4", 0)
	if told && a.event("p", "ResizeCompleted") == "" { // else it may have been done when it was allocated
		a.t.Error("nobody says that it is done")
	}
}

// TestResizeRestartWritesNothing: a restart of the engine changes no status of a pod
// that waits for room.
func TestResizeRestartWritesNothing(t *testing.T) {
	inContainers(t, func(a *api) {
		a.sleeper("big", asks("600", "64Mi"))
		a.sleeper("p", asks("100", "64Mi"))
		a.resize("p", "500", "64Mi")
		time.Sleep(5 * time.Second)
		a.stop()
		before := a.get("p").Status
		a.mu.Lock()
		events := len(a.events)
		a.mu.Unlock()
		writer := &noting{api: a}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		a.startAs(ctx, a.remote.Backend(), writer)
		time.Sleep(10 * time.Second)
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, s := range writer.statuses {
			if c := resizeCondition(&corev1.Pod{Status: s}, corev1.PodResizePending); c == nil ||
				c.Message != before.Conditions[len(before.Conditions)-1].Message {
				t.Errorf("told meanwhile: %+v", s.Conditions)
			}
		}
		if len(a.events) != events {
			t.Errorf("told again: %q", a.events[events:])
		}
	})
}

// noting keeps the statuses of pod p.
type noting struct {
	*api
	statuses []corev1.PodStatus
}

func (n *noting) SetStatus(pod *corev1.Pod, status corev1.PodStatus) {
	n.mu.Lock()
	if pod.Name == "p" {
		n.statuses = append(n.statuses, status)
	}
	n.mu.Unlock()
	n.api.SetStatus(pod, status)
}

// TestContainersFollowAResizeOfTheirPod: containers without limits are held to those of their pod, and
// go with them, in place or by a restart as they say.
func TestContainersFollowAResizeOfTheirPod(t *testing.T) {
	whole := func(cpu string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			list := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("64Mi")}
			pod.Spec.Resources = &corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
		}
	}
	for name, restarts := range map[corev1.ResourceName]int32{corev1.ResourceMemory: 0, corev1.ResourceCPU: 1} {
		inContainers(t, func(a *api) {
			a.sleeper("p", whole("1"), restartsFor(name))
			for _, cpu := range []string{"3", "2"} {
				a.update("p", func(pod *corev1.Pod) {
					whole(cpu)(pod)
					pod.Generation++
				})
				time.Sleep(time.Minute)
				pod := a.get("p")
				a.wantHeld(pod.UID, cpu)
				if got := pod.Status.Resources.Limits.Cpu().String(); got != cpu {
					t.Errorf("the pod is shown to be held to %s, want %s", got, cpu)
				}
				if c := resizeCondition(pod, corev1.PodResizeInProgress); c != nil {
					t.Errorf("%+v", c)
				}
			}
			if got := a.get("p").Status.ContainerStatuses[0].RestartCount; got != 2*restarts {
				t.Errorf("%s restarts: %d restarts, want %d", name, got, 2*restarts)
			}
		})
	}
}
