package syncloop_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/syncloop"
	"github.com/burstlet/burstlet/syncloop/admit"
	"github.com/burstlet/burstlet/syncloop/eviction"
	"github.com/burstlet/burstlet/syncloop/imagegc"
	"github.com/burstlet/burstlet/syncloop/metrics"
	"github.com/burstlet/burstlet/syncloop/podsource"
	"github.com/burstlet/burstlet/syncloop/resolve"
	"github.com/burstlet/burstlet/test/kit/lane"
)

// api is the API server and the status writer of these tests: it holds pods,
// takes statuses, and lets a pod go once it is deleted and reclaimed.
type api struct {
	t      *testing.T
	mu     sync.Mutex
	pods   map[string]*corev1.Pod
	given  map[*corev1.Pod]*corev1.Pod // copies of those that the engine may have read
	rv     int
	source *podsource.Source
	engine *syncloop.Loop
	remote *sim.Remote
	events []string
	gone   map[types.UID]bool
	stop   func()
	// objects is what pods refer to, as the object cache would know it.
	objects resolve.Objects
	// gc is what images are collected by; nil for never. nodeEvents are told of the node.
	gc         *imagegc.Policy
	nodeEvents []string
	// eviction is what pods are evicted by; nil for never.
	eviction *eviction.Policy
	// shutdown is how long pods have to end when their host shuts down.
	shutdown []syncloop.ShutdownGrace
	// metrics are those of the next engine; nil: they are shown nowhere.
	metrics *metrics.Set
	// shuttingDown is what the engine said last of that.
	shuttingDown atomic.Bool
	// endedByOthers are the pods whose phase somebody else made terminal.
	endedByOthers map[types.UID]bool
	// eventsOf names what each of events is about: pod/container.
	eventsOf  []string
	annotated []map[string]string // of Events
	// statics are the static pods; synced is whether the API answers.
	statics []*corev1.Pod
	static  *podsource.Static
	synced  atomic.Bool
	// node is what the engine asks about its node; nil for one that takes every pod.
	node func() syncloop.Node
}

// setNode changes what the node is.
func (a *api) setNode(node func() syncloop.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.node = node
}

// nodeOf is what the node is.
func (a *api) nodeOf(b backend.Backend) syncloop.Node {
	a.mu.Lock()
	now := a.node
	a.mu.Unlock()
	if now == nil {
		return node(b)
	}
	return now()
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

// setStatic has the node's static pods be these.
func (a *api) setStatic(pods ...*corev1.Pod) {
	a.mu.Lock()
	a.statics = pods
	static, source := a.static, a.source
	a.mu.Unlock()
	for _, key := range static.Set(pods) {
		source.Enqueue(key)
	}
}

func newAPI(t *testing.T) *api {
	a := &api{
		t: t, pods: map[string]*corev1.Pod{},
		gone: map[types.UID]bool{}, endedByOthers: map[types.UID]bool{},
	}
	a.synced.Store(true)
	if !lane.Thinned() { // the engine writes the same without the detector
		a.given = map[*corev1.Pod]*corev1.Pod{}
		t.Cleanup(a.onlyRead)
	}
	return a
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
	if a.given != nil {
		a.given[pod] = pod.DeepCopy()
	}
}

// onlyRead fails when the engine wrote to a pod: it shares them with whoever has them from
// the informer. All fields count, also those that only a quantity itself knows.
func (a *api) onlyRead() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for pod, was := range a.given {
		if !reflect.DeepEqual(pod, was) {
			a.t.Errorf("the engine wrote to pod %s of version %s: %v, and was %v", pod.Name, pod.ResourceVersion, pod, was)
		}
	}
}

// create adds a pod whose only app container runs argv.
func (a *api) create(
	name string, uid types.UID, policy corev1.RestartPolicy, change func(*corev1.Pod), argv ...string,
) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid, CreationTimestamp: metav1.Now()},
		Spec: corev1.PodSpec{
			RestartPolicy: policy,
			Containers: []corev1.Container{{
				Name: "a", Image: "busybox", Command: argv, ImagePullPolicy: corev1.PullIfNotPresent,
			}},
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
	if a.endedByOthers[pod.UID] { // it stays, whatever was decided a moment before, as the status writer has it
		status.Phase, status.Reason, status.Message = old.Phase, old.Reason, old.Message
	}
	if (old.Phase == corev1.PodFailed || old.Phase == corev1.PodSucceeded) && status.Phase != old.Phase {
		a.t.Errorf("%s went from %s to %s", pod.Name, old.Phase, status.Phase)
	}
	if (status.Phase == corev1.PodFailed || status.Phase == corev1.PodSucceeded) &&
		a.engine.CouldHaveRunningContainers(pod.UID) {
		status.Phase = old.Phase // held back, as the status writer does
	}
	a.checkTransition(pod, &old, &status)
	if (status.Phase == corev1.PodFailed || status.Phase == corev1.PodSucceeded) && status.Phase != old.Phase {
		a.proveEnded(pod, status.Phase)
	}
	held = held.DeepCopy()
	held.Status = status
	a.put(held)
	a.source.Enqueue(pod.Namespace + "/" + pod.Name)
}

