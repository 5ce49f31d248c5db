package removal

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"

	"github.com/burstlet/burstlet/backend"
)

// world is a cluster with nodes edge and other, burstlet that may run edge as a
// Deployment, and their remote.
type world struct {
	t      *testing.T
	client *fake.Clientset
	// tracker is what the client works on. It is made without fields' managers, which
	// take long to set up.
	tracker clienttesting.ObjectTracker

	mu sync.Mutex
	// running is true while burstlet runs edge; held while the removal has it.
	running, held bool
	// takers counts the nodes that are taken over.
	takers atomic.Int32
	// replicas are the Deployment's; stopped is when burstlet was told to end.
	replicas int32
	stopped  time.Time
	// remote has the pods that run there, by UID; secrets what it keeps beside.
	remote  map[types.UID]string
	secrets []string
	// unlisted is how often the remote answers that it cannot show them all yet.
	unlisted int
	// budget is the pod that its budget does not let go.
	budget string
	// stubborn controllers bind pods to a node that is gone.
	stubborn bool
	made     int
	lines    []string
	// onLine is told of each line.
	onLine func(n int, line string)
	// meanwhile is what others do just before something is deleted; it may be nil.
	meanwhile func(resource, name string)
	// leases counts the election's Leases, and revision the writes of them.
	leases, revision int
}

const grace = 3 * time.Second

var (
	election  = types.NamespacedName{Namespace: "burstlet", Name: "burstlet-edge"}
	podKind   = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	nodeKind  = corev1.SchemeGroupVersion.WithResource("nodes")
	leaseKind = coordinationv1.SchemeGroupVersion.WithResource("leases")
)

func newWorld(t *testing.T, running bool) *world {
	t.Helper()
	w := &world{
		t: t, client: &fake.Clientset{},
		tracker: clienttesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder()), running: running,
		remote: map[types.UID]string{}, secrets: []string{"secret s", "definition d"},
	}
	w.client.AddReactor("delete", "*", w.refuse)
	w.client.AddReactor("*", "*", clienttesting.ObjectReaction(w.tracker))
	w.client.PrependReactor("list", "pods", w.listPods)
	w.client.PrependReactor("create", "pods", w.evict)
	w.client.PrependReactor("delete", "pods", w.delete)
	w.client.PrependReactor("get", "deployments", w.scale)
	w.client.PrependReactor("update", "deployments", w.scale)
	for _, name := range []string{"edge", "other"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("node-" + name), Labels: map[string]string{"type": "virtual-kubelet"},
		}}
		node.Status.NodeInfo.KubeletVersion = "v1.36.3+burstlet-0.1.0"
		w.add(node)
		w.add(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: name}})
		w.add(&certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "csr-" + name},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				SignerName: certificatesv1.KubeletServingSignerName, Request: request(t, "system:node:"+name, "system:nodes"),
			},
		})
	}
	if running {
		w.replicas = 2
		w.renew()
	}
	w.pod("edge", "web", "ReplicaSet")
	w.pod("edge", "bare", "")
	w.pod("edge", "agent", "DaemonSet")
	w.pod("other", "theirs", "")
	return w
}

func (w *world) add(obj runtime.Object) {
	w.t.Helper()
	if err := w.tracker.Add(obj); err != nil {
		w.t.Fatal(err)
	}
}

// pod makes a pod that runs.
func (w *world) pod(node, name, owner string) *corev1.Pod {
	w.t.Helper()
	w.made++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(fmt.Sprintf("uid-%s-%d", name, w.made)),
		},
		Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if owner != "" {
		pod.OwnerReferences = ownedBy(owner)
	}
	w.add(pod)
	w.remote[pod.UID] = node
	return pod
}

func (w *world) say(line string) {
	w.mu.Lock()
	w.lines = append(w.lines, line)
	n := len(w.lines)
	w.mu.Unlock()
	if w.onLine != nil {
		w.onLine(n, line)
	}
}

// listPods looks at field selectors, as the tracker does not.
func (w *world) listPods(action clienttesting.Action) (bool, runtime.Object, error) {
	list := &corev1.PodList{}
	restrictions := action.(clienttesting.ListAction).GetListRestrictions()
	node, wanted := restrictions.Fields.RequiresExactMatch("spec.nodeName")
	for _, pod := range w.pods(action.GetNamespace()) {
		if !wanted || pod.Spec.NodeName == node {
			list.Items = append(list.Items, *pod)
		}
	}
	return true, list, nil
}

func (w *world) pods(namespace string) []*corev1.Pod {
	obj, err := w.tracker.List(podKind, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, namespace)
	if err != nil {
		w.t.Error(err)
		return nil
	}
	var pods []*corev1.Pod
	for i := range obj.(*corev1.PodList).Items {
		pods = append(pods, obj.(*corev1.PodList).Items[i].DeepCopy())
	}
	return pods
}

