package podsource

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

var rv int

func aPod(name string, uid types.UID, change ...func(*corev1.Pod)) *corev1.Pod {
	rv++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: uid, ResourceVersion: fmt.Sprint(rv),
	}}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func TestTake(t *testing.T) {
	deleted := func(grace int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1, 0)}, &grace
		}
	}
	label := func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }
	image := func(p *corev1.Pod) { p.Spec.Containers = []corev1.Container{{Image: "x"}} }
	status := func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }
	for _, tt := range []struct {
		name     string
		old, now *corev1.Pod
		want     []string
	}{
		{"a new pod", nil, aPod("p", "1"), []string{"ADD 1"}},
		{"nothing", aPod("p", "1"), nil, []string{"REMOVE 1"}},
		{"the spec", aPod("p", "1"), aPod("p", "1", image), []string{"UPDATE 1"}},
		{"labels", aPod("p", "1"), aPod("p", "1", label), []string{"UPDATE 1"}},
		{"the status", aPod("p", "1"), aPod("p", "1", status), []string{"RECONCILE 1"}},
		{"a delete", aPod("p", "1"), aPod("p", "1", deleted(30)), []string{"DELETE 1"}},
		{"a shorter grace", aPod("p", "1", deleted(30)), aPod("p", "1", deleted(1)), []string{"DELETE 1"}},
		{"a deleted pod's status", aPod("p", "1", deleted(30)), aPod("p", "1", deleted(30), status), []string{"RECONCILE 1"}},
		// The framework's hand-off is by name: it would see one changed pod, or
		// none where the specs are equal (virtual-kubelet podsEqual).
		{"made anew under its name", aPod("p", "1"), aPod("p", "2"), []string{"REMOVE 1", "ADD 2"}},
		{
			"made anew under its name while it stops", aPod("p", "1", deleted(30)), aPod("p", "2"),
			[]string{"REMOVE 1", "ADD 2"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := cache.NewStore(cache.MetaNamespaceKeyFunc)
			s := New(store, func() bool { return true })
			if tt.old != nil {
				check(t, store.Add(tt.old))
				s.Take()
				check(t, store.Delete(tt.old))
			} else {
				s.Take()
			}
			if tt.now != nil {
				check(t, store.Add(tt.now))
			}
			s.Enqueue("ns/p")
			if got := words(s.Take()); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			s.Enqueue("ns/p")
			if got := s.Take(); got != nil {
				t.Errorf("a hint without a change gives %v", words(got))
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func words(changes []Change) []string {
	var out []string
	for _, c := range changes {
		out = append(out, c.Op.String()+" "+string(c.Pod.UID))
	}
	return out
}

// TestWatchGap: deletes that no handler was told of show when all is compared.
func TestWatchGap(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	s := New(store, func() bool { return true })
	check(t, store.Add(aPod("a", "1")))
	check(t, store.Add(aPod("b", "2")))
	s.Take()
	check(t, store.Replace([]any{aPod("b", "3")}, ""))
	s.EnqueueAll()
	if got, want := words(s.Take()), []string{"REMOVE 1", "REMOVE 2", "ADD 3"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestOrder: additions come in the order in which the pods were made, and
// nothing comes before the first sync.
func TestOrder(t *testing.T) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	synced := false
	s := New(store, func() bool { return synced })
	for i, name := range []string{"c", "a", "b"} {
		check(t, store.Add(aPod(name, types.UID(name), func(p *corev1.Pod) {
			p.CreationTimestamp = metav1.Unix(int64(100-i), 0)
		})))
	}
	if got := s.Take(); got != nil {
		t.Errorf("before the sync: %v", words(got))
	}
	synced = true
	if got, want := words(s.Take()), []string{"ADD b", "ADD a", "ADD c"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