// touch tells the engine that runs now that a pod changed.
func (a *api) touch(key string) {
	a.mu.Lock()
	source := a.source
	a.mu.Unlock()
	source.Enqueue(key)
}

// checkTransition refuses what the API and the invariants refuse.
func (a *api) checkTransition(pod *corev1.Pod, old, status *corev1.PodStatus) {
	a.t.Helper()
	for i := range old.ContainerStatuses {
		if i < len(status.ContainerStatuses) &&
			status.ContainerStatuses[i].RestartCount < old.ContainerStatuses[i].RestartCount {
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
		if len(c.RestartPolicyRules) > 0 &&
			c.RestartPolicyRules[0].Action == corev1.ContainerRestartRuleActionRestartAllContainers {
			return true
		}
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
		a.source.Enqueue(key)
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

func (a *api) Event(pod *corev1.Pod, container, _, reason, message string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, pod.Name+" "+reason+" "+message)
	a.eventsOf = append(a.eventsOf, pod.Name+"/"+container+" "+reason)
}

func (a *api) Annotated(pod *corev1.Pod, annotations map[string]string, kind, reason, message string) {
	a.Event(pod, "", kind, reason, message)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.annotated = append(a.annotated, annotations)
}

func (a *api) tellNode(kind, reason, message string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nodeEvents = append(a.nodeEvents, kind+" "+reason+" "+message)
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
		t.Logf(
			"%s %s %s attempt %d %s/%d grace %s", e.At.Format("04:05.000"), e.Kind, e.Pod.UID, e.Pod.Attempt, e.Container,
			e.Attempt, e.Grace,
		)
	}
}

// start runs an engine over the same API and remote until a.stop.
func (a *api) start(b backend.Backend) { a.startAs(context.Background(), b, a) }

// startAs is start for an engine whose statuses go through a writer of its own.
func (a *api) startAs(ctx context.Context, b backend.Backend, status syncloop.Status) {
	static := podsource.NewStatic(a)
	static.Set(a.statics)
	source := podsource.New(static, a.synced.Load)
	engine, err := syncloop.New(syncloop.Config{
		Backend: b, Source: source, Status: status, Events: a, Objects: a, Pulls: 5,
		Node:    func() syncloop.Node { return a.nodeOf(b) },
		ImageGC: a.gc, NodeEvent: a.tellNode, Eviction: a.eviction,
		Shutdown: a.shutdown, ShuttingDown: a.shuttingDown.Store, Metrics: a.metrics,
	})
	if err != nil {
		a.t.Error(err)
		return
	}
	a.mu.Lock()
	a.static, a.source, a.engine = static, source, engine
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
		if pod := pods[f.UID]; pod != nil && f.Live {
			found = append(found, uninitialised(pod, &f)...)
		}
	}
	return found
}

// uninitialised are the init containers that were to run in an attempt, and did
// not, though its app containers were made.
func uninitialised(pod *corev1.Pod, f *backend.PodFacts) (missing []string) {
	// round is the last in which a container was made; -1 if it never was.
	round := func(name string) int {
		n := -1
		for _, c := range f.Containers {
			if c.Name == name {
				n = max(n, c.Round)
			}
		}
		return n
	}
	app := round(pod.Spec.Containers[0].Name)
	for _, c := range pod.Spec.InitContainers {
		if round(c.Name) < app {
			missing = append(missing, fmt.Sprintf("attempt %d of pod %s has its app container, and init container %s did "+
				"not run in it (round %d)",
				f.Attempt, f.UID, c.Name, app))
		}
	}
	return append(missing, mixedRounds(f)...)
}

// mixedRounds are containers that run beside one of a later round, which was to begin when
// they had all ended.
func mixedRounds(f *backend.PodFacts) (late []string) {
	last := 0
	for _, c := range f.Containers {
		last = max(last, c.Round)
	}
	for _, c := range f.Containers {
		if c.State() == backend.Running && c.Round < last {
			late = append(
				late, fmt.Sprintf("container %s of pod %s runs in round %d beside round %d", c.Name, f.UID, c.Round, last),
			)
		}
	}
	return late
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
