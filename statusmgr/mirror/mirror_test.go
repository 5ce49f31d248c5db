package mirror

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// statics are static pods over a list of the API's.
type statics struct {
	pods    []*corev1.Pod
	inAPI   func() []*corev1.Pod
	refused []types.UID
	// partly is true while a source was not read.
	partly bool
}

func (s *statics) Known() bool { return !s.partly }

func (s *statics) Pods() []*corev1.Pod { return s.pods }

func (s *statics) Has(uid types.UID) bool {
	return slices.ContainsFunc(s.pods, func(p *corev1.Pod) bool { return p.UID == uid })
}

func (s *statics) Mirror(pod *corev1.Pod) *corev1.Pod {
	for _, m := range s.inAPI() {
		if m.Name == pod.Name && m.Annotations[corev1.MirrorPodAnnotationKey] == string(pod.UID) &&
			m.DeletionTimestamp == nil {
			return m
		}
	}
	return nil
}

func (s *statics) Refuse(uid types.UID) { s.refused = append(s.refused, uid) }

func pod(name string, uid types.UID, mirrors string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid}}
	if mirrors != "" {
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: mirrors}
	}
	return p
}

func TestMirrorPods(t *testing.T) {
	deleted := pod("p", "m", "h")
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{}, []string{"x/y"}
	deleted.DeletionTimestamp.Time = metav1.Now().Time
	for _, tt := range []struct {
		name   string
		static []*corev1.Pod
		inAPI  []*corev1.Pod
		// fails has creates fail.
		fails   error
		nodeUID types.UID
		want    []string
		problem string
		refused int
		partly  bool
	}{
		{name: "made", static: []*corev1.Pod{pod("p", "h", "")}, nodeUID: "n", want: []string{"create p"}},
		{name: "not before the Node is there", static: []*corev1.Pod{pod("p", "h", "")}},
		{
			name: "there already", static: []*corev1.Pod{pod("p", "h", "")}, inAPI: []*corev1.Pod{pod("p", "m", "h")},
			nodeUID: "n",
		},
		{
			name: "of other contents", static: []*corev1.Pod{pod("p", "h2", "")}, inAPI: []*corev1.Pod{pod("p", "m", "h")},
			want: []string{"delete p m"},
		},
		{
			name: "being deleted", static: []*corev1.Pod{pod("p", "h", "")}, inAPI: []*corev1.Pod{deleted},
			want: []string{"delete p m"},
		},
		{name: "of no static pod", inAPI: []*corev1.Pod{pod("p", "m", "h")}, want: []string{"delete p m"}},
		{name: "maybe of one that was not read yet", inAPI: []*corev1.Pod{pod("p", "m", "h")}, partly: true},
		{
			name: "made before all were read", static: []*corev1.Pod{pod("p", "h", "")}, nodeUID: "n", partly: true,
			want: []string{"create p"},
		},
		{
			name: "of other contents before all were read", static: []*corev1.Pod{pod("p", "h2", "")},
			inAPI: []*corev1.Pod{pod("p", "m", "h")}, partly: true, want: []string{"delete p m"},
		},
		{name: "others are left alone", inAPI: []*corev1.Pod{pod("p", "u", "")}},
		{
			name: "the name is taken", static: []*corev1.Pod{pod("p", "h", "")}, inAPI: []*corev1.Pod{pod("p", "u", "")},
			nodeUID: "n",
			problem: "static pod ns/p is not run: the API has a pod of that name",
		},
		{
			name: "refused by admission", static: []*corev1.Pod{pod("p", "h", "")}, nodeUID: "n", want: []string{"create p"},
			fails:   apierrors.NewForbidden(corev1.Resource("pods"), "p", nil),
			problem: "make the mirror pod of static pod ns/p",
		},
		{
			name: "called invalid", static: []*corev1.Pod{pod("p", "h", "")}, nodeUID: "n", want: []string{"create p"},
			fails:   apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "p", nil),
			problem: "static pod ns/p is not run", refused: 1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client := fake.NewClientset()
			var did, problems []string
			client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				made := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
				did = append(did, "create "+made.Name)
				owner := made.OwnerReferences
				if made.Annotations[corev1.MirrorPodAnnotationKey] != "h" || len(owner) != 1 || owner[0].UID != "n" ||
					owner[0].Kind != "Node" {
					t.Errorf("made %+v", made.ObjectMeta)
				}
				return true, made, tt.fails
			})
			client.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				d := a.(clienttesting.DeleteActionImpl)
				if *d.DeleteOptions.GracePeriodSeconds != 0 {
					t.Errorf("deleted with grace %d", *d.DeleteOptions.GracePeriodSeconds)
				}
				did = append(did, "delete "+d.Name+" "+string(*d.DeleteOptions.Preconditions.UID))
				return true, nil, nil
			})
			static := &statics{pods: tt.static, partly: tt.partly, inAPI: func() []*corev1.Pod { return tt.inAPI }}
			m := New(Config{
				Client: client.CoreV1(), Node: "node", NodeUID: func() types.UID { return tt.nodeUID }, Static: static,
				InAPI: func() ([]*corev1.Pod, bool) { return tt.inAPI, true }, Refused: func(*corev1.Pod) {},
				Problem: func(err error) { problems = append(problems, err.Error()) },
			})
			for range 2 { // the second look is within the pause after a failure
				if m.reconcile(context.Background()); tt.fails == nil && len(tt.want) > 0 {
					break
				}
			}
			told := strings.Join(problems, "\n")
			if !slices.Equal(did, tt.want) || (told != "") != (tt.problem != "") || !strings.Contains(told, tt.problem) ||
				len(problems) > 1 || len(static.refused) != tt.refused {
				t.Errorf("did %q, want %q; told %q; refused %v", did, tt.want, told, static.refused)
			}
		})
	}
}

