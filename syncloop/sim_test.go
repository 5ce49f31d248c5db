package syncloop_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/syncloop"
	"github.com/burstlet/burstlet/syncloop/admit"
	"github.com/burstlet/burstlet/syncloop/podsource"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

// api is the API server and the status writer of these tests: it holds pods,
// takes statuses, and lets a pod go once it is deleted and reclaimed.
type api struct {
	t      *testing.T
	mu     sync.Mutex
	pods   map[string]*corev1.Pod
	rv     int
	source *podsource.Source
	engine *syncloop.Loop
	remote *sim.Remote
	events []string
	gone   map[types.UID]bool
	stop   func()
	// objects is what pods refer to, as the object cache would know it.
	objects resolve.Objects
}

func (a *api) Set(*corev1.Pod)                         {}
func (a *api) Adopt(*corev1.Pod, map[string]time.Time) {}
func (a *api) Objects(*corev1.Pod) resolve.Objects {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.objects
	o.ServicesSynced = true
	return o
}

func newAPI(t *testing.T) *api {
	return &api{t: t, pods: map[string]*corev1.Pod{}, gone: map[types.UID]bool{}}
}

// setConfig sets the ConfigMap that pods refer to.
func (a *api) setConfig(o resolve.Object[*corev1.ConfigMap]) {
	a.mu.Lock()
	a.objects.ConfigMaps = map[string]resolve.Object[*corev1.ConfigMap]{"config": o}
	engine := a.engine
	var uids []types.UID
	for _, pod := range a.pods {
		uids = append(uids, pod.UID)
	}
	a.mu.Unlock()
	if engine != nil {
		for _, uid := range uids {
			engine.Poke(uid)
		}
	}
}

// update changes a pod's spec.
func (a *api) update(name string, change func(*corev1.Pod)) {
	a.mu.Lock()
	if pod := a.pods["ns/"+name]; pod != nil {
		pod = pod.DeepCopy()
		change(pod)
		a.put(pod)
	}
	a.mu.Unlock()
	a.touch("ns/" + name)
}

// node is one that takes every pod.
func node(b backend.Backend) syncloop.Node {
	n := syncloop.Node{Cluster: resolve.Node{Name: "node"}}
	n.Admission = admit.Node{Name: "node", OS: "linux", Allocatable: corev1.ResourceList{
		"cpu": resource.MustParse("1000"), "memory": resource.MustParse("1Ti"), "pods": resource.MustParse("1000"),
	}, Can: admit.AbilitiesOf(b)}
	return n
}

func (a *api) ListKeys() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var keys []string
	for k := range a.pods {
		keys = append(keys, k)
	}
	return keys
}

func (a *api) GetByKey(key string) (any, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pod, ok := a.pods[key]
	return pod, ok, nil
}

func (a *api) put(pod *corev1.Pod) {
	a.rv++
	pod.ResourceVersion = fmt.Sprint(a.rv)
	a.pods[pod.Namespace+"/"+pod.Name] = pod
}

// create adds a pod whose only app container runs argv.
func (a *api) create(name string, uid types.UID, policy corev1.RestartPolicy, change func(*corev1.Pod), argv ...string) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid, CreationTimestamp: metav1.Now()},
		Spec: corev1.PodSpec{
			RestartPolicy: policy,
			Containers:    []corev1.Container{{Name: "a", Image: "busybox", Command: argv, ImagePullPolicy: corev1.PullIfNotPresent}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if change != nil {
		change(pod)
	}
	a.mu.Lock()
	a.put(pod)
	a.mu.Unlock()
	a.touch("ns/" + name)
}

func (a *api) delete(name string, grace int64) {
	a.mu.Lock()
	if pod := a.pods["ns/"+name]; pod != nil {
		pod = pod.DeepCopy()
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(time.Duration(grace) * time.Second)}
		pod.DeletionGracePeriodSeconds = &grace
		a.put(pod)
	}
	a.mu.Unlock()
	a.touch("ns/" + name)
}

// force removes a pod without waiting for anybody.
func (a *api) force(name string) {
	a.mu.Lock()
	delete(a.pods, "ns/"+name)
	a.mu.Unlock()
	a.touch("ns/" + name)
}

func (a *api) get(name string) *corev1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods["ns/"+name]
}

