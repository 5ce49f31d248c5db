package statusmgr

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apifields "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/burstlet/burstlet/test/kit/background"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

var plane cptest.Shared

func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }

const realNode = "statusmgr-node"

// realAPI is a Manager with a node's own rights on a real API server.
type realAPI struct {
	*Manager
	t     *testing.T
	admin corev1client.PodInterface
	calls *counted

	mu     sync.Mutex
	mayRun bool
}

func (r *realAPI) CouldHaveRunningContainers(types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mayRun
}

func newReal(t *testing.T) *realAPI {
	t.Helper()
	cp := plane.Get(t)
	admin := cptest.Client(t, cp.AdminConfig())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: realNode}}
	if _, err := admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	cred, err := cp.NodeCredential(realNode)
	if err != nil {
		t.Fatal(err)
	}
	client := cptest.Client(t, cred)
	r := &realAPI{t: t, admin: admin.CoreV1().Pods(metav1.NamespaceDefault), calls: &counted{
		PodsGetter: client.CoreV1(), n: make(map[string]int),
	}}
	r.Manager = New(Config{Client: r.calls, Safety: r})
	background.Run(t, r.Run)
	return r
}

// counted counts the calls to the API server.
type counted struct {
	corev1client.PodsGetter
	mu sync.Mutex
	n  map[string]int
}

type countedPods struct {
	corev1client.PodInterface
	c *counted
}

func (c *counted) Pods(ns string) corev1client.PodInterface {
	return countedPods{c.PodsGetter.Pods(ns), c}
}

func (c *counted) count(verb string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[verb]++
}

func (p countedPods) List(ctx context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	p.c.count("list")
	return p.PodInterface.List(ctx, o)
}

func (p countedPods) Patch(
	ctx context.Context, name string, k types.PatchType, d []byte, o metav1.PatchOptions, s ...string,
) (*corev1.Pod, error) {
	p.c.count("patch")
	return p.PodInterface.Patch(ctx, name, k, d, o, s...)
}

func (p countedPods) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	p.c.count("delete")
	return p.PodInterface.Delete(ctx, name, o)
}

func (r *realAPI) expect(patches, deletes, lists int) {
	r.t.Helper()
	r.calls.mu.Lock()
	defer r.calls.mu.Unlock()
	if n := r.calls.n; n["patch"] != patches || n["delete"] != deletes || n["list"] != lists {
		r.t.Fatalf("calls %v, want %d patches, %d deletes, %d lists", n, patches, deletes, lists)
	}
}

// create makes a pod on the node; it is removed with the test.
func (r *realAPI) create(name string, change func(*corev1.Pod)) *corev1.Pod {
	r.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: realNode, RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "a", Image: "i"}, {Name: "b", Image: "i"}},
		},
	}
	pod.Spec.AutomountServiceAccountToken = new(bool)
	if change != nil {
		change(pod)
	}
	var made *corev1.Pod
	r.within("create the pod", func() bool { // the service account comes a moment after the start
		var err error
		made, err = r.admin.Create(r.t.Context(), pod, metav1.CreateOptions{})
		if err != nil && !apierrors.IsForbidden(err) {
			r.t.Fatal(err)
		}
		return err == nil
	})
	r.t.Cleanup(func() {
		err := r.admin.Delete(context.Background(), name, *metav1.NewDeleteOptions(0))
		if err != nil && !apierrors.IsNotFound(err) {
			r.t.Error(err)
		}
	})
	return made
}

func (r *realAPI) get(name string) *corev1.Pod {
	r.t.Helper()
	pod, err := r.admin.Get(r.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return pod
}

func (r *realAPI) within(what string, cond func() bool) {
	r.t.Helper()
	wait.Holds(r.t, 3*time.Minute, what, cond)
}

// idle waits until the Manager has nothing to do.
func (r *realAPI) idle() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 3*time.Minute)
	defer cancel()
	if err := r.Flush(ctx); err != nil {
		r.t.Fatal(err)
	}
}

// realStatus is a status as a kubelet sends it, made for create's pods.
func realStatus(from func() corev1.PodStatus) corev1.PodStatus {
	s := from()
	for i := range s.ContainerStatuses {
		s.ContainerStatuses[i].Image, s.ContainerStatuses[i].ImageID = "i", "i"
	}
	return s
}

