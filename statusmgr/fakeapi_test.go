package statusmgr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apifields "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

var podResource = schema.GroupResource{Resource: "pods"}

// fakeAPI is a stateful stand-in for pods in the API server: resource versions,
// strategic merge patches, UID and resourceVersion checks, grace, finalizers.
// real_test.go checks the same rules against the real one.
type fakeAPI struct {
	corev1client.PodInterface
	t *testing.T

	mu      sync.Mutex
	pods    map[string]*corev1.Pod
	version int
	calls   []call
	running map[string]int
	peak    int

	// before fails a call before it has an effect, after when it had it.
	before, after func(c call) error
	delay         time.Duration
	watch         func(*corev1.Pod) // called with the lock held
	// meanwhile comes between the server's look at a condemned pod that is
	// updated and its delete of the name, with the lock held.
	meanwhile func()
	ended     map[types.UID]corev1.PodPhase // for watch
}

type call struct {
	verb, name string
	patch      string
	uid        types.UID // precondition
}

func newFakeAPI(t *testing.T) *fakeAPI {
	return &fakeAPI{
		t: t, pods: make(map[string]*corev1.Pod), running: make(map[string]int), ended: make(map[types.UID]corev1.PodPhase),
	}
}

// namespaced makes the fake a PodsGetter of one namespace.
type namespaced struct{ *fakeAPI }

func (n namespaced) Pods(string) corev1client.PodInterface { return n.fakeAPI }

// put stores the pod as it is and returns the API's copy of it.
func (f *fakeAPI) put(pod *corev1.Pod) *corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.store(pod.DeepCopy())
}

func (f *fakeAPI) store(pod *corev1.Pod) *corev1.Pod {
	f.version++
	pod.ResourceVersion = strconv.Itoa(f.version)
	f.pods[pod.Name] = pod
	if f.watch != nil {
		f.watch(pod.DeepCopy())
	}
	return pod.DeepCopy()
}

// update changes the stored pod, as another client would.
func (f *fakeAPI) update(name string, change func(*corev1.Pod)) *corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	pod := f.pods[name].DeepCopy()
	change(pod)
	return f.store(pod)
}

func (f *fakeAPI) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pods, name)
}

// pod returns what is stored, or nil.
func (f *fakeAPI) pod(name string) *corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pods[name].DeepCopy()
}

// count returns how many calls of a verb came in.
func (f *fakeAPI) count(verb string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, c := range f.calls {
		if c.verb == verb {
			n++
		}
	}
	return n
}

func (f *fakeAPI) lastPatch() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.calls) - 1; i >= 0; i-- {
		if f.calls[i].verb == "patch" {
			return f.calls[i].patch
		}
	}
	return ""
}

// do runs one call: counted, delayed, failed as the test wants.
func (f *fakeAPI) do(ctx context.Context, c call, effect func() error) error {
	f.mu.Lock()
	f.calls = append(f.calls, c)
	if f.running[c.name]++; f.running[c.name] > 1 {
		f.t.Errorf("two calls at once for pod %s", c.name)
	}
	f.peak = max(f.peak, len(f.running))
	before, after, delay := f.before, f.after, f.delay
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.running, c.name)
	}()
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if before != nil {
		if err := before(c); err != nil {
			return err
		}
	}
	f.mu.Lock()
	err := effect()
	f.mu.Unlock()
	if err == nil && after != nil {
		err = after(c)
	}
	return err
}

// List is for one name on one node, whose pods all are of that node.
func (f *fakeAPI) List(ctx context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	selector, err := apifields.ParseSelector(o.FieldSelector)
	if err != nil {
		return nil, err
	}
	name, _ := selector.RequiresExactMatch("metadata.name")
	if node, found := selector.RequiresExactMatch("spec.nodeName"); name == "" || !found || node != testNode {
		f.t.Errorf("list with field selector %q, want a name on node %s", o.FieldSelector, testNode)
	}
	out := &corev1.PodList{}
	err = f.do(ctx, call{verb: "list", name: name}, func() error {
		if f.pods[name] != nil {
			out.Items = append(out.Items, *f.pods[name].DeepCopy())
		}
		return nil
	})
	return out, err
}

