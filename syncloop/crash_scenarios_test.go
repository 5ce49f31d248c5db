package syncloop_test

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/localstorage"
	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// thenSucceeds fails the first attempt of a container and lets the next succeed.
func thenSucceeds(name string) func(*corev1.Pod, corev1.Container, int) sim.Life {
	return func(_ *corev1.Pod, c corev1.Container, attempt int) sim.Life {
		if c.Name != name {
			return sim.FromArgv(c)
		}
		life := sim.Life{RunFor: 2 * time.Second}
		if attempt == 0 {
			life.ExitCode = 1
		}
		return life
	}
}

// asksForAll lets the first attempt of container a exit with 42, and others be as they are.
func asksForAll(_ *corev1.Pod, c corev1.Container, attempt int) sim.Life {
	switch {
	case c.Name != "a":
		return sim.FromArgv(c)
	case attempt == 0:
		return sim.Life{RunFor: 4 * time.Second, ExitCode: 42}
	}
	return sim.Life{RunFor: -1}
}

// slowToEnd lets a container take its time to end.
func slowToEnd(name string, takes time.Duration) func(*corev1.Pod, corev1.Container, int) sim.Life {
	return func(_ *corev1.Pod, c corev1.Container, _ int) sim.Life {
		life := sim.FromArgv(c)
		if c.Name == name {
			life.StopTakes = takes
		}
		return life
	}
}

func inits(argv ...[]string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for i, words := range argv {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{
				Name: "i" + string(rune('1'+i)), Image: "busybox", Command: words, ImagePullPolicy: corev1.PullIfNotPresent,
			})
		}
	}
}

var (
	forever   = []string{"sleep", "infinity"}
	failing   = []string{"sh", "-c", "sleep 3; exit 1"}
	deaf      = []string{"sh", "-c", "trap '' TERM; sleep infinity"}
	slowParts = sim.Latency{
		API: 20 * time.Millisecond, Launch: time.Second, Pull: time.Second, Start: time.Second, Stop: time.Second,
	}
)