func (a *api) SetStatus(pod *corev1.Pod, status corev1.PodStatus) {
	a.mu.Lock()
	defer a.mu.Unlock()
	held := a.pods[pod.Namespace+"/"+pod.Name]
	if held == nil || held.UID != pod.UID {
		return
	}
	old := held.Status
	if (old.Phase == corev1.PodFailed || old.Phase == corev1.PodSucceeded) && status.Phase != old.Phase {
		a.t.Errorf("%s went from %s to %s", pod.Name, old.Phase, status.Phase)
	}
	if (status.Phase == corev1.PodFailed || status.Phase == corev1.PodSucceeded) && a.engine.CouldHaveRunningContainers(pod.UID) {
		status.Phase = old.Phase // held back, as the status writer does
	}
	a.checkTransition(pod, &old, &status)
	if status.Phase == corev1.PodFailed || status.Phase == corev1.PodSucceeded {
		a.proveEnded(pod, status.Phase)
	}
	held = held.DeepCopy()
	held.Status = status
	a.put(held)
	a.source.Touch(pod.Namespace + "/" + pod.Name)
}

// touch tells the engine that runs now that a pod changed.
func (a *api) touch(key string) {
	a.mu.Lock()
	source := a.source
	a.mu.Unlock()
	source.Touch(key)
}

// checkTransition refuses what the API and the invariants refuse.
func (a *api) checkTransition(pod *corev1.Pod, old, status *corev1.PodStatus) {
	a.t.Helper()
	for i := range old.ContainerStatuses {
		if i < len(status.ContainerStatuses) && status.ContainerStatuses[i].RestartCount < old.ContainerStatuses[i].RestartCount {
			a.t.Errorf("%s: restart count went back from %d to %d", pod.Name,
				old.ContainerStatuses[i].RestartCount, status.ContainerStatuses[i].RestartCount)
		}
	}
	for _, pair := range [][2][]corev1.ContainerStatus{
		{old.InitContainerStatuses, status.InitContainerStatuses}, {old.ContainerStatuses, status.ContainerStatuses},
	} {
		for i, was := range pair[0] {
			if i < len(pair[1]) && was.State.Terminated != nil && pair[1][i].State.Terminated == nil &&
				!mayComeBack(pod, was.Name, was.State.Terminated.ExitCode) {
				a.t.Errorf("%s: container %s came back, the API refuses that: %+v", pod.Name, was.Name, pair[1][i].State)
			}
		}
	}
}

// mayComeBack is what pod validation lets a status tell of a container that had
// ended (ValidateContainerStateTransition).
func mayComeBack(pod *corev1.Pod, name string, code int32) bool {
	switch pod.Spec.RestartPolicy {
	case corev1.RestartPolicyAlways:
		return true
	case corev1.RestartPolicyOnFailure:
		if code != 0 {
			return true
		}
	}
	for _, c := range append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...) {
		if c.Name == name && c.RestartPolicy != nil {
			return *c.RestartPolicy == corev1.ContainerRestartPolicyAlways || len(c.RestartPolicyRules) > 0 && code == 42
		}
	}
	return false
}

func (a *api) Reclaimed(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone[uid] = true
	for key, pod := range a.pods {
		if pod.UID != uid || pod.DeletionTimestamp == nil {
			continue
		}
		a.proveGone(pod)
		switch none := int64(0); {
		case len(pod.Finalizers) == 0:
			delete(a.pods, key)
		case *pod.DeletionGracePeriodSeconds != none: // it stays for whoever put them
			pod = pod.DeepCopy()
			pod.DeletionGracePeriodSeconds = &none
			a.put(pod)
		default:
			continue
		}
		a.source.Touch(key)
	}
}

// proveEnded looks whether no container of a pod runs that is said to have ended.
func (a *api) proveEnded(pod *corev1.Pod, phase corev1.PodPhase) {
	for _, f := range a.remote.Facts() {
		for _, c := range f.Containers {
			if f.UID == pod.UID && c.State() == backend.Running {
				a.t.Errorf("pod %s %s is said to have %s, and container %s runs", pod.Name, pod.UID, phase, c.Name)
			}
		}
	}
}

// proveGone looks whether of a pod that is said to be reclaimed nothing is left.
func (a *api) proveGone(pod *corev1.Pod) {
	for _, f := range a.remote.Facts() {
		if f.UID == pod.UID {
			a.t.Errorf("pod %s %s is said to be reclaimed, and attempt %d is on the remote", pod.Name, pod.UID, f.Attempt)
		}
	}
	for _, v := range pod.Spec.Volumes {
		if _, ok := a.remote.Volume(pod.UID, v.Name); ok && a.remote.Backend().Files != nil {
			a.t.Errorf("pod %s %s is said to be reclaimed, and volume %s is on the remote", pod.Name, pod.UID, v.Name)
		}
	}
}

