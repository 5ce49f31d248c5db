package provider

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	vknode "github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/provider/kubeletapi"
)

// enqueued records the hints that were given.
type enqueued struct {
	mu   sync.Mutex
	keys map[string]int
}

func (r *enqueued) enqueue(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == nil {
		r.keys = map[string]int{}
	}
	r.keys[key]++
}

func (r *enqueued) count(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[key]
}

// call is one call of the framework.
type call struct {
	verb, key string
	uid       types.UID
}

// spy records what the framework calls, and fails as often as it is told.
type spy struct {
	*podHandler

	mu    sync.Mutex
	calls []call
	fail  int // CreatePod fails so often
}

var _ vknode.PodNotifier = (*spy)(nil)

func (s *spy) note(verb string, pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call{verb, pod.Namespace + "/" + pod.Name, pod.UID})
}

func (s *spy) CreatePod(ctx context.Context, pod *corev1.Pod) error {
	s.note("create", pod)
	s.mu.Lock()
	fail := s.fail > 0
	s.fail--
	s.mu.Unlock()
	if fail {
		return io.ErrUnexpectedEOF
	}
	return s.podHandler.CreatePod(ctx, pod)
}

func (s *spy) UpdatePod(ctx context.Context, pod *corev1.Pod) error {
	s.note("update", pod)
	return s.podHandler.UpdatePod(ctx, pod)
}

func (s *spy) DeletePod(ctx context.Context, pod *corev1.Pod) error {
	s.note("delete", pod)
	return s.podHandler.DeletePod(ctx, pod)
}

func (s *spy) count(want call) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.calls {
		if c == want {
			n++
		}
	}
	return n
}

func (s *spy) verbs(verb string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.calls {
		if c.verb == verb {
			n++
		}
	}
	return n
}

// newPod is a pod that runs one container.
func newPod(name string, uid types.UID) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid, ResourceVersion: "1"},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func running(pod *corev1.Pod) *corev1.Pod {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name:  "c",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	return pod
}

func deleting(pod *corev1.Pod, grace int64) *corev1.Pod {
	now := metav1.NewTime(time.Now())
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
	return pod
}

// writes are the calls that would have changed a kind of object in the API.
func writes(client *fake.Clientset, kind string) []string {
	var found []string
	for _, action := range client.Actions() {
		if action.GetResource().Resource == kind &&
			!slices.Contains([]string{"get", "list", "watch"}, action.GetVerb()) {
			found = append(found, action.GetVerb())
		}
	}
	return found
}

// fakeRemote is a backend.Node and an Engine in one.
type fakeRemote struct {
	kubeletapi.Streams  // not called here
	kubeletapi.Measurer // not called here

	mu     sync.Mutex
	facts  backend.NodeFacts
	err    error
	relist func() time.Time
	logs   func(opts backend.LogOptions) (io.ReadCloser, error)
	pods   []*corev1.Pod
}

func newRemote() *fakeRemote {
	return &fakeRemote{relist: time.Now, facts: backend.NodeFacts{
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		},
		OS: "linux", Arch: "amd64", Kernel: "6.1", OSImage: "Debian 12", RuntimeVersion: "fake://1", NetworkReady: true,
	}}
}

func (f *fakeRemote) set(change func(*fakeRemote)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeRemote) Describe(context.Context) (backend.NodeFacts, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.facts, f.err
}

func (f *fakeRemote) LastRelist() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.relist()
}

func (*fakeRemote) PodUID(backend.Ref) types.UID { return "" }

func (*fakeRemote) AwaitPod(context.Context, backend.Ref) error { return nil }

func (*fakeRemote) LastLoop() time.Time { return time.Now() }

func (*fakeRemote) Stats(context.Context, time.Duration) (backend.StatsFacts, error) {
	return backend.StatsFacts{}, backend.Errorf(backend.ErrUnsupported, "nothing is measured")
}

func (f *fakeRemote) Pods(func(*corev1.Pod) bool) []*corev1.Pod { return f.pods }

func (f *fakeRemote) SystemLog(context.Context, backend.SystemLogQuery) (io.ReadCloser, error) {
	return nil, backend.Errorf(backend.ErrUnsupported, "no logs of a host")
}

func (f *fakeRemote) ContainerLogs(
	_ context.Context, ns, pod, container string, _ bool, opts backend.LogOptions,
) (io.ReadCloser, error) {
	if f.logs == nil {
		return nil, backend.Errorf(backend.ErrNotFound, "pod %s/%s has no container %s", ns, pod, container)
	}
	return f.logs(opts)
}

func capacityOf(t *testing.T, node *corev1.Node, name corev1.ResourceName) string {
	t.Helper()
	q := node.Status.Capacity[name]
	return q.String()
}