// scenarios have room for an engine that is away for a while: what they expect
// is so whenever it dies, and however long.
var scenarios = []scenario{
	{name: "success", play: func(w *world) {
		w.create("p", "u", "Never", nil, "sleep", "3")
		w.becomes(time.Minute, "p", corev1.PodSucceeded, 0)
		w.made("u", "a", 1)
		w.ended("p", "u", 30)
	}},
	{name: "failure", play: func(w *world) {
		w.create("p", "u", "Never", nil, "sh", "-c", "sleep 2; exit 3")
		w.becomes(time.Minute, "p", corev1.PodFailed, 0)
		if end := w.get("p").Status.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 3 {
			w.t.Errorf("it ended with %+v, want exit code 3", end)
		}
		w.made("u", "a", 1)
		w.ended("p", "u", 30)
	}},
	{name: "restart, then success", cfg: sim.Config{Script: thenSucceeds("a")}, play: func(w *world) {
		w.create("p", "u", "OnFailure", nil, "work")
		w.becomes(time.Minute, "p", corev1.PodSucceeded, 1)
		w.made("u", "a", 2)
		w.ended("p", "u", 30)
	}},
	{name: "runs", play: func(w *world) {
		w.create("p", "u", "Always", nil, forever...)
		w.becomes(time.Minute, "p", corev1.PodRunning, 0)
		w.made("u", "a", 1)
		w.ended("p", "u", 30)
	}},
	{name: "crash loop", play: func(w *world) {
		w.create("p", "u", "Always", nil, failing...)
		time.Sleep(2 * time.Minute)
		w.phase("p", corev1.PodRunning)
		// At 0, 3, 16, 39 and 82 s; an engine that was away begins anew.
		n := w.restarts("p")
		for range 10 { // one may be under way just now
			if w.starts("u", "a") == int(n)+1 {
				break
			}
			time.Sleep(100 * time.Millisecond)
			n = w.restarts("p")
		}
		if n < 2 || n > 7 {
			w.t.Errorf("%d restarts", n)
		}
		w.made("u", "a", int(n)+1)
		w.ended("p", "u", 30)
	}},
	{name: "init containers", play: func(w *world) {
		w.create("p", "u", "Always", inits([]string{"sleep", "1"}, []string{"true"}), forever...)
		w.becomes(time.Minute, "p", corev1.PodRunning, 0)
		w.made("u", "i1", 1)
		w.made("u", "i2", 1)
		w.made("u", "a", 1)
		w.ended("p", "u", 30)
	}},
	{name: "init failure", play: func(w *world) {
		w.create("p", "u", "Never", inits([]string{"sleep", "1"}, []string{"false"}), forever...)
		w.becomes(time.Minute, "p", corev1.PodFailed, 0)
		w.made("u", "i2", 1)
		w.neverRan("u", "a")
		w.ended("p", "u", 30)
	}},
	{name: "init failure, then success", cfg: sim.Config{Script: thenSucceeds("i1")}, play: func(w *world) {
		w.create("p", "u", "OnFailure", inits([]string{"work"}), forever...)
		time.Sleep(time.Minute)
		w.phase("p", corev1.PodRunning)
		w.made("u", "i1", 2)
		if n := w.get("p").Status.InitContainerStatuses[0].RestartCount; n != 1 {
			w.t.Errorf("%d restarts of the init container, want 1", n)
		}
		w.ended("p", "u", 30)
	}},
	{name: "job with a sidecar", play: func(w *world) {
		w.create("p", "u", "Never", sidecar(forever...), "sleep", "4")
		w.becomes(time.Minute, "p", corev1.PodSucceeded, 0)
		w.made("u", "s", 1)
		w.made("u", "a", 1)
		w.ended("p", "u", 30)
	}},
	{name: "sidecar of a deleted pod", cfg: sim.Config{Script: slowToEnd("a", 3*time.Second)}, play: func(w *world) {
		w.create("p", "u", "Always", sidecar(forever...), forever...)
		w.becomes(time.Minute, "p", corev1.PodRunning, 0)
		w.ended("p", "u", 60)
		w.stoppedAfter("u", "a", 3*time.Second, "s")
	}},
	{name: "preStop hook", play: func(w *world) {
		w.create("p", "u", "Always", onApp(func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PreStop: hook("sleep", "3")}
		}), forever...)
		w.becomes(time.Minute, "p", corev1.PodRunning, 0)
		w.ended("p", "u", 60)
		w.hookedBeforeStop("u", "a")
	}},
	{name: "preStop hook without end", play: func(w *world) {
		w.create("p", "u", "Always", onApp(func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PreStop: hook(forever...)}
		}), deaf...)
		w.becomes(time.Minute, "p", corev1.PodRunning, 0)
		w.ended("p", "u", 5)
	}},
	{name: "postStart hook", single: true, play: func(w *world) {
		w.create("p", "u", "Always", onApp(func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: hook("sleep", "2")}
		}), forever...)
		w.becomes(time.Minute, "p", corev1.PodRunning, 0)
		w.ready("p")
		w.made("u", "a", 1)
		w.ended("p", "u", 30)
	}},
	{name: "probes", play: func(w *world) {
		w.create("p", "u", "Always", onApp(func(c *corev1.Container) {
			c.StartupProbe, c.LivenessProbe, c.ReadinessProbe = prober("true"), prober("true"), prober("true")
		}), forever...)
		w.becomes(time.Minute, "p", corev1.PodRunning, 0)
		w.ready("p")
		w.ended("p", "u", 30)
	}},
	{name: "liveness fails", play: func(w *world) {
		w.create(
			"p", "u", "Never", onApp(func(c *corev1.Container) { c.LivenessProbe = asker() }), "serve", "8080", "fail-after=9s",
		)
		w.becomes(2*time.Minute, "p", corev1.PodFailed, 0)
		w.made("u", "a", 1)
		w.ended("p", "u", 30)
	}},
	{name: "ConfigMap", cfg: sim.Config{}, play: configMap},
	{name: "ConfigMap on files of a task", cfg: sim.Config{Files: true}, play: configMap},
	{name: "ConfigMap comes late", play: func(w *world) {
		w.setConfig(resolve.Object[*corev1.ConfigMap]{Err: errors.New("configmap \"config\" not found")})
		w.create("p", "u", "Always", configured, forever...)
		time.Sleep(10 * time.Second)
		w.phase("p", corev1.PodPending)
		w.setConfig(config("last"))
		w.becomes(time.Minute, "p", corev1.PodRunning, 0)
		w.made("u", "a", 1)
		w.ended("p", "u", 30)
	}},
	{name: "image comes late", single: true, play: func(w *world) {
		w.create("p", "u", "Always", onApp(func(c *corev1.Container) { c.ImagePullPolicy = corev1.PullNever }), forever...)
		time.Sleep(20 * time.Second)
		w.phase("p", corev1.PodPending)
		if _, err := w.remote.Backend().Images.Pull(context.Background(), "busybox", nil); err != nil { // somebody by hand
			w.t.Fatal(err)
		}
		w.becomes(2*time.Minute, "p", corev1.PodRunning, 0)
		w.made("u", "a", 1)
		w.ended("p", "u", 30)
	}},
	{name: "image missing, then changed", play: func(w *world) {
		w.create("p", "u", "Always", onApp(func(c *corev1.Container) { c.Image = "registry.test/missing:1" }), forever...)
		time.Sleep(20 * time.Second)
		w.phase("p", corev1.PodPending)
		w.update("p", func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "busybox"; pod.Generation++ })
		w.becomes(2*time.Minute, "p", corev1.PodRunning, 0)
		w.ended("p", "u", 30)
	}},
	{name: "image changed", play: func(w *world) {
		w.create("p", "u", "Always", nil, forever...)
		time.Sleep(10 * time.Second)
		w.update("p", func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "busybox:2"; pod.Generation++ })
		time.Sleep(time.Minute)
		w.phase("p", corev1.PodRunning)
		if s := w.get("p").Status.ContainerStatuses[0]; s.Image != "busybox:2" || s.RestartCount > 1 {
			w.t.Errorf("it runs %s after %d restarts", s.Image, s.RestartCount)
		}
		w.ended("p", "u", 30)
	}},
	{name: "deleted while it starts", cfg: sim.Config{Latency: slowParts}, play: func(w *world) {
		w.create("p", "u", "Always", nil, forever...)
		time.Sleep(1500 * time.Millisecond)
		w.ended("p", "u", 5)
	}},
	{name: "forced out of the API", play: func(w *world) {
		w.create("p", "u", "Always", configured, forever...)
		time.Sleep(3 * time.Second)
		w.force("p")
		time.Sleep(4 * time.Minute) // volumes of nobody are looked for every minute
		w.gone("p", "u")
	}},
	{name: "made anew under its name", play: func(w *world) {
		w.create("p", "u", "Always", nil, deaf...)
		time.Sleep(3 * time.Second)
		w.delete("p", 10)
		time.Sleep(2 * time.Second)
		w.force("p")
		w.create("p", "v", "Always", nil, forever...)
		w.becomes(90*time.Second, "p", corev1.PodRunning, 0)
		w.made("v", "a", 1)
		w.ended("p", "v", 5)
		w.gone("p", "u")
	}},
	{name: "finalizer", play: func(w *world) {
		w.create("p", "u", "Always", func(pod *corev1.Pod) { pod.Finalizers = []string{"test/hold"} }, forever...)
		w.becomes(time.Minute, "p", corev1.PodRunning, 0)
		w.delete("p", 5)
		time.Sleep(time.Minute)
		if w.get("p") == nil || len(w.remote.Facts()) != 0 {
			w.t.Errorf("pod %v, %d attempts: want it in the API alone", w.get("p") != nil, len(w.remote.Facts()))
		}
		w.made("u", "a", 1)
		w.finish("p")
		time.Sleep(time.Minute)
		w.gone("p", "u")
	}},
	{name: "a shorter grace", play: func(w *world) {
		w.create("p", "u", "Always", nil, deaf...)
		time.Sleep(5 * time.Second)
		w.delete("p", 600)
		time.Sleep(10 * time.Second)
		w.ended("p", "u", 3)
	}},
	{name: "deadline", play: func(w *world) {
		w.create("p", "u", "Always", func(pod *corev1.Pod) {
			deadline := int64(10)
			pod.Spec.ActiveDeadlineSeconds = &deadline
		}, forever...)
		time.Sleep(time.Minute)
		w.phase("p", corev1.PodFailed)
		if reason := w.get("p").Status.Reason; reason != "DeadlineExceeded" {
			w.t.Errorf("reason %q", reason)
		}
		w.ended("p", "u", 30)
	}},
	{name: "vanishes from the remote", play: func(w *world) {
		w.create("p", "u", "Always", nil, forever...)
		time.Sleep(5 * time.Second)
		w.remote.Vanish("u")
		time.Sleep(time.Minute)
		w.phase("p", corev1.PodRunning)
		if n := w.restarts("p"); n > 1 {
			w.t.Errorf("%d restarts", n)
		}
		w.ended("p", "u", 30)
	}},
	{name: "deleted before anybody comes back", play: func(w *world) {
		w.create("p", "u", "Always", configured, forever...)
		time.Sleep(200 * time.Millisecond)
		w.ended("p", "u", 1)
	}},
	{name: "vanishes and may not run again", play: func(w *world) {
		w.create("p", "u", "Never", inits([]string{"true"}), forever...)
		w.becomes(time.Minute, "p", corev1.PodRunning, 0)
		w.remote.Vanish("u")
		w.becomes(time.Minute, "p", corev1.PodFailed, 0)
		w.made("u", "a", 1)
		w.ended("p", "u", 30)
	}},
	{name: "vanishes, init containers and all", play: func(w *world) {
		w.create("p", "u", "Always", inits([]string{"sleep", "1"}), forever...)
		w.becomes(time.Minute, "p", corev1.PodRunning, 0)
		w.remote.Vanish("u")
		w.becomes(time.Minute, "p", corev1.PodRunning, 1)
		w.made("u", "i1", 2)
		w.made("u", "a", 2)
		w.ended("p", "u", 30)
	}},
	{name: "its host evicts it while nobody is connected", single: true, play: func(w *world) {
		w.create("p", "u", "Always", nil, forever...)
		message := "Usage of EmptyDir volume \"v\" exceeds the limit \"10\". "
		for range 60 {
			if w.remote.Evict(
				"u", backend.Eviction{Limit: localstorage.EmptyDirLimit, Used: 11, Message: message, At: time.Now()},
			) {
				break
			}
			time.Sleep(time.Second)
		}
		w.becomes(time.Minute, "p", corev1.PodFailed, 0)
		if s := w.get("p").Status; s.Reason != "Evicted" || s.Message != message {
			w.t.Errorf("%s: %q", s.Reason, s.Message)
		}
		if e := w.event("p", "Evicted"); !strings.Contains(e, message) {
			w.t.Errorf("Event %q", e)
		}
		w.made("u", "a", 1)
		if facts := w.remote.Facts(); len(facts) > 0 {
			w.t.Errorf("its host needs the room, and has %+v", facts)
		}
		w.ended("p", "u", 30)
	}},
	{name: "restarts all containers", single: true, cfg: sim.Config{Script: asksForAll}, play: func(w *world) {
		w.create("p", "u", "Never", func(pod *corev1.Pod) {
			inits([]string{"sleep", "1"})(pod)
			restartsAll(pod)
		}, "work")
		w.becomes(2*time.Minute, "p", corev1.PodRunning, 1)
		w.ready("p")
		for _, container := range []string{"s", "i1", "a"} {
			w.made("u", container, 2)
		}
		if n := w.starts("u", "b"); n != 1 && n != 2 { // a may end before its turn comes
			w.t.Errorf("container b was made %d times", n)
		}
		w.ended("p", "u", 30)
	}},
	{name: "refused", play: func(w *world) {
		w.create("p", "u", "Always", unsupported, forever...)
		time.Sleep(time.Minute)
		w.phase("p", corev1.PodFailed)
		w.refused("p")
		w.neverRan("u", "a")
		w.ended("p", "u", 30)
	}},
}

