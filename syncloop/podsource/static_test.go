package podsource

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

type podStore map[string]*corev1.Pod

func (s podStore) ListKeys() (keys []string) {
	for k := range s {
		keys = append(keys, k)
	}
	return keys
}

func (s podStore) GetByKey(key string) (any, bool, error) { pod, ok := s[key]; return pod, ok, nil }

func named(name string, uid types.UID, mirrors string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid}}
	if mirrors != "" {
		pod.Annotations = map[string]string{AnnotationMirror: mirrors}
		pod.ResourceVersion = "7"
		pod.Status.Message = "as mirrored"
	}
	return pod
}

// changes are what a source has to say now, in words.
func changes(s *Source) (out []string) {
	for _, c := range s.Take() {
		out = append(out, fmt.Sprintf("%s %s %s", c.Op, c.Pod.UID, c.Pod.Status.Message))
	}
	return out
}

func TestStaticPods(t *testing.T) {
	api, synced := podStore{"ns/other": named("other", "o", "")}, false
	static := NewStatic(api)
	s := New(static, func() bool { return synced })
	expect := func(step string, want ...string) {
		t.Helper()
		if got := changes(s); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", step, got, want)
		}
	}
	set := func(pods ...*corev1.Pod) {
		for _, key := range static.Set(pods) {
			s.Enqueue(key)
		}
	}
	expect("nothing is known")
	first := named("p", "h1", "")
	for _, key := range static.SetSome([]*corev1.Pod{first}) {
		s.Enqueue(key)
	}
	expect("before the API answers static pods are there", "ADD h1 ")
	if synced = true; s.Synced() {
		t.Error("synced before all static pods are known: what is not among them would be ended")
	}
	synced = false
	set(first)
	expect("they are the same as before")
	if s.Synced() {
		t.Error("synced before the API's pods are known: what is not among them would be ended")
	}
	synced = true
	s.EnqueueAll()
	expect("then the API's", "ADD o ")

	api["ns/p"] = named("p", "m1", "h1")
	s.Enqueue("ns/p")
	expect("the mirror pod lends its status", "RECONCILE h1 as mirrored")
	api["ns/p"] = named("p", "m0", "h0")
	s.Enqueue("ns/p")
	expect("one of another hash does not", "RECONCILE h1 ")

	api["ns/p"] = named("p", "m1", "h1")
	set(named("p", "h2", ""))
	expect("other contents end the pod first", "REMOVE h1 ")
	expect("and wait")
	s.Ended("ns/p", "h1")
	expect("for its end", "ADD h2 ")
	set(named("p", "h1", ""))
	expect("back again", "REMOVE h2 ")
	s.Ended("ns/p", "h2")
	expect("without the status of its life before", "ADD h1 ")

	set()
	expect("the file went", "REMOVE h1 ")
	s.Ended("ns/p", "h1")
	expect("its mirror pod is no pod to run")
	delete(api, "ns/p")

	set(named("other", "h3", ""))
	expect("a name of the API's stays the API's")
	delete(api, "ns/other")
	s.Enqueue("ns/other")
	expect("until it is free", "REMOVE o ", "ADD h3 ")
	static.Refuse("h3")
	s.Enqueue("ns/other")
	expect("a refused one ends", "REMOVE h3 ")
	if len(static.Pods()) > 0 {
		t.Errorf("pods %v", static.Pods())
	}
}