func (f *fakeAPI) Patch(
	ctx context.Context, name string, kind types.PatchType, data []byte, _ metav1.PatchOptions, sub ...string,
) (*corev1.Pod, error) {
	if kind != types.StrategicMergePatchType || len(sub) != 1 || sub[0] != "status" {
		f.t.Errorf("patch of kind %s on %v, want a strategic merge of status", kind, sub)
	}
	var meta struct {
		Metadata struct{ UID, ResourceVersion string }
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return nil, err
	}
	if meta.Metadata.UID == "" {
		f.t.Errorf("patch without UID: %s", data)
	}
	var out *corev1.Pod
	err := f.do(ctx, call{
		verb: "patch", name: name, patch: string(data), uid: types.UID(meta.Metadata.UID),
	}, func() error {
		held := f.pods[name]
		switch {
		case held == nil:
			return apierrors.NewConflict(podResource, name, errors.New("uid mismatch: no existing object was found"))
		case string(held.UID) != meta.Metadata.UID:
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, name, nil)
		case meta.Metadata.ResourceVersion != "" && meta.Metadata.ResourceVersion != held.ResourceVersion:
			return apierrors.NewConflict(podResource, name, errors.New("the object has been modified"))
		}
		next, err := applyPatch(held, data)
		if err != nil {
			return err
		}
		if condemned(held) {
			f.finishDelete(name)
			out = next
			return nil
		}
		if before, _ := json.Marshal(held); string(before) == mustJSON(next) {
			out = held.DeepCopy() // a patch that changes nothing writes nothing
			return nil
		}
		out = f.store(next)
		return nil
	})
	return out, err
}

// finishDelete is what the server does with an update of a pod that only its
// delete is left of: it deletes the name, whatever holds it by then (Update and
// deleteWithoutFinalizers in apiserver's registry/store.go).
func (f *fakeAPI) finishDelete(name string) {
	if f.meanwhile != nil {
		f.meanwhile()
	}
	delete(f.pods, name)
}

// applyPatch does it as the server does: only status and never the metadata.
func applyPatch(held *corev1.Pod, data []byte) (*corev1.Pod, error) {
	before, err := json.Marshal(held)
	if err != nil {
		return nil, err
	}
	patched, err := strategicpatch.StrategicMergePatch(before, data, corev1.Pod{})
	if err != nil {
		return nil, err
	}
	var next corev1.Pod
	if err := json.Unmarshal(patched, &next); err != nil {
		return nil, err
	}
	out := held.DeepCopy()
	out.Status = next.Status
	return out, nil
}

func mustJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func (f *fakeAPI) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	if opts.GracePeriodSeconds == nil || *opts.GracePeriodSeconds != 0 {
		f.t.Errorf("delete with grace %v, want 0", opts.GracePeriodSeconds)
	}
	if opts.Preconditions == nil || opts.Preconditions.UID == nil {
		f.t.Error("delete without a UID precondition")
		return apierrors.NewBadRequest("no UID precondition")
	}
	uid := *opts.Preconditions.UID
	return f.do(ctx, call{verb: "delete", name: name, uid: uid}, func() error {
		held := f.pods[name]
		switch {
		case held == nil:
			return apierrors.NewNotFound(podResource, name)
		case held.UID != uid:
			return apierrors.NewConflict(podResource, name, fmt.Errorf("the UID in the precondition (%s) does not match", uid))
		case len(held.Finalizers) > 0:
			next := held.DeepCopy()
			next.DeletionGracePeriodSeconds = new(int64)
			f.store(next)
		default:
			delete(f.pods, name)
		}
		return nil
	})
}