// configMap changes while the pod that mounts it runs.
func configMap(w *world) {
	w.create("p", "u", "Always", configured, forever...)
	time.Sleep(10 * time.Second)
	w.setConfig(config("last"))
	w.becomes(time.Minute, "p", corev1.PodRunning, 0)
	if v, ok := w.remote.Volume("u", "v"); w.remote.Backend().Files != nil && (!ok || string(v.Files[0].Data) != "last") {
		w.t.Errorf("the volume does not have the latest contents")
	}
	w.made("u", "a", 1)
	w.ended("p", "u", 30)
}

// unsupported asks for a field that no backend has.
func unsupported(pod *corev1.Pod) {
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
}

// becomes looks some time later what became of a pod.
func (w *world) becomes(d time.Duration, name string, phase corev1.PodPhase, restarts int32) {
	w.t.Helper()
	time.Sleep(d)
	w.phase(name, phase)
	if n := w.restarts(name); n != restarts {
		w.t.Errorf("%d restarts, want %d", n, restarts)
	}
}

// made counts how often a container was made, whatever was replied.
func (w *world) made(uid types.UID, container string, want int) {
	w.t.Helper()
	if n := w.starts(uid, container); n != want {
		w.t.Errorf("container %s of %s was made %d times, want %d", container, uid, n, want)
	}
}