func (w *world) evict(action clienttesting.Action) (bool, runtime.Object, error) {
	create := action.(clienttesting.CreateAction)
	if action.GetSubresource() != "eviction" {
		return false, nil, nil
	}
	eviction := create.GetObject().(*policyv1.Eviction)
	if eviction.Name == w.budget {
		return true, nil, apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	}
	return true, nil, w.end(eviction.Name, *eviction.DeleteOptions)
}

func (w *world) delete(action clienttesting.Action) (bool, runtime.Object, error) {
	del := action.(clienttesting.DeleteActionImpl)
	return true, nil, w.end(del.Name, del.DeleteOptions)
}

// refuse looks at the preconditions of deletions, as the tracker does not. What may
// happen just before one happens here.
func (w *world) refuse(action clienttesting.Action) (bool, runtime.Object, error) {
	del := action.(clienttesting.DeleteActionImpl)
	if w.meanwhile != nil {
		w.meanwhile(del.Resource.Resource, del.Name)
	}
	obj, err := w.tracker.Get(del.Resource, del.Namespace, del.Name)
	if err != nil {
		return true, nil, err
	}
	have, err := meta.Accessor(obj)
	if err != nil {
		return true, nil, err
	}
	for _, as := range []struct{ field, want, have string }{
		{
			"UID", text(del.DeleteOptions.Preconditions, func(p *metav1.Preconditions) *types.UID { return p.UID }),
			string(have.GetUID()),
		},
		{
			"ResourceVersion",
			text(del.DeleteOptions.Preconditions, func(p *metav1.Preconditions) *string { return p.ResourceVersion }),
			have.GetResourceVersion(),
		},
	} {
		if as.want != anything && as.want != as.have {
			return true, nil, apierrors.NewConflict(del.Resource.GroupResource(), del.Name,
				fmt.Errorf(
					"the %s in the precondition (%s) does not match the %s in record (%s)", as.field, as.want, as.field, as.have,
				))
		}
	}
	return false, nil, nil
}

// anything is what a precondition wants that is not set.
const anything = "*"

func text[T ~string](p *metav1.Preconditions, field func(*metav1.Preconditions) *T) string {
	if p == nil || field(p) == nil {
		return anything
	}
	return string(*field(p))
}

// end marks a pod as the API server does.
func (w *world) end(name string, options metav1.DeleteOptions) error {
	obj, err := w.tracker.Get(podKind, "default", name)
	if err != nil {
		return err
	}
	pod := obj.(*corev1.Pod).DeepCopy()
	if options.Preconditions == nil || *options.Preconditions.UID != pod.UID {
		w.t.Errorf("pod %s is deleted without its UID", name)
	}
	if pod.Spec.NodeName != "edge" {
		w.t.Errorf("pod %s of another node is deleted", name)
	}
	if options.GracePeriodSeconds != nil && *options.GracePeriodSeconds == 0 {
		return w.tracker.Delete(podKind, "default", name)
	}
	if pod.DeletionTimestamp == nil {
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(grace)}
		pod.DeletionGracePeriodSeconds = new(int64(grace / time.Second))
	}
	return w.tracker.Update(podKind, pod, "default")
}

// scale is the Deployment's.
func (w *world) scale(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetSubresource() != "scale" {
		return false, nil, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if update, ok := action.(clienttesting.UpdateAction); ok {
		w.replicas = update.GetObject().(*autoscalingv1.Scale).Spec.Replicas
		if w.replicas == 0 {
			w.stopped = time.Now()
		}
	}
	scale := &autoscalingv1.Scale{Status: autoscalingv1.ScaleStatus{Selector: "app=burstlet"}}
	scale.Spec.Replicas = w.replicas
	return true, scale, nil
}

// live is the world's own course: it ends pods where somebody has the node, makes
// DaemonSets' pods, and renews the lease.
func (w *world) live(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(250 * time.Millisecond):
		}
		w.mu.Lock()
		if w.running && !w.stopped.IsZero() && time.Since(w.stopped) > time.Second {
			w.running = false
			w.giveUp()
		}
		if w.running {
			w.renew()
		}
		served := w.running || w.held
		w.mu.Unlock()
		if served {
			w.endPods()
		}
		w.makeDaemons()
	}
}

func (w *world) endPods() {
	known := map[types.UID]bool{}
	for _, pod := range w.pods("default") {
		known[pod.UID] = true
		if pod.DeletionTimestamp == nil || time.Now().Before(pod.DeletionTimestamp.Time) {
			continue
		}
		w.forget(pod.UID)
		if len(pod.Finalizers) == 0 {
			_ = w.tracker.Delete(podKind, "default", pod.Name) // or the removal was faster
			continue
		}
		pod.Status.Phase, pod.DeletionGracePeriodSeconds = corev1.PodFailed, new(int64)
		_ = w.tracker.Update(podKind, pod, "default")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, node := range w.remote {
		if node == "edge" && !known[uid] {
			delete(w.remote, uid)
		}
	}
}

func (w *world) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.remote, uid)
}