func realEnded() corev1.PodStatus { return ended(corev1.PodSucceeded) }

func TestRealPatchAndEqualStatus(t *testing.T) {
	r := newReal(t)
	pod := r.create("patch", func(p *corev1.Pod) {
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	})
	gated := pod.DeepCopy()
	gated.Status.Conditions = append(gated.Status.Conditions, condTrue("example.com/gate"))
	if _, err := r.admin.UpdateStatus(t.Context(), gated, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s := realStatus(running)
	r.SetStatus(pod, s) // the object from before the gate: refused, read again, written
	r.idle()
	got := r.get("patch")
	if got.Status.Phase != corev1.PodRunning || got.Status.PodIP != "10.0.0.1" ||
		got.Status.ObservedGeneration != got.Generation {
		t.Errorf("status %+v", got.Status)
	}
	for _, c := range []corev1.PodConditionType{
		"example.com/gate", corev1.PodReady, corev1.ContainersReady, corev1.PodInitialized,
	} {
		if findCondition(got.Status.Conditions, c) == nil {
			t.Errorf("no condition %s", c)
		}
	}
	if c := findCondition(got.Status.Conditions, corev1.PodReady); c != nil && c.ObservedGeneration != got.Generation {
		t.Errorf("condition observes generation %d of %d", c.ObservedGeneration, got.Generation)
	}
	r.expect(2, 0, 1)

	r.Observe(got)
	r.SetStatus(got, s)
	r.idle()
	// A new process, which knows only what the API holds.
	second := newReal(t)
	second.Observe(got)
	second.SetStatus(got, s)
	second.idle()
	r.expect(2, 0, 1)
	second.expect(0, 0, 0)
	if v := r.get("patch").ResourceVersion; v != got.ResourceVersion {
		t.Errorf("resourceVersion went from %s to %s", got.ResourceVersion, v)
	}
}

func TestRealSuccessorIsNotTouched(t *testing.T) {
	r := newReal(t)
	old := r.create("successor", nil)
	if err := r.admin.Delete(t.Context(), "successor", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	next := r.create("successor", nil)
	r.SetStatus(old, realStatus(running))
	r.idle()
	if got := r.get("successor"); got.UID != next.UID || got.ResourceVersion != next.ResourceVersion {
		t.Errorf("the successor was written: %+v", got.Status)
	}
	r.expect(1, 0, 1)
	if _, ok := r.Status(old.UID); ok {
		t.Error("the old pod's status is still held")
	}
}

// A pod that is gone when its end is to be completed costs no second try: nobody may
// be there any more to tell of it, as when the process ends.
func TestRealPodGoneBeforeItsDelete(t *testing.T) {
	r := newReal(t)
	r.create("gone", nil)
	if err := r.admin.Delete(t.Context(), "gone", *metav1.NewDeleteOptions(30)); err != nil {
		t.Fatal(err)
	}
	pod := r.get("gone")
	r.Observe(pod)
	r.SetStatus(pod, realEnded())
	r.idle()
	if err := r.admin.Delete(t.Context(), "gone", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	r.Reclaimed(pod.UID)
	if err := r.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	r.expect(1, 1, 1)
}

func TestRealVanishedPodIsDropped(t *testing.T) {
	r := newReal(t)
	pod := r.create("vanished", nil)
	if err := r.admin.Delete(t.Context(), "vanished", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	r.SetStatus(pod, realStatus(running))
	r.idle()
	if _, ok := r.Status(pod.UID); ok {
		t.Error("its status is still held")
	}
}

func TestRealGracefulDelete(t *testing.T) {
	r := newReal(t)
	pod := r.create("graceful", nil)
	r.follow("graceful")
	r.SetStatus(pod, realStatus(running))
	r.idle()
	if err := r.admin.Delete(t.Context(), "graceful", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.SetStatus(r.get("graceful"), realStatus(realEnded))
	r.idle()
	if got := r.get("graceful"); got == nil || got.Status.Phase != corev1.PodSucceeded {
		t.Fatalf("before Reclaimed the API holds %+v", got)
	}
	r.Reclaimed(pod.UID)
	r.idle()
	if got := r.get("graceful"); got != nil {
		t.Errorf("not deleted: %+v", got.ObjectMeta)
	}
	r.expect(2, 1, 0)
}

func TestRealDeleteSparesTheSuccessor(t *testing.T) {
	r := newReal(t)
	pod := r.create("spared", nil)
	if err := r.admin.Delete(t.Context(), "spared", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.SetStatus(r.get("spared"), realStatus(realEnded))
	r.idle()
	if err := r.admin.Delete(t.Context(), "spared", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	next := r.create("spared", nil)
	r.Reclaimed(pod.UID)
	r.idle()
	r.expect(1, 1, 1)
	if got := r.get("spared"); got == nil || got.UID != next.UID || got.DeletionTimestamp != nil {
		t.Errorf("the successor is %+v", got)
	}
}

func TestRealFinalizedPodIsDeletedOnce(t *testing.T) {
	r := newReal(t)
	pod := r.create("finalized", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/keep"} })
	r.follow("finalized")
	if err := r.admin.Delete(t.Context(), "finalized", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.SetStatus(r.get("finalized"), realStatus(realEnded))
	r.Reclaimed(pod.UID)
	r.idle()
	for _, value := range []string{"1", "2", "3"} {
		patch := []byte(`{"metadata":{"annotations":{"n":"` + value + `"}}}`)
		if _, err := r.admin.Patch(t.Context(), "finalized", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		r.idle()
	}
	r.expect(1, 1, 0)
	if _, err := r.admin.Patch(
		t.Context(), "finalized", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{},
	); err != nil {
		t.Fatal(err)
	}
	if got := r.get("finalized"); got != nil {
		t.Errorf("it outlived its finalizer: %+v", got.ObjectMeta)
	}
}

// The manager's object is older than what another writer made of it.
func TestRealStaleObject(t *testing.T) {
	t.Run("an ended container", func(t *testing.T) {
		r := newReal(t)
		pod := r.create("stale-container", nil)
		other := newReal(t)
		other.SetStatus(pod, realStatus(func() corev1.PodStatus { return ended(corev1.PodRunning) }))
		other.idle()
		r.SetStatus(pod, realStatus(running))
		r.idle()
		if s := r.get("stale-container").Status.ContainerStatuses[0]; s.State.Terminated == nil {
			t.Errorf("the ended container came back: %+v", s)
		}
		if _, ok := r.Status(pod.UID); ok {
			t.Error("the illegal status is still wanted")
		}
	})
	t.Run("an ended pod", func(t *testing.T) {
		r := newReal(t)
		pod := r.create("stale-phase", nil)
		failed := pod.DeepCopy()
		failed.Status.Phase, failed.Status.Reason = corev1.PodFailed, "NodeLost"
		if _, err := r.admin.UpdateStatus(t.Context(), failed, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		r.SetStatus(pod, realStatus(realEnded))
		r.idle()
		got := r.get("stale-phase").Status
		if got.Phase != corev1.PodFailed || got.Reason != "NodeLost" || len(got.ContainerStatuses) != 2 {
			t.Errorf("status %+v", got)
		}
	})
}

// follow hands the pod's changes to Observe, as the node's informer does.
func (r *realAPI) follow(name string) {
	r.t.Helper()
	list := cache.NewListWatchFromClient(
		r.watchClient(), "pods", metav1.NamespaceDefault, apifields.OneTermEqualSelector("metadata.name", name),
	)
	informer := cache.NewSharedInformer(list, &corev1.Pod{}, 0)
	observe := func(obj any) { r.Observe(obj.(*corev1.Pod)) }
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: observe, UpdateFunc: func(_, obj any) { observe(obj) },
	}); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); informer.Run(ctx.Done()) }()
	r.t.Cleanup(func() { cancel(); <-ended })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		r.t.Fatal("informer did not sync")
	}
}

func (r *realAPI) watchClient() cache.Getter {
	return cptest.Client(r.t, plane.Get(r.t).AdminConfig()).CoreV1().RESTClient()
}