func (w *world) starts(uid types.UID, container string) int {
	return w.remote.Audit().Starts[sim.ContainerKey{UID: uid, Name: container}]
}

func (w *world) neverRan(uid types.UID, container string) {
	w.t.Helper()
	for _, f := range w.remote.Facts() {
		for _, c := range f.Containers {
			if f.UID == uid && c.Name == container && !c.StartedAt.IsZero() {
				w.t.Errorf("container %s of %s ran", container, uid)
			}
		}
	}
}

func (w *world) ready(name string) {
	w.t.Helper()
	if !isReady(w.get(name)) {
		w.t.Errorf("%s is not ready: %+v", name, w.get(name).Status)
	}
}

// ended deletes a pod and sees it gone, though the engine is away meanwhile.
func (w *world) ended(name string, uid types.UID, grace int64) {
	w.t.Helper()
	w.delete(name, grace)
	time.Sleep(time.Duration(grace)*time.Second + 40*time.Second)
	w.gone(name, uid)
}

func (w *world) gone(name string, uid types.UID) {
	w.t.Helper()
	if pod := w.get(name); pod != nil && pod.UID == uid {
		w.t.Errorf("pod %s is still in the API: %+v", name, pod.Status)
	}
	for _, f := range w.remote.Facts() {
		if f.UID == uid {
			w.t.Errorf("attempt %d of pod %s is still on the remote", f.Attempt, uid)
		}
	}
}