// makeDaemons is the DaemonSet controller: there is a pod on each node that exists.
func (w *world) makeDaemons() {
	nodes, err := w.client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.t.Error(err)
	}
	exists := w.stubborn || slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return n.Name == "edge" })
	if exists && !slices.ContainsFunc(w.pods("default"), func(p *corev1.Pod) bool { return ofDaemonSet(p) }) {
		w.mu.Lock()
		defer w.mu.Unlock()
		pod := w.pod("edge", fmt.Sprintf("agent-%d", w.made), "DaemonSet")
		if !w.running { // nobody starts it
			delete(w.remote, pod.UID)
		}
	}
}

func (w *world) renew()  { w.lease("burstlet-1") }
func (w *world) giveUp() { w.lease("") }

func (w *world) lease(holder string) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: election.Namespace, Name: election.Name}}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &holder, new(int32(8))
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	w.revision++
	lease.UID, lease.ResourceVersion = w.leaseUID(), strconv.Itoa(w.revision)
	err := w.tracker.Update(leaseKind, lease, election.Namespace)
	if apierrors.IsNotFound(err) {
		w.leases++
		lease.UID = w.leaseUID()
		err = w.tracker.Create(leaseKind, lease, election.Namespace)
	}
	if err != nil {
		w.t.Error(err)
	}
}

func (w *world) leaseUID() types.UID { return types.UID(fmt.Sprint("lease-", w.leases)) }

// take is the Takeover: nobody else may have the node.
func (w *world) take(ctx context.Context, do func(context.Context, backend.Backend) error) error {
	w.mu.Lock()
	if w.running {
		w.t.Error("two have the node")
	}
	w.held = true
	w.lease("removal")
	w.mu.Unlock()
	w.takers.Add(1)
	defer w.leaves()
	defer w.lock(func() { w.held = false })
	return do(ctx, backend.Backend{Pods: remotePods{w: w}, Sweep: w.sweep, Limits: backend.Limits{Settle: time.Minute}})
}

// leaves gives the Lease up with the last node that is taken over.
func (w *world) leaves() {
	if w.takers.Add(-1) == 0 {
		w.lock(w.giveUp)
	}
}

func (w *world) lock(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

func (w *world) sweep(context.Context) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, node := range w.remote {
		if node == "edge" {
			w.t.Error("swept while a pod runs")
		}
	}
	if len(w.secrets) == 0 {
		return nil, nil
	}
	if w.unlisted > 0 {
		w.unlisted--
		return nil, backend.Errorf(backend.ErrThrottled, "some are not listed yet")
	}
	gone := w.secrets[0]
	w.secrets = w.secrets[1:]
	return []string{gone}, nil
}

// remotePods shows the pods of edge alone, as a backend does.
type remotePods struct {
	backend.Pods
	w *world
}

func (r remotePods) List(context.Context) ([]backend.PodFacts, error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	var facts []backend.PodFacts
	for uid, node := range r.w.remote {
		if node == "edge" {
			facts = append(
				facts, backend.PodFacts{Ref: backend.Ref{UID: uid, Namespace: "default", Name: string(uid)}, Live: true},
			)
		}
	}
	return facts, nil
}

func (w *world) node(change ...func(*Config)) *Node {
	cfg := Config{
		Name: "edge", Client: w.client, Election: election, Takeover: w.take, ForceAfter: time.Minute,
		Recheck: time.Second, Say: w.say,
	}
	for _, c := range change {
		c(&cfg)
	}
	return New(cfg)
}

func (w *world) deployment() *Deployment {
	return &Deployment{Client: w.client, Name: types.NamespacedName{Namespace: "burstlet", Name: "burstlet"}, Say: w.say}
}

// wantNothingLeft checks that all of edge is gone, and nothing else.
func (w *world) wantNothingLeft() {
	w.t.Helper()
	ctx := context.Background()
	var left []string
	nodes, _ := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	for _, n := range nodes.Items {
		left = append(left, "node "+n.Name)
	}
	for _, p := range w.pods("") {
		left = append(left, "pod "+p.Name)
	}
	leases, _ := w.client.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{})
	for _, l := range leases.Items {
		left = append(left, "lease "+l.Name)
	}
	csrs, _ := w.client.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{})
	for _, c := range csrs.Items {
		left = append(left, c.Name)
	}
	for uid := range w.remote {
		left = append(left, "remote "+string(uid))
	}
	left = append(left, w.secrets...)
	slices.Sort(left)
	want := "csr-other, lease other, node other, pod theirs, remote uid-theirs-4"
	if got := strings.Join(left, ", "); got != want {
		w.t.Errorf("left:\n%s\nwant\n%s", got, want)
	}
}