// finish takes the finalizers off a pod; one that waited for that alone goes.
func (a *api) finish(name string) {
	a.mu.Lock()
	if pod := a.pods["ns/"+name]; pod != nil {
		pod = pod.DeepCopy()
		pod.Finalizers = nil
		if a.put(pod); a.gone[pod.UID] {
			delete(a.pods, "ns/"+name)
		}
	}
	a.mu.Unlock()
	a.touch("ns/" + name)
}

func (a *api) Observe(*corev1.Pod) {}
func (a *api) Forget(types.UID)    {}

func (a *api) Eventf(pod *corev1.Pod, _, reason, format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, pod.Name+" "+reason+" "+fmt.Sprintf(format, args...))
}

// event returns the first Event about a pod with a reason; "" if there is none.
func (a *api) event(name, reason string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.events {
		if strings.HasPrefix(e, name+" "+reason+" ") {
			return e
		}
	}
	return ""
}

// history prints what truly happened on the remote.
func history(t *testing.T, remote *sim.Remote) {
	for _, e := range remote.History() {
		t.Logf("%s %s %s attempt %d %s/%d grace %s", e.At.Format("04:05.000"), e.Kind, e.Pod.UID, e.Pod.Attempt, e.Container, e.Attempt, e.Grace)
	}
}

// start runs an engine over the same API and remote until a.stop.
func (a *api) start(b backend.Backend) { a.startAs(context.Background(), b, a) }

// startAs is start for an engine whose statuses go through a writer of its own.
func (a *api) startAs(ctx context.Context, b backend.Backend, status syncloop.Status) {
	source := podsource.New(a, func() bool { return true })
	engine, err := syncloop.New(syncloop.Config{
		Backend: b, Source: source, Status: status, Events: a, Objects: a, Pulls: 5, Node: func() syncloop.Node { return node(b) },
	})
	if err != nil {
		a.t.Error(err)
		return
	}
	a.mu.Lock()
	a.source, a.engine = source, engine
	a.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	a.stop = func() {
		cancel()
		if err := <-done; err != nil {
			a.t.Error(err)
		}
	}
}

// each runs f in virtual time on both granularities.
func each(t *testing.T, cfg sim.Config, f func(t *testing.T, a *api)) {
	for name, podUnit := range map[string]bool{"containers": false, "task": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := cfg
				cfg.PodUnit, cfg.Record = podUnit, true
				a := newAPI(t)
				a.remote = sim.New(cfg)
				a.start(a.remote.Backend())
				defer func() { a.stop() }()
				time.Sleep(time.Second)
				f(t, a)
				a.audit()
			})
		})
	}
}

func (a *api) audit() {
	a.t.Helper()
	for _, v := range a.violations() {
		a.t.Fatal(v)
	}
}