// refused is a pod whose status and Events name the field.
func (w *world) refused(name string) {
	w.t.Helper()
	s := w.get(name).Status
	if s.Reason != "UnsupportedByBackend" || !strings.HasPrefix(s.Message, "Pod was rejected: ") ||
		!strings.Contains(s.Message, "spec.resourceClaims[0]") {
		w.t.Errorf("status %s: %s", s.Reason, s.Message)
	}
	if e := w.event(name, "UnsupportedByBackend"); !strings.Contains(e, "spec.resourceClaims[0]") {
		w.t.Errorf("Event %q does not name the field", e)
	}
}

// stopped is when a container was first asked to end; zero if it never was.
func (w *world) stopped(uid types.UID, container string) time.Time {
	for _, e := range w.remote.History() {
		if e.Kind == sim.Stopped && e.Pod.UID == uid && (e.Container == container || e.Container == "") {
			return e.At
		}
	}
	return time.Time{}
}

// stoppedAfter is a sidecar that was stopped when the first container, which
// takes so long, had ended. It holds where containers are stopped one by one.
func (w *world) stoppedAfter(uid types.UID, first string, takes time.Duration, sidecar string) {
	w.t.Helper()
	if a, b := w.stopped(uid, first), w.stopped(uid, sidecar); !w.podUnit && b.Before(a.Add(takes)) {
		w.t.Errorf("%s was asked to end at %s, its sidecar %s at %s already", first, a, sidecar, b)
	}
}

// hookedBeforeStop is a container whose hook ran to its end before it was stopped.
func (w *world) hookedBeforeStop(uid types.UID, container string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.stopped(uid, container)
	for _, e := range w.execs {
		if e.uid == uid && e.container == container && !e.at.After(at) {
			return
		}
	}
	w.t.Errorf("container %s was stopped at %s before its hook had ended: %+v", container, at, w.execs)
}