// written notes the statuses that reach the API, by UID.
type written []string

func (w *written) SetStatus(p *corev1.Pod, s corev1.PodStatus) {
	*w = append(*w, string(p.UID)+" "+s.Message)
}
func (w *written) Reclaimed(uid types.UID) { *w = append(*w, "reclaimed "+string(uid)) }
func (w *written) Observe(p *corev1.Pod)   { *w = append(*w, "saw "+string(p.UID)) }
func (w *written) Forget(uid types.UID)    { *w = append(*w, "forgot "+string(uid)) }

// Statuses of static pods reach whatever mirror pod there is.
func TestStatus(t *testing.T) {
	var w written
	var inAPI []*corev1.Pod
	p, other := pod("p", "h", ""), pod("o", "o", "")
	static := &statics{pods: []*corev1.Pod{p}, inAPI: func() []*corev1.Pod { return inAPI }}
	s := NewStatus(&w, static)
	expect := func(step string, want ...string) {
		t.Helper()
		if !slices.Equal(w, want) {
			t.Errorf("%s: %q, want %q", step, w, want)
		}
		w = nil
	}
	s.SetStatus(p, corev1.PodStatus{Message: "one"})
	expect("no mirror pod")
	inAPI = []*corev1.Pod{pod("p", "m1", "h")}
	s.Observe(p)
	expect("it came", "saw m1", "m1 one")
	s.SetStatus(p, corev1.PodStatus{Message: "two"})
	expect("it is there", "m1 two")
	if s.StaticOf("m1") != "h" || s.StaticOf("o") != "o" {
		t.Errorf("m1 shows %s, o %s", s.StaticOf("m1"), s.StaticOf("o"))
	}
	inAPI = nil
	s.Observe(p)
	expect("somebody deleted it")
	inAPI = []*corev1.Pod{pod("p", "m2", "h")}
	s.Observe(p)
	expect("and it was made again", "saw m2", "m2 two")
	if s.StaticOf("m2") != "h" || s.StaticOf("m1") != "m1" {
		t.Errorf("m2 shows %s, m1 %s", s.StaticOf("m2"), s.StaticOf("m1"))
	}
	s.Reclaimed("h")
	s.Forget("h")
	expect("it is gone", "forgot m2")
	s.SetStatus(other, corev1.PodStatus{Message: "x"})
	s.Observe(other)
	s.Reclaimed("o")
	s.Forget("o")
	expect("another pod", "o x", "saw o", "reclaimed o", "forgot o")
}