// violations are what must not be at any moment: a pod that runs twice, one that
// was said to be gone and is not, an app beside which no init container ran.
func (a *api) violations() []string {
	var found []string
	for _, v := range a.remote.Audit().Violations {
		found = append(found, v.Error())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	pods := map[types.UID]*corev1.Pod{}
	for _, pod := range a.pods {
		pods[pod.UID] = pod
	}
	for _, f := range a.remote.Facts() {
		if a.gone[f.UID] {
			found = append(found, fmt.Sprintf("pod %s was said to be gone, and attempt %d is on the remote", f.UID, f.Attempt))
		}
		if pod := pods[f.UID]; pod != nil {
			found = append(found, uninitialised(pod, &f)...)
		}
	}
	return found
}

// uninitialised are the init containers that were to run in an attempt, and did
// not, though its app containers were made.
func uninitialised(pod *corev1.Pod, f *backend.PodFacts) (missing []string) {
	made := func(name string) bool {
		return slices.ContainsFunc(f.Containers, func(c backend.ContainerFacts) bool { return c.Name == name })
	}
	for _, c := range pod.Spec.InitContainers {
		if made(pod.Spec.Containers[0].Name) && !made(c.Name) {
			missing = append(missing, fmt.Sprintf("attempt %d of pod %s has its app container, and init container %s did not run in it",
				f.Attempt, f.UID, c.Name))
		}
	}
	return missing
}

func (a *api) remotePods() int {
	facts, err := a.remote.Backend().Pods.List(context.Background())
	if err != nil {
		a.t.Fatal(err)
	}
	return len(facts)
}

func (a *api) phase(name string, want corev1.PodPhase) {
	a.t.Helper()
	pod := a.get(name)
	if pod == nil {
		a.t.Fatalf("pod %s is gone", name)
	}
	if pod.Status.Phase != want {
		a.t.Errorf("pod %s is %s, want %s: %+v", name, pod.Status.Phase, want, pod.Status.ContainerStatuses)
	}
}

func (a *api) restarts(name string) int32 {
	return a.get(name).Status.ContainerStatuses[0].RestartCount
}

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
		{name: "success", policy: "Never", argv: []string{"true"}, wait: 5 * time.Second, phase: "Succeeded", reason: "Completed"},
		{name: "failure never", policy: "Never", argv: []string{"false"}, wait: 5 * time.Second, phase: "Failed", reason: "Error"},
		{name: "success on failure", policy: "OnFailure", argv: []string{"true"}, wait: 5 * time.Second, phase: "Succeeded"},
		// at once, then after 10, 20, 40 s: 0, 10, 30, 70
		{name: "failure on failure", policy: "OnFailure", argv: []string{"false"}, wait: 65 * time.Second, phase: "Running", reason: "CrashLoopBackOff", counts: 3},
		{name: "failure always", policy: "Always", argv: []string{"false"}, wait: 75 * time.Second, phase: "Running", reason: "CrashLoopBackOff", counts: 4},
		{name: "success always", policy: "Always", argv: []string{"true"}, wait: 5 * time.Second, phase: "Running", reason: "CrashLoopBackOff", counts: 1},
		{name: "init", policy: "Always", init: []string{"true"}, argv: []string{"sleep", "infinity"}, wait: 5 * time.Second, phase: "Running"},
		{name: "init again with the task", policy: "OnFailure", init: []string{"sleep", "1"}, argv: []string{"sh", "-c", "sleep 1; exit 1"}, wait: 17 * time.Second, phase: "Running", counts: 2},
		{name: "init failure never", policy: "Never", init: []string{"false"}, argv: []string{"true"}, wait: 5 * time.Second, phase: "Failed", reason: "PodInitializing"},
		{name: "init failure always", policy: "Always", init: []string{"false"}, argv: []string{"true"}, wait: 5 * time.Second, phase: "Pending", reason: "PodInitializing"},
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
	for _, after := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			cfg := sim.Config{Latency: sim.Latency{API: 10 * time.Millisecond, Launch: time.Second, Pull: time.Second, Start: time.Second}}
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
			if pods := a.engine.Pods(); len(pods) != 0 {
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
			if s := a.get("never").Status.ContainerStatuses[0].State.Terminated; s == nil || s.Reason != "ContainerStatusUnknown" || s.ExitCode != 137 {
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
				a.remote = sim.New(sim.Config{PodUnit: podUnit, Record: true, Latency: sim.Latency{API: 20 * time.Millisecond, Start: time.Second}})
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

// TestDiesWhileLaunching ends the engine while a launch is under way and
// restarts it when the pod is already being deleted: the launch appears after
// the restart, and must not outlive the pod.
func TestDiesWhileLaunching(t *testing.T) {
	for name, podUnit := range map[string]bool{"containers": false, "task": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t)
				a.remote = sim.New(sim.Config{PodUnit: podUnit, Record: true})
				a.start(a.remote.Backend())
				a.create("p", "u", "Always", func(pod *corev1.Pod) {
					pod.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Second))
				}, "sleep", "infinity")
				late := a.get("p")
				a.stop() // before it acted
				b := a.remote.Backend()
				b.Limits.Settle = 4 * time.Second
				a.start(b)
				a.delete("p", 1)
				time.Sleep(3 * time.Second)
				spec := backend.LaunchSpec{Pod: late}
				if podUnit {
					spec.Containers = []backend.ContainerSpec{{Pod: late, Container: late.Spec.Containers[0]}}
				}
				if err := b.Pods.Launch(t.Context(), spec); err != nil { // the call of the life before
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
		}{{"none", "a", false, backend.ErrNotFound}, {"p", "none", false, backend.ErrNotFound}, {"p", "a", true, backend.ErrInvalid}} {
			if _, err := a.engine.ContainerLogs(context.Background(), "ns", tt.pod, tt.container, tt.previous, backend.LogOptions{}); !errors.Is(err, tt.class) {
				t.Errorf("%+v: %v", tt, err)
			}
		}
	})
}
